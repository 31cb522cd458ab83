from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import process, settling
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes

if TYPE_CHECKING:
    from pathlib import Path

OFF = changes.NodePowered("n3", powered=False)
LINE = json.dumps(changes.encode(OFF)).encode() + b"\n"


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    for torn in (b"", LINE[:20], LINE[:-1], b"\0\0"):
        (tmp_path / "changes.jsonl").write_bytes(LINE + torn)
        assert settling.recorded_changes(tmp_path / "changes.jsonl") == ([OFF], [])
    assert settling.recorded_changes(tmp_path / "none") == ([], [])


@pytest.mark.parametrize("bad", [b'{"change": "node_pow\n', b"5\n", b"[]\n", b"\n", b'{"change": "x"}\n', b"\xff\n"])
def test_a_torn_middle_line_is_told_with_its_number_and_the_others_count(tmp_path: Path, bad: bytes) -> None:
    (tmp_path / "changes.jsonl").write_bytes(LINE + bad + LINE)
    found, unreadable = settling.recorded_changes(tmp_path / "changes.jsonl")
    assert found == [OFF, OFF]
    assert [text.partition(" cannot be read")[0] for text in unreadable] == [f"{tmp_path}/changes.jsonl, line 2"]


@pytest.mark.parametrize(("status", "succeeded"), [("success", True), ("error", False)])
def test_a_result_says_how_a_run_ended(tmp_path: Path, status: str, *, succeeded: bool) -> None:
    (tmp_path / "changes.jsonl").write_bytes(LINE)
    (tmp_path / "result.json").write_text(json.dumps({"status": status, "text": "so"}))
    assert settling.settle(tmp_path) == settling.Settlement(
        succeeded=succeeded, text="so", recorded=[OFF], unreadable=[]
    )


@pytest.mark.parametrize("data", ["", "[]", "{}"])
def test_a_damaged_result_is_a_failure_whose_changes_count(tmp_path: Path, data: str) -> None:
    (tmp_path / "changes.jsonl").write_bytes(LINE)
    (tmp_path / "result.json").write_text(data)
    found = settling.settle(tmp_path)
    assert (found.succeeded, found.recorded) == (False, [OFF])


def test_a_run_that_ended_before_it_began_failed_with_what_it_said(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("Traceback\nImportError: no ansible\n")
    found = settling.settle(tmp_path)
    assert (found.succeeded, found.recorded) == (False, [])
    assert found.text.endswith("ImportError: no ansible")


def test_what_is_left_of_a_lost_run_is_ended_before_its_changes_are_read(tmp_path: Path) -> None:
    (tmp_path / "began").touch()
    (tmp_path / "changes.jsonl").write_bytes(LINE)
    with subprocess.Popen(["sleep", "600"], env={**os.environ, process.RUN_VARIABLE: str(tmp_path)}) as left:
        found = settling.settle(tmp_path)
        assert left.wait() < 0
    assert (found.succeeded, found.recorded) == (False, [OFF])
    assert "lost" in found.text
