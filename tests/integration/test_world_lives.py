"""A source that lived on after its last report: what its BMC, and nobody, knew of it decides about its replica."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from . import labs, states
from .test_dead_nodes import agents, everyone_answers, runs, up
from .test_world_evidence import PAIR, ended

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GAP = 5.0
"""Two intervals of three nodes that a playbook asks each second (`report_ages.cycle`)."""


def last_in_sync(one: labs.Running, instance: str) -> float:
    """When the pair of an instance was last reported in sync, in unix seconds."""
    known = one.get(f"/1/explain/{instance}")["replicas"]
    return max((fact["last_in_sync"] or 0.0 for fact in known), default=0.0)


def is_apart(one: labs.Running, instance: str, node: str) -> bool:
    """Whether a node's newest report says that it has lost its peer."""
    facts = [fact["fact"] for fact in one.get(f"/1/explain/{instance}")["replicas"] if fact["node"] == node]
    return any(fact is not None and fact["connection"] != "Connected" for fact in facts)


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["by a command", "by a failover"])
def test_a_silent_node_whose_bmc_read_on_after_its_secondary_lost_it_is_not_failed_over(
    asked: str, lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one, port = up(lab, dead_node_policy="none", dead_after=0)
    with agents(one, port, tmp_path) as running:
        one.until(everyone_answers, "all agents answer")
        cluster = one.cluster()
        held = cluster.primaries(cluster.node("node2").uuid)[0]
        target = cluster.node_name(held.secondary_nodes[0])
        running["node2"].kill()
        one.until(lambda _: one.get("/1/explain/node2")["node"]["agent"]["misses"], "its silence is seen")
        one.lab.node("node2").cut(is_cut=True)
        one.until(lambda _: is_apart(one, held.name, target), "its secondary has lost it, and it writes on")
        if asked == "by a command":
            assert one.put("/2/nodes/node2/power", {"command": "status"}).is_success
            one.until(states.at_rest, "its BMC reads on")
        else:
            refused = ended(one, one.put(f"/2/instances/{held.name}/failover"))
            assert "reads on" in refused["opcodes"][0]["text"], refused
        one.lab.node("node2").lose_power()
        assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
        one.until(states.at_rest, "its power is on record")

        failed = ended(one, one.put(f"/2/instances/{held.name}/failover"))

    assert failed["status"] == "error", failed
    assert "while node2 was alive" in failed["opcodes"][0]["text"]
    assert runs(one, target) == [name.name for name in cluster.primaries(cluster.node(target).uuid)]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_that_hangs_and_is_never_asked_by_its_bmc_lives_while_its_agents_port_accepts_connections(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one, port = up(lab, dead_node_policy="none", dead_after=0)

    def misses() -> int:
        return int(one.get("/1/explain/node2")["node"]["agent"]["misses"])

    with agents(one, port, tmp_path):
        one.until(everyone_answers, "all agents answer")
        cluster = one.cluster()
        held = cluster.primaries(cluster.node("node2").uuid)[0]
        target = cluster.node_name(held.secondary_nodes[0])
        node = one.lab.node("node2")
        node.hang(is_hung=True)
        one.until(lambda _: misses(), "its silence is seen")
        node.cut_link(target, is_cut=True)
        one.until(lambda _: is_apart(one, held.name, target), "its secondary has lost it, and it writes on")
        before = misses()
        one.until(lambda _: misses() > before + 1, "it was asked once more, and hangs")
        node.lose_power()
        assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
        one.until(states.at_rest, "its power is on record")

        failed = ended(one, one.put(f"/2/instances/{held.name}/failover"))

    assert failed["status"] == "error", failed
    assert "while node2 was alive" in failed["opcodes"][0]["text"]
    assert runs(one, target) == [name.name for name in cluster.primaries(cluster.node(target).uuid)]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_that_was_set_offline_while_it_ran_has_lived_until_its_bmc_read_off(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR, settings={"diagnose_interval": 1.0})
    one.until(lambda _: last_in_sync(one, "instance1"), "the pair is reported in sync")
    assert ended(one, one.put("/2/nodes/node2/role?force=1", "offline"))["status"] == "success"
    one.lab.node("node2").cut_link("node3", is_cut=True)
    one.until(lambda _: is_apart(one, "instance1", "node3"), "its secondary has lost it, and it writes on")
    one.until(lambda _: time.time() - last_in_sync(one, "instance1") > 2 * GAP, "it has written on for a while")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")

    failed = ended(one, one.put("/2/instances/instance1/failover"))

    assert failed["status"] == "error", failed
    assert "until when nobody knows of a silence of node2" in failed["opcodes"][0]["text"]
    assert runs(one, "node3") == []
    assert one.wrong() == []
