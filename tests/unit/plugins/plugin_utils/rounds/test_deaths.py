"""Nodes that die: what is down on them waits for nothing that copies, and for no death that is over."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import overtaken, rounds, unfinished, work
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from . import tables

NODES = "node1 9 99 {}\nnode2 9 99 {}\nnode3 9 99\nnode4 9 99\nnode5 9 99 master\n"


def dead(
    cluster: clusters.Cluster, name: str, uuid: str, *, since: float, returned_at: float = 0.0
) -> clusters.Cluster:
    """The cluster with one more death of a node; one that is over, or has jobs, is at work."""
    node = dataclasses.replace(cluster.node(name), off_since=since)
    one = incidents.note(dead_nodes.report(node), node=node.uuid, uuid=uuid, now=since)
    if returned_at:
        one = dataclasses.replace(incidents.submit(one, [7], now=since), returned_at=returned_at)
    known = (*cluster.maintenance.incidents, one)
    cluster = clusters.with_node(cluster, node)
    return dataclasses.replace(cluster, maintenance=dataclasses.replace(cluster.maintenance, incidents=known))


def copying(instance: str, incident: str, *, new: str, old: str = "node1") -> unfinished.Job:
    params = {"instance": f"u-{instance}", "old": f"u-{old}", "new": f"u-{new}", "planned": True}
    return unfinished.Job(7, (work.Opcode("replace_disks", params),), incident=incident, is_running=True)


def moves(plan: rounds.RoundPlan) -> set[str]:
    return {job.key for job in plan.jobs}


@pytest.mark.parametrize("action", ["evacuate", "evacuate-failover"])
def test_what_waited_behind_a_copy_of_its_evacuation_is_started_elsewhere_when_the_node_dies(action: str) -> None:
    instances = "instance1 drbd 1 50 node2 node1\ninstance2 drbd 1 1 node1 node2\n"
    asked = f"incident E1 node1 {action} pending 1\nsettings moves_per_node=1\n"
    cluster = dead(tables.read(NODES.format("unpowered drained", "") + instances + asked), "node1", "U1", since=2.0)
    copy = copying("instance1", "E1", new="node3")
    first = "migrate" if action == "evacuate" else "failover"
    steps = (
        work.Opcode(first, {"instance": "u-instance2", "source": "u-node1", "target": "u-node2"}),
        work.Opcode("replace_disks", {"instance": "u-instance2", "old": "u-node1", "new": "u-node3", "planned": True}),
    )
    queued = unfinished.Job(8, steps, depends=(7,), incident="E1")
    assert set(overtaken.reasons(cluster, [copy, queued])) == {8}
    plan = rounds.plan(cluster, at_work={"E1": True}, jobs=[copy])
    assert "move:instance2" in moves(plan)
    idle = rounds.plan(cluster, at_work={"U1": True}, jobs=[])
    assert [one.reason for one in idle.refusals if one.incident == "E1"] == ["waits for incident U1 of the same node"]


def test_an_incident_at_work_starts_what_can_be_started_now_beside_its_copies() -> None:
    instances = "instance1 drbd 1 50 node3 node1\ninstance2 drbd 1 1 node1 node2\n"
    copy = copying("instance1", "U1", new="node4")
    back = dead(tables.read(NODES.format("unpowered", "") + instances), "node1", "U1", since=1.0)
    plan = rounds.plan(back, at_work={"U1": True}, jobs=[copy])
    assert moves(plan) == {"move:instance2"}
    (job,) = plan.jobs
    assert [opcode.kind for opcode in job.opcodes] == ["failover"]
    assert job.earlier == ()
    silent = dead(tables.read(NODES.format("unpowered", "unpowered") + instances), "node1", "U1", since=1.0)
    told = rounds.plan(silent, at_work={"U1": True}, jobs=[copy])
    assert moves(told) == set()
    assert {one.subject for one in told.refusals} == {"instance2"}, "it says why it is still down"


def test_what_was_ordered_by_hand_and_has_not_begun_holds_no_failover() -> None:
    cluster = dead(
        tables.read(NODES.format("unpowered", "") + "instance1 drbd 1 1 node1 node2\n"), "node1", "U1", since=1.0
    )
    step = work.Opcode("migrate", {"instance": "u-instance1", "source": "u-node1", "target": "u-node2"})
    by_hand = unfinished.Job(8, (step,), depends=(7,))
    assert "move:instance1" in moves(rounds.plan(cluster, at_work={}, jobs=[by_hand]))
    for held in (dataclasses.replace(by_hand, is_running=True), dataclasses.replace(by_hand, incident="E1")):
        assert "move:instance1" not in moves(rounds.plan(cluster, at_work={}, jobs=[held]))
    alive = tables.read(NODES.format("", "") + "instance1 drbd 1 1 node1 node2\nincident E1 node1 evacuate noted 1\n")
    assert "move:instance1" not in moves(rounds.plan(alive, at_work={}, jobs=[by_hand]))


SECOND = "instance1 drbd 1 50 node2 node1\ninstance2 drbd 1 1 node1 node4\n"


def test_a_second_death_waits_neither_for_the_copies_nor_for_a_start_of_the_first() -> None:
    cluster = dead(tables.read(NODES.format("unpowered", "") + SECOND), "node1", "U1", since=1.0, returned_at=5.0)
    cluster = dead(cluster, "node1", "U2", since=9.0)
    copy = copying("instance1", "U1", new="node3")
    assert "move:instance2" in moves(rounds.plan(cluster, at_work={"U1": True}, jobs=[copy]))
    silent = clusters.observed(cluster, silent=["u-node2"])
    assert "move:instance2" in moves(rounds.plan(silent, at_work={}, unstarted={"U1": ["u-instance1"]}))


def test_nodes_that_are_back_are_no_storm() -> None:
    nodes = "".join(f"node{k} 9 99{' unpowered' * (k == 3)}\n" for k in range(1, 9)) + "node9 9 99 master\n"
    cluster = tables.read(nodes + "instance3 drbd 1 1 node3 node6\n")
    for k in (1, 2, 3):
        cluster = dead(cluster, f"node{k}", f"U{k}", since=float(k), returned_at=9.0 * (k < 3))
    assert "move:instance3" in moves(rounds.plan(cluster, at_work={"U1": True, "U2": True}))
    assert dead_nodes.storm(cluster, {}) == ""
