from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work


def test_equal_plans_are_equal_values() -> None:
    one = work.Job("k", (work.Opcode("power", {"node": "n", "command": "off"}),), (), None, "why")
    other = work.Job("k", (work.Opcode("power", {"command": "off", "node": "n"}),), (), None, "why")
    assert one == other


def test_a_job_cannot_be_changed() -> None:
    job = work.Job("k", (), (), None, "why")
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.key = "other"  # type: ignore[misc] # the point of the test
