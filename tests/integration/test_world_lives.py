"""A source that lived and wrote alone after its secondary had lost it: the limit of the possible loss decides."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import sights

from . import labs, states
from .test_dead_nodes import everyone_answers, runs, up
from .test_world_evidence import PAIR, ended

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 3
"""Seconds of writes that a failover may lose here."""


def limit_loss(one: labs.Running) -> None:
    """Have the cluster's limit set to those seconds."""
    answer = one.put("/2/modify", {"failover_max_loss": LIMIT})
    assert answer.is_success, answer.text
    one.until(states.at_rest, "the limit is set")


def last_in_sync(one: labs.Running, instance: str) -> float:
    """When the pair of an instance was last reported in sync, in unix seconds."""
    known = one.get(f"/1/explain/{instance}")["replicas"]
    return max((fact["last_in_sync"] or 0.0 for fact in known), default=0.0)


def is_apart(one: labs.Running, instance: str, node: str) -> bool:
    """Whether a node's newest report says that it has lost its peer."""
    facts = [fact["fact"] for fact in one.get(f"/1/explain/{instance}")["replicas"] if fact["node"] == node]
    return any(fact is not None and fact["connection"] != "Connected" for fact in facts)


def has_waited(one: labs.Running, instance: str, target: str) -> None:
    """See that a failover is refused with a number, and that the command of its text does it."""
    refused = ended(one, one.put(f"/2/instances/{instance}/failover"))
    assert refused["status"] == "error", refused
    text = refused["opcodes"][0]["text"]
    assert "may lack the writes of the last " in text
    assert runs(one, target) == [held.name for held in one.cluster().primaries(one.cluster().node(target).uuid)]
    accepted = states.stated_loss(text, instance)
    done = ended(one, one.put(f"/2/instances/{instance}/failover", {"max_loss": accepted}))
    assert done["status"] == "success", done
    assert done["opcodes"][0]["text"].startswith("possible loss: writes of the last ")
    assert instance in runs(one, target)
    assert f"loss of writes up to {accepted} s accepted by" in one.where.audit_log.read_text()
    assert one.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["by a command", "by a failover"])
def test_a_silent_node_that_wrote_alone_before_its_power_was_cut_waits_for_a_person(
    asked: str,
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_node_policy="none", dead_after=0)
    one.until(everyone_answers, "all agents answer")
    cluster = one.cluster()
    held = cluster.primaries(cluster.node("node2").uuid)[0]
    target = cluster.node_name(held.secondary_nodes[0])
    one.lab.node("node2").cut_agent(is_cut=True)
    one.until(lambda _: one.get("/1/explain/node2")["node"]["agent"]["misses"], "its silence is seen")
    one.lab.node("node2").cut(is_cut=True)
    one.until(lambda _: is_apart(one, held.name, target), "its secondary has lost it, and it writes on")
    if asked == "by a command":
        assert one.put("/2/nodes/node2/power", {"command": "status"}).is_success
        one.until(states.at_rest, "its BMC reads on")
    else:
        refused = ended(one, one.put(f"/2/instances/{held.name}/failover"))
        assert "reads on" in refused["opcodes"][0]["text"], refused
    one.until(lambda _: time.time() - last_in_sync(one, held.name) > 2 * LIMIT, "it has written on for a while")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    limit_loss(one)

    has_waited(one, held.name, target)


@pytest.mark.slow
def test_a_node_that_was_set_offline_while_it_ran_may_have_written_until_its_bmc_read_off(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR, settings={"diagnose_interval": 1.0})
    one.until(lambda _: last_in_sync(one, "instance1"), "the pair is reported in sync")
    one.look()
    assert ended(one, one.put("/2/nodes/node2/role?force=1", "offline"))["status"] == "success"
    one.lab.node("node2").cut_link("node3", is_cut=True)
    one.until(lambda _: is_apart(one, "instance1", "node3"), "its secondary has lost it, and it writes on")
    one.until(lambda _: time.time() - last_in_sync(one, "instance1") > 2 * LIMIT, "it has written on for a while")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    limit_loss(one)

    has_waited(one, "instance1", "node3")


@pytest.mark.slow
def test_an_instance_whose_survivor_states_too_large_a_loss_waits_and_the_others_of_its_node_leave(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, instances=2, pairs=[("node2", "node3"), ("node2", "node4")])
    labs.report_all(one)
    # Its secondary looked last before it lost its primary, which wrote on alone.
    sights.look(one.lab.node("node3").root, hypervisor="fake", now=sights.uptime() - 300.0)
    assert one.put("/2/pause", {"reason": "a test"}).is_success
    labs.drop(one, "leaves.json", labs.report(one, "node2", '{"status": "evacuate-failover"}'))
    one.until(lambda _: one.incident("node2"), "the incident is noted")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    assert one.put("/2/pause", {"reason": ""}).is_success

    accepted = one.until(
        lambda _: runs(one, "node4") and states.awaited_loss(one, "instance1"),
        "instance1 waits, and instance2 has left",
    )
    incident = one.incident("node2")
    assert incident is not None
    assert incident["repair-status"] not in {"failed", "completed"}
    assert (runs(one, "node3"), runs(one, "node4")) == ([], ["instance2"])
    assert accepted > 120
    done = ended(one, one.put("/2/instances/instance1/failover", {"max_loss": accepted}))
    assert done["status"] == "success", done
    assert runs(one, "node3") == ["instance1"]
    assert one.wrong() == []
