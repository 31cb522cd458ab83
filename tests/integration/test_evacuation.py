"""Evacuations that cannot be whole: an instance that can never move, two nodes at once, no room."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit.daemon.lab import replicas

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

EVACUATE = '{"status": "evacuate"}'
EACH_OTHER = (("node2", "node4"), ("node4", "node2"))


def _with_plain_disk(cluster: clusters.Cluster) -> clusters.Cluster:
    one = dataclasses.replace(cluster.instance("instance2"), disk_template="plain", secondary_nodes=())
    return clusters.with_instance(cluster, one)


def _without_room(cluster: clusters.Cluster) -> clusters.Cluster:
    for name in ("node1", "node3"):
        cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node(name), mtotal=2560))
    return cluster


def _break_at_once(one: labs.Running, *nodes: str) -> None:
    """Have nodes ask for evacuation in the same moment: their reports arrive while the daemon is down."""
    processes.stop(one.lab, "daemon")
    for node in nodes:
        labs.drop(one, f"{node}.json", labs.report(one, node, EVACUATE))
    one.start()


def test_what_can_move_leaves_a_node_before_an_instance_that_never_can_fails_the_incident(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3, edit=_with_plain_disk)
    replicas.remove(one.lab, "node3", "instance2", one.cluster().instance("instance2").uuid)
    labs.drop(one, "r.json", labs.report(one, "node2", EVACUATE))

    incident = one.until(one.ended("node2"), "the incident ends")

    node = one.cluster().node("node2")
    assert incident["repair-status"] == "failed"
    assert "instance2: disk template plain keeps its only replica on node2" in incident["reason"]
    assert node.tags == (f"maintd:repairfailed:{incident['id']}",)
    assert [instance.name for instance in one.cluster().primaries(node.uuid)] == ["instance2"]
    assert one.cluster().secondaries(node.uuid) == []
    assert (node.drained, node.offline, node.powered) == (True, False, True)
    assert one.wrong() == []


@pytest.mark.slow
def test_a_crashed_guest_is_failed_over_and_keeps_nothing_on_the_node_that_is_evacuated(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    assert states.command(one, "lab", "break", "node2", "--crash", "instance2").returncode == 0
    labs.drop(one, "r.json", labs.report(one, "node2", EVACUATE))

    incident = one.until(one.ended("node2"), "the incident ends")

    cluster = one.cluster()
    assert incident["repair-status"] == "completed", incident
    assert cluster.node_name(cluster.instance("instance2").primary_node) == "node3"
    assert "instance2" in fake.Driver(one.lab.node("node3").root, opcode="test").running()
    moved = [step["text"] for job in one.get("/1/jobs") for step in job["opcodes"] if step["kind"] == "migrate"]
    assert moved == ["instance2 did not run on node2: it was failed over to node3"]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_person_who_wants_a_live_migration_gets_no_failover_of_a_crashed_guest(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    assert states.command(one, "lab", "break", "node2", "--crash", "instance2").returncode == 0

    refused = states.command(one, "instance", "migrate", "instance2")
    where = one.cluster().node_name(one.cluster().instance("instance2").primary_node)
    moved = one.put("/2/instances/instance2/migrate", {"allow_failover": True}).json()

    assert refused.returncode != 0
    assert "fail it over with `roundsman instance failover instance2`" in refused.stdout + refused.stderr
    assert where == "node2"
    assert states.job_ended(one, moved)["status"] == "success"
    assert one.cluster().node_name(one.cluster().instance("instance2").primary_node) == "node3"
    assert one.wrong() == []


@pytest.mark.slow
def test_two_nodes_that_hold_each_others_copies_both_end_empty_when_there_is_room(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=EACH_OTHER)
    _break_at_once(one, "node2", "node4")

    one.until(one.ended("node2"), "node2 is evacuated")
    one.until(one.ended("node4"), "node4 is evacuated")

    first = one.get("/1/rounds")[-1]["plan"]
    waits = {entry["subject"]: entry for entry in first["refusals"]}
    assert set(waits) == {"instance1", "instance2"}
    assert all("is moved by the evacuation of node2" in entry["reason"] for entry in waits.values())
    assert all(entry["unblock"].startswith("the end of the evacuation of node2") for entry in waits.values())
    cluster = one.cluster()
    for name in ("node2", "node4"):
        node, incident = cluster.node(name), one.incident(name)
        assert incident is not None
        assert incident["repair-status"] == "completed"
        assert (cluster.primaries(node.uuid), cluster.secondaries(node.uuid)) == ([], [])
        assert (node.offline, node.tags) == (True, (f"maintd:repairready:{incident['id']}",))
    one.until(states.at_rest, "nothing is left in the queue")
    assert one.wrong() == []


@pytest.mark.slow
def test_two_broken_nodes_without_room_wait_and_explain_says_what_would_unblock_them(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=EACH_OTHER, edit=_without_room)
    _break_at_once(one, "node2", "node4")

    def both_wait(_: labs.Running) -> bool:
        told = [one.get(f"/1/explain/{name}") for name in ("node2", "node4")]
        is_next = any(entry["planned"] or entry["at_work"] or not entry["refusals"] for entry in told)
        return not is_next and states.at_rest(one)

    one.until(both_wait, "both wait for room")

    told = one.get("/1/explain/node2")
    waiting = {entry["subject"]: entry for entry in told["refusals"]}
    assert set(waiting) == {"instance1"}
    assert "MiB more memory on node" in waiting["instance1"]["unblock"]
    assert not waiting["instance1"]["permanent"]
    assert {one.incident(name)["repair-status"] for name in ("node2", "node4")} == {"pending"}  # type: ignore[index]
    assert waiting["instance1"]["unblock"] in states.command(one, "explain", "node2").stdout.replace("\n", " ")
    assert one.cluster().node("node2").tags == ()
    assert one.wrong() == []
