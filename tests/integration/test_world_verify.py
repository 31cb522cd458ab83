"""`cluster verify` in a lab: what differs is looked at twice, and a node that hangs holds up no failover."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from . import interceptions, labs, states

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow
NAME, SOURCE = "instance1", "node2"


def test_offline_nodes_are_asked_too_and_one_that_does_not_answer_is_named_and_nothing_wrong(
    lab: Callable[..., labs.Running],
) -> None:
    def set_offline(cluster: clusters.Cluster) -> clusters.Cluster:
        for name in ("node3", "node4"):
            cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node(name), offline=True))
        return cluster

    one = lab(nodes=4, pairs=[("node1", "node2")], edit=set_offline)
    assert states.command(one, "lab", "break", "node4", "--silent").returncode == 0

    done = states.command(one, "cluster", "verify")

    assert done.returncode == 0, done
    assert "Nothing is wrong on 3 of 4 nodes" in done.stdout
    assert "Not looked at: node4, because it is offline, and it does not answer.\n" in done.stdout

    # One that ran on, or booted and started what it had: nothing else asks it.
    assert fake.Driver(one.lab.node("node3").root, opcode="by hand").start("instance1", {"memory": 128})
    done = states.command(one, "cluster", "verify", "-o", "json")
    assert done.returncode == 1, done
    assert done.stdout, done
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["check"], found["node"]) == ("instances", "node3")
    assert "instance1 is running on node3, and its primary is node1, where it is running too" in found["text"]


def test_what_differs_is_a_finding_and_a_node_that_hangs_holds_up_no_failover(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=4, pairs=[(SOURCE, "node3"), ("node1", SOURCE)])
    (one.lab.node("node1").root / "var/lib/roundsman/fake/running/instance2.json").unlink()
    done = states.command(one, "cluster", "verify", "-o", "json")
    assert [(found["check"], found["node"]) for found in json.loads(done.stdout)["findings"]] == [
        ("instances", "node1")
    ], done
    assert "instance2 does not run on its primary node1" in done.stdout
    hanging = interceptions.Interception(one, tmp_path / "hang", node="node4", words=("instance_info",), stays=True)
    verified = one.put("/2/verify").json()
    hanging.wait()
    failed_over = one.put(f"/2/instances/{NAME}/failover", {}).json()
    assert states.job_ended(one, failed_over)["status"] == "success"
    one.delete(f"/2/jobs/{verified}")
