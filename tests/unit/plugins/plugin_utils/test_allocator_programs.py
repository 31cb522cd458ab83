from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import allocator_programs
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import allocator_json

from .rounds import requests, small_models

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = small_models.make(requests.CLUSTER)
RELOCATE = allocator.Relocate("web1", ("node2",))
YES = json.dumps({"success": True, "info": "", "result": ["node3"]})


def _program(folder: Path, script: str, *, seconds: float = 30) -> allocator_programs.Program:
    path = folder / "allocator"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return allocator_programs.Program(path, seconds=seconds)


def test_a_program_reads_the_request_and_its_answer_is_the_result(tmp_path: Path) -> None:
    program = _program(tmp_path, f"cp $1 {tmp_path}/seen; ls -l $1 > {tmp_path}/mode; echo '{YES}'")
    assert program.decide(CLUSTER, RELOCATE).placements == (allocator.Placement("web1", ("node3",)),)
    assert allocator_json.read((tmp_path / "seen").read_text(encoding="utf-8"))[1] == RELOCATE
    name = (tmp_path / "mode").read_text(encoding="utf-8").split()
    assert name[0].startswith("-rw-------")
    assert not os.path.exists(name[-1])  # noqa: PTH110 -- a name that ls printed


def test_soft_errors_are_ignored_by_an_argument_as_ganeti_does_it(tmp_path: Path) -> None:
    program = _program(tmp_path, f"echo $2 > {tmp_path}/seen; exit 1")
    for ignores, seen in [(False, "\n"), (True, "--ignore-soft-errors\n")]:
        with pytest.raises(errors.CommandFailed):
            program.decide(CLUSTER, allocator.Evacuate(("web1",), allocator.Scope.ALL, ignores_soft_errors=ignores))
        assert (tmp_path / "seen").read_text(encoding="utf-8") == seen


@pytest.mark.parametrize(
    ("script", "reason", "text"),
    [
        ("echo no such '\n' luck >&2; exit 3", "failed", "failed: no such luck"),
        ("exit 3", "failed", "failed: exit status 3"),
        ("kill -9 $$", "failed", "failed: exit status -9"),
    ],
)
def test_a_program_that_fails_says_why(tmp_path: Path, script: str, reason: str, text: str) -> None:
    with pytest.raises(errors.CommandFailed, match=f"{text}$") as caught:
        _program(tmp_path, script).decide(CLUSTER, RELOCATE)
    assert caught.value.reason == reason


def test_a_program_that_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(errors.CommandFailed, match="No such file") as caught:
        allocator_programs.Program(tmp_path / "allocator").decide(CLUSTER, RELOCATE)
    assert caught.value.reason == "start"


def test_an_answer_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match=r"^the allocator's answer is no JSON"):
        _program(tmp_path, "echo hello").decide(CLUSTER, RELOCATE)


@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_a_program_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path, end: str) -> None:
    """Also when the program itself has ended, and a child of it keeps its output open."""
    program = _program(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; {end}", seconds=2)
    with pytest.raises(errors.CommandFailed, match="did not end within 2 seconds") as caught:
        program.decide(CLUSTER, RELOCATE)
    assert caught.value.reason == "timeout"
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    assert _ended(child)


def _ended(pid: int) -> bool:
    """Whether it is gone, or dead and not yet collected; a killed process needs a moment."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123 -- of another process
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        os.sched_yield()
    return False
