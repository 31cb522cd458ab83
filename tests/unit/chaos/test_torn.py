"""What a crash tears: half a line after what a run recorded, and never what the run was told is durable."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording

from tests.chaos import torn

if TYPE_CHECKING:
    from pathlib import Path

OFF = changes.NodePowered("n3", powered=False)


@pytest.mark.parametrize("seed", range(8))
def test_the_changes_that_a_lost_run_had_recorded_survive_a_torn_line(tmp_path: Path, seed: int) -> None:
    (tmp_path / "began").touch()
    run_records.append(tmp_path, recording.encode(OFF))
    before = (tmp_path / "changes.jsonl").read_bytes()
    assert torn.tear_records(tmp_path, chance=random.Random(seed)) == tmp_path / "changes.jsonl"
    assert len((tmp_path / "changes.jsonl").read_bytes()) > len(before)
    assert run_records.recorded(tmp_path, expected=None) == run_records.Recorded([OFF], [])


def test_a_run_that_had_ended_or_never_began_is_not_torn(tmp_path: Path) -> None:
    assert torn.tear_records(tmp_path, chance=random.Random(1)) is None
    (tmp_path / "began").touch()
    run_records.conclude(tmp_path, {"status": "success", "text": "done"})
    assert torn.tear_records(tmp_path, chance=random.Random(1)) is None
