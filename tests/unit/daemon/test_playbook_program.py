"""`roundsman-playbook` becomes ansible-playbook; `tests/integration/test_upgrades.py` runs it through upgrades."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from ansible_collections.roundsman.cluster.daemon import playbook_program
from ansible_collections.roundsman.cluster.plugins.plugin_utils import installed_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Became(Exception):
    """The process would be another program now."""


@pytest.mark.parametrize("has_lock", [False, True])
def test_the_lock_of_the_version_is_held_by_the_program_that_it_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_lock: bool
) -> None:
    lock = os.open(tmp_path, os.O_RDONLY | os.O_CLOEXEC)

    def become(program: Path, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        assert (program.name, words[1:]) == ("ansible-playbook", ["play.yml"])
        assert environment["PATH"].startswith(f"{Path(sys.executable).parent}:")
        assert os.get_inheritable(lock) is has_lock
        raise Became

    monkeypatch.setattr(sys, "argv", ["roundsman-playbook", "play.yml"])
    monkeypatch.setattr(installed_version, "hold", lambda: lock if has_lock else None)
    monkeypatch.setattr(os, "execve", become)
    with pytest.raises(Became):
        playbook_program.main()
    os.close(lock)
