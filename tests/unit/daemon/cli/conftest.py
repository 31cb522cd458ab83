from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import pytest
from ansible_collections.roundsman.cluster.daemon.cli import main

from tests.unit.daemon.cli import canned, stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Run(Protocol):
    def __call__(self, *words: str) -> tuple[int, str, str]: ...


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[stand_in.StandIn]:
    """A stand-in for the daemon that the command line finds by ROUNDSMAN_ROOT."""
    monkeypatch.setenv("ROUNDSMAN_ROOT", str(tmp_path / "root"))
    with stand_in.serve(tmp_path / "root") as server:
        server.answers.update(canned.answers())
        yield server


@pytest.fixture
def roundsman(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command; returns exit status, standard output and standard error."""
    for name in [one for one in os.environ if one in {"FORCE_COLOR", "TTY_COMPATIBLE", "GITHUB_ACTIONS"}]:
        monkeypatch.delenv(name)

    def run(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.main(words)
        out, err = capfd.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return code, out, err

    return run
