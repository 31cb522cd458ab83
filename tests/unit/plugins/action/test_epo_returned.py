from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.action import epo_returned

from tests.unit import small_cluster

RUNNING = {"name": "inst1", "running": True}


@pytest.mark.parametrize(
    ("node", "result", "found"),
    [
        ("node2", RUNNING, {"i1"}),
        # The primary is node2: what another node says of the instance counts for nothing, and a claim is a plain one.
        ("node3", RUNNING, set()),
        ("node2", {**RUNNING, "running": "yes"}, set()),
        ("node2", {"name": ["inst1"], "running": True}, set()),
        ("node2", {}, set()),
    ],
)
def test_only_its_own_primary_says_that_an_instance_runs_again(
    node: str, result: dict[str, Any], found: set[str]
) -> None:
    told: dict[str, Any] = {"hostvars": {name: {} for name in ("node1", "node2", "node3", "node10")}}
    told["hostvars"][node] = {"epo_step": {"results": [result]}}
    assert epo_returned._running(small_cluster.make(), told) == found
