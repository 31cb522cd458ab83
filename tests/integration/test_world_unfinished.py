"""A migration whose play was killed after the guest arrived, and the death of one of its two nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_world

from . import interceptions, labs, states
from .test_dead_nodes import runs
from .test_world_evidence import ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow
PAIR = [("node2", "node3")]
NAME = "instance1"
SLOW = 4 * labs.LIMIT


def arrived(lab: Callable[..., labs.Running], tmp_path: Path) -> labs.Running:
    """A lab whose daemon ended with a migration that had taken the guest to node3, and was not recorded."""
    one = lab(nodes=4, instances=1, pairs=PAIR)
    labs.report_all(one)
    seen = interceptions.Interception(one, tmp_path / "killed", node="node2", words=("instance_migrate",), stays=True)
    assert one.put(f"/2/instances/{NAME}/migrate").is_success
    seen.wait(seconds=SLOW)
    one.look("node2", "node3")
    one.kill_with_jobs()
    assert (runs(one, "node2"), runs(one, "node3")) == ([], [NAME])
    return one


def where(one: labs.Running) -> tuple[str, str]:
    """The primary on record, and where a migration that has not ended was to go."""
    cluster = one.cluster()
    instance = cluster.instance(NAME)
    return cluster.node_name(instance.primary_node), cluster.node_name(instance.moving)


def off(one: labs.Running, node: str) -> None:
    """Have it known that a node has no power."""
    assert one.put(f"/2/nodes/{node}/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, f"the power of {node} is on record", seconds=SLOW)


def test_a_guest_that_a_killed_migration_took_away_is_recorded_there_and_not_started_when_its_source_dies(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = arrived(lab, tmp_path)
    one.lab.node("node2").lose_power()
    one.start()
    one.until(states.at_rest, "it was looked for", seconds=SLOW)
    assert where(one) == ("node2", "node3")

    off(one, "node2")
    done = ended(one, one.put(f"/2/instances/{NAME}/failover"))

    assert done["status"] == "success", done
    assert "runs on node3 already" in done["opcodes"][0]["text"]
    assert (where(one), runs(one, "node3")) == (("node3", ""), [NAME])
    events = [entry["event"] for entry in one.lab.node("node3").journal() if entry.get("instance") == NAME]
    assert ("received" in events, "started" in events) == (True, False)
    assert one.wrong() == []


def test_what_a_guest_wrote_where_a_killed_migration_took_it_is_not_lost_silently_when_that_node_dies(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = arrived(lab, tmp_path)
    target = one.lab.node("node3")
    target.cut_link("node2", is_cut=True)
    alone = simulated_world.acknowledged(target.root, NAME) or 0
    while (simulated_world.acknowledged(target.root, NAME) or 0) < alone + 50:
        assert runs(one, "node3") == [NAME], "it writes on alone"
    target.lose_power()
    one.start()
    one.until(states.at_rest, "it was looked for", seconds=SLOW)
    assert one.put("/2/modify", {"failover_max_loss": 1}).is_success
    one.until(states.at_rest, "the limit is set", seconds=SLOW)
    assert where(one) == ("node2", "node3")

    off(one, "node3")
    refused = ended(one, one.put(f"/2/instances/{NAME}/startup"))
    assert refused["status"] == "error", refused
    text = refused["opcodes"][0]["text"]
    assert "may lack the writes of the last" in text
    assert runs(one, "node2") == []

    accepted = states.stated_loss(text, f"{NAME} --to node2")
    assert accepted
    done = ended(one, one.put(f"/2/instances/{NAME}/failover", {"max_loss": accepted, "target_node": "node2"}))
    assert done["status"] == "success", done
    assert done["opcodes"][0]["text"].startswith("possible loss: writes of the last ")
    assert (where(one), runs(one, "node2")) == (("node2", ""), [NAME])
    assert one.wrong() == []
