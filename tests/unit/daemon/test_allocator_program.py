from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import allocator_program
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import (
    allocator_requests,
    own_allocator,
)

from tests.unit.plugins.plugin_utils.rounds import requests, small_models

if TYPE_CHECKING:
    from pathlib import Path

EVACUATE = allocator.Evacuate(("web1",), allocator.Scope.ALL)


class Told:
    """An allocator that answers with what it was asked."""

    def decide(self, _: Any, request: Any) -> allocator.Result:
        if isinstance(request, allocator.Evacuate):
            return allocator.Result(info=f"{request.instances} {request.ignores_soft_errors}")
        return allocator.Result((allocator.Placement("new1", ("node1", "node2")),))


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_allocator, "make", Told)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    allocator_program.main(arguments)
    output = capsys.readouterr()
    assert not output.err
    assert output.out.count("\n") == 1
    return json.loads(output.out)


def _file(folder: Path, request: allocator.Request) -> str:
    path = folder / "request"
    path.write_text(allocator_requests.write(small_models.make(requests.CLUSTER), request), encoding="utf-8")
    return str(path)


def test_the_answer_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _run(capsys, _file(tmp_path, allocator.Relocate("web1", ("node2",))))
    assert answer == {"success": True, "info": "Request successful: placed", "result": ["node2"]}


def test_ganeti_asks_by_an_argument_to_ignore_soft_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(tmp_path, EVACUATE)
    assert _run(capsys, file)["info"].endswith("False")
    assert _run(capsys, file, "--ignore-soft-errors")["info"].endswith("True")


@pytest.mark.parametrize(
    ("content", "info"),
    [
        (b"nonsense", "the request is no JSON"),
        (b'{"version": 3}', "version: version 2 of the protocol was expected, not 3"),
        (b"\xff", "'utf-8' codec can't decode"),
    ],
)
def test_what_cannot_be_read_is_answered_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, info: str
) -> None:
    file = tmp_path / "request"
    file.write_bytes(content)
    answer = _run(capsys, str(file))
    assert (answer["success"], answer["result"]) == (False, [])
    assert answer["info"].startswith(f"Request failed: {info}")


def test_a_file_that_is_not_there_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, str(tmp_path / "none"))["info"].endswith("none: No such file or directory")
