from __future__ import annotations

import asyncio
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import process, recovery, settling
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording

if TYPE_CHECKING:
    from pathlib import Path

OFF = changes.NodePowered("n3", powered=False)


def run(folder: Path, status: str = "success") -> Path:
    (folder / "began").touch()
    run_records.append(folder, recording.encode(OFF))
    run_records.conclude(folder, {"status": status, "text": "so"})
    return folder


@pytest.mark.parametrize(("status", "succeeded"), [("success", True), ("error", False)])
def test_a_result_says_how_a_run_ended(tmp_path: Path, status: str, *, succeeded: bool) -> None:
    found = asyncio.run(settling.settle(run(tmp_path, status)))
    assert found == settling.Settlement(succeeded=succeeded, text="so", recorded=[OFF], unreadable=[])


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"status": "success", "changes": 1}'])
def test_a_damaged_result_is_a_loss_that_names_the_file_and_whose_changes_count(tmp_path: Path, data: str) -> None:
    run(tmp_path)
    (tmp_path / "result.json").write_text(data)
    assert recovery.recover(process.traces(tmp_path)) is recovery.Step.LOSE
    found = asyncio.run(settling.settle(tmp_path))
    assert (found.succeeded, found.recorded) == (False, [OFF])
    assert found.text.startswith(f"{tmp_path}/result.json is damaged: ")
    assert found.text.endswith("it counts as lost, and is not repeated")


def test_a_run_with_a_damaged_result_did_run_even_without_its_first_act(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "began").unlink()
    (tmp_path / "result.json").write_text("{")
    assert recovery.recover(process.traces(tmp_path)) is recovery.Step.LOSE


def test_recorded_changes_that_are_missing_are_told(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "changes.jsonl").unlink()
    found = asyncio.run(settling.settle(tmp_path))
    assert found.unreadable == [f"{tmp_path}/changes.jsonl is damaged: 1 of 1 recorded changes are missing"]


def test_a_run_that_ended_before_it_began_failed_with_what_it_said(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("Traceback\nImportError: no ansible\n")
    found = asyncio.run(settling.settle(tmp_path))
    assert (found.succeeded, found.recorded) == (False, [])
    assert found.text.endswith("ImportError: no ansible")


def test_what_is_left_of_a_lost_run_is_ended_before_its_changes_are_read(tmp_path: Path) -> None:
    run(tmp_path)
    (tmp_path / "result.json").unlink()
    with subprocess.Popen(["sleep", "600"], env={**os.environ, process.RUN_VARIABLE: str(tmp_path)}) as left:
        found = asyncio.run(settling.settle(tmp_path))
        assert left.wait() < 0
    assert (found.succeeded, found.recorded) == (False, [OFF])
    assert "lost" in found.text
