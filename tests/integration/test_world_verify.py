"""`cluster verify` in a lab: what differs is looked at twice, and a node that hangs holds up no failover."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from . import interceptions, labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow
NAME, SOURCE = "instance1", "node2"


def test_what_differs_is_a_finding_and_a_node_that_hangs_holds_up_no_failover(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=4, pairs=[(SOURCE, "node3"), ("node1", SOURCE)])
    (one.lab.node("node1").root / "var/lib/roundsman/fake/running/instance2.json").unlink()
    done = states.command(one, "cluster", "verify", "-o", "json")
    assert [(found["check"], found["node"]) for found in json.loads(done.stdout)] == [("instances", "node1")], done
    assert "instance2 does not run on its primary node1" in done.stdout
    hanging = interceptions.Interception(one, tmp_path / "hang", node="node4", words=("instance_info",), stays=True)
    verified = one.put("/2/verify").json()
    hanging.wait()
    failed_over = one.put(f"/2/instances/{NAME}/failover", {}).json()
    assert states.job_ended(one, failed_over)["status"] == "success"
    one.delete(f"/2/jobs/{verified}")
