"""Replicas that stay on a node that does not answer: remembered, shown, and removed once the node is back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_world
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import templates
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = [("node2", "node3"), ("node1", "node2")]
OK = '{"status": "Ok"}'


def replicas(one: labs.Running, name: str) -> list[str]:
    """The nodes that hold a replica of an instance in truth."""
    return [node.name for node in one.lab.nodes() if name in templates.replicated(node.root)]


def is_forgotten(one: labs.Running) -> bool:
    return not one.cluster().maintenance.left_behind


@pytest.mark.slow
def test_a_replica_on_a_silent_node_is_remembered_and_removed_when_the_node_answers_again(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=PAIRS)
    one.lab.node("node3").cut(is_cut=True)

    moved = states.command(one, "instance", "replace-disks", "instance1", "--to", "node4")

    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert replicas(one, "instance1") == ["node2", "node3", "node4"]
    assert [left.instance.name for left in one.cluster().maintenance.left_behind] == ["instance1"]
    assert "replicas of instance1 were left on node3" in states.command(one, "cluster", "verify").stdout
    assert "Replicas of instance1 were left behind on it" in states.command(one, "explain", "node3").stdout
    assert "Left behind" in states.command(one, "node", "info", "node3").stdout

    one.lab.node("node3").cut(is_cut=False)
    labs.drop(one, "r.json", labs.report(one, "node3", OK))
    one.until(is_forgotten, "what was left behind is removed")

    assert replicas(one, "instance1") == ["node2", "node4"]
    assert "were left on node3" not in states.command(one, "cluster", "verify").stdout
    one.until(states.at_rest, "its job ends")
    assert one.wrong() == []


@pytest.mark.slow
def test_what_a_removed_instance_left_on_an_offline_node_is_removed_when_that_is_back(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=PAIRS)
    assert states.command(one, "node", "offline", "node3", "--force").returncode == 0
    removed = states.command(one, "instance", "remove", "instance1", "--ignore-failures", "--yes")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert replicas(one, "instance1") == ["node3"]

    back = states.command(one, "node", "online", "node3", "--force")

    assert back.returncode == 0, back.stdout + back.stderr
    labs.drop(one, "r.json", labs.report(one, "node3", OK))
    one.until(is_forgotten, "what was left behind is removed")
    assert replicas(one, "instance1") == []
    one.until(states.at_rest, "its job ends")
    assert one.wrong() == []


@pytest.mark.slow
def test_a_replica_that_has_writes_of_its_own_is_kept_until_a_person_discards_it(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=PAIRS)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    one.until(lambda _: is_ahead(one, "node2", "node3"), "the primary writes alone")
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    body = {"ignore_consistency": True}
    failed_over = states.job_ended(one, one.put("/2/instances/instance1/failover", body).json())
    assert failed_over["status"] == "success", failed_over
    moved = states.command(one, "instance", "replace-disks", "instance1", "--to", "node4")
    assert moved.returncode == 0, moved.stdout + moved.stderr
    assert replicas(one, "instance1") == ["node2", "node3", "node4"]

    one.lab.node("node2").cut_link("node3", is_cut=False)
    assert one.put("/2/nodes/node2/power", {"command": "on"}).is_success
    one.until(states.at_rest, "it has power")
    labs.drop(one, "r.json", labs.report(one, "node2", OK))
    one.until(lambda _: removal(one, is_ended=True), "a job looked at what was left behind")

    assert "may hold writes that no other replica has: it is kept" in removal(one)["text"], removal(one)
    assert replicas(one, "instance1") == ["node2", "node3", "node4"]
    explained = states.command(one, "explain", "node2").stdout
    assert "may hold writes that no other replica has: it is kept" in explained
    assert "`roundsman instance repair-disks instance1 --discard node2`" in explained

    discarded = states.command(one, "instance", "repair-disks", "instance1", "--discard", "node2", "--yes")

    assert discarded.returncode == 0, discarded.stdout + discarded.stderr
    assert replicas(one, "instance1") == ["node3", "node4"]
    assert is_forgotten(one)


@pytest.mark.slow
def test_a_replica_in_use_is_not_removed_because_an_imported_backup_has_it_as_left_behind(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=PAIRS)
    labs.report_all(one)
    one.stop()
    cluster = one.cluster()
    instance = cluster.instance("instance1")
    (used,) = instance.secondary_nodes
    # In the backup node4 is the secondary, and node3 had not answered when it was replaced.
    then = dataclasses.replace(instance, secondary_nodes=(cluster.node("node4").uuid,))
    cluster = clusters.with_instance(cluster, then)
    left = clusters.LeftBehind(used, then, since=1.0)
    maintenance = dataclasses.replace(cluster.maintenance, left_behind=(left,))
    store.write(one.where.config, dataclasses.replace(cluster, maintenance=maintenance))
    one.start()

    labs.drop(one, "r.json", labs.report(one, "node3", OK))
    one.until(lambda _: removal(one, is_ended=True), "a job looked at what was left behind")

    assert "node2 replicates instance1 to node3, so its replica there is in use: it is kept" in removal(one)["text"]
    (number,) = [job["id"] for job in one.get("/1/jobs") if job["opcodes"][0]["kind"] == "remove_replica"]
    assert one.get(f"/2/jobs/{number}")["results"] == [{"kept": True}]
    assert replicas(one, "instance1") == ["node2", "node3"]
    assert "in use: it is kept" in states.command(one, "explain", "node3").stdout


def is_ahead(one: labs.Running, node: str, other: str) -> bool:
    """Whether the writes of instance1 have come further on one node than on the other."""
    counters = simulated_world.replicas(one.lab.folder / "nodes", "instance1")
    return counters[node] > counters[other]


def removal(one: labs.Running, *, is_ended: bool = False) -> dict[str, Any]:
    """The opcode of the first job that removes what was left behind; {} without one, or while it is not at its end."""
    jobs = [job for job in one.get("/1/jobs") if job["opcodes"][0]["kind"] == "remove_replica"]
    found = [job["opcodes"][0] for job in jobs if not is_ended or job["status"] in {"success", "error"}]
    return found[-1] if found else {}
