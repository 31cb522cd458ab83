"""The last replica that is left: nothing starts it by itself, and a person can, knowing what that costs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from . import labs, states
from .test_dead_nodes import runs
from .test_world_epo import epo
from .test_world_evidence import PAIR, disk
from .test_world_left_behind import is_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters


def outdated(one: labs.Running) -> None:
    """The primary node2 loses its secondary node3, which is outdated."""
    labs.report_all(one)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    labs.report_all(one)
    one.until(lambda _: disk(one, "node3") is Disk.OUTDATED, "the secondary is outdated")
    one.until(states.at_rest, "its job ends")


@pytest.mark.slow
def test_an_outdated_replica_whose_primary_is_lost_for_good_is_started_when_a_person_says_so(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    outdated(one)

    # The primary still answers: nothing is stopped, and nobody is told to power a healthy node off.
    failover = ("instance", "failover", "instance1")
    refused = states.command(one, *failover, "--ignore-consistency", "--yes")
    assert refused.returncode != 0
    assert "restore the replication link between node2 and node3" in refused.stderr
    assert not [word for word in ("lost for good", "power off") if word in refused.stderr]
    assert runs(one, "node2") == ["instance1"]

    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")
    refused = states.command(one, *failover)
    assert (refused.returncode != 0, runs(one, "node3")) == (True, [])

    done = states.command(one, *failover, "--ignore-consistency", "--yes")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "possible loss: writes of the last " in done.stderr, "it is printed before anything is done"
    assert "(consistency was ignored)" in done.stdout
    assert (runs(one, "node3"), disk(one, "node3")) == (["instance1"], Disk.UP_TO_DATE)
    audit = one.where.audit_log.read_text()
    assert "instance1 fails over to node3 with ignore_consistency: " in audit
    assert "possible loss: writes of the last " in audit
    assert "the replica of instance1 on node3 (Secondary, Connecting, Outdated/DUnknown) is promoted by force" in audit
    assert one.wrong() == []


@pytest.mark.slow
def test_an_outdated_replica_of_an_instance_that_is_down_is_promoted_by_force_and_starts_afterwards(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    outdated(one)
    assert states.command(one, "instance", "stop", "instance1", "--yes").returncode == 0
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")

    done = states.command(one, "instance", "failover", "instance1", "--ignore-consistency", "--yes")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "is promoted by force" in one.where.audit_log.read_text()
    assert (runs(one, "node3"), disk(one, "node3")) == ([], Disk.UP_TO_DATE)
    started = states.command(one, "instance", "start", "instance1")
    assert started.returncode == 0, started.stdout + started.stderr
    assert runs(one, "node3") == ["instance1"]
    assert one.wrong() == []


@pytest.mark.slow
def test_no_round_starts_an_outdated_replica(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIR)
    outdated(one)
    one.lab.node("node2").lose_power()
    assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
    one.until(states.at_rest, "its power is on record")

    planned = states.command(one, "evacuate", "node2", "--failover", "--yes")

    assert planned.returncode != 0
    assert (runs(one, "node3"), disk(one, "node3")) == ([], Disk.OUTDATED)


def with_primary(one: labs.Running, node: str) -> None:
    """Replace the configuration by one in which the primary of instance1 is another node, as in an older backup."""
    one.stop()
    cluster = one.cluster()
    instance = cluster.instance("instance1")
    others = tuple(uuid for uuid in instance.nodes if uuid != cluster.node(node).uuid)
    changed = dataclasses.replace(instance, primary_node=cluster.node(node).uuid, secondary_nodes=others)
    store.write(one.where.config, swapped(cluster, changed))
    one.start()


def swapped(cluster: clusters.Cluster, instance: clusters.Instance) -> clusters.Cluster:
    return dataclasses.replace(cluster, instances={**cluster.instances, instance.uuid: instance})


@pytest.mark.slow
def test_a_start_after_an_older_configuration_was_restored_never_starts_the_older_replica(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    one.until(lambda _: is_ahead(one, "node2", "node3"), "the primary writes alone")
    with_primary(one, "node3")

    # It runs where the data are, and the configuration says otherwise.
    running = states.command(one, "instance", "start", "instance1")
    assert "node2 has the disks of instance1 open for writing" in running.stderr, running.stdout
    assert (runs(one, "node2"), runs(one, "node3")) == (["instance1"], [])

    with_primary(one, "node2")
    stopped = states.command(one, "instance", "stop", "instance1", "--yes")
    assert stopped.returncode == 0, stopped.stderr
    with_primary(one, "node3")
    older = states.command(one, "instance", "start", "instance1")
    assert "the replica of instance1 on node3" in older.stderr, older.stdout
    assert "is older than the one on node2" in older.stderr
    assert runs(one, "node3") == []

    one.lab.node("node2").cut_link("node3", is_cut=False)
    done = states.command(one, "instance", "start", "instance1")
    assert done.returncode == 0, done.stderr
    assert runs(one, "node3") == ["instance1"]
    again = states.command(one, "instance", "start", "instance1")
    assert again.returncode == 0, again.stderr
    assert one.wrong() == []


@pytest.mark.slow
def test_an_instance_whose_other_node_is_dead_starts_at_once(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIR)
    assert states.command(one, "instance", "stop", "instance1", "--yes").returncode == 0
    one.lab.node("node3").lose_power()

    done = states.command(one, "instance", "start", "instance1")

    assert done.returncode == 0, done.stderr
    assert runs(one, "node2") == ["instance1"]
    assert "without its replica on node3" in done.stdout
    assert one.wrong() == []


@pytest.mark.slow
def test_an_emergency_power_off_returns_and_starts_no_older_replica(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, pairs=PAIR)
    one.lab.node("node2").cut_link("node3", is_cut=True)
    one.until(lambda _: is_ahead(one, "node2", "node3"), "the primary writes alone")
    assert epo(one, "--all", "--force").returncode == 0
    with_primary(one, "node3")

    apart = epo(one, "--all", "--on", "--force", "--wait", "20")

    assert apart.returncode != 0
    said = apart.stdout + apart.stderr
    assert "the replica of instance1 on node3" in said
    assert "is older than the one on node2" in said
    assert runs(one, "node3") == []

    one.lab.node("node2").cut_link("node3", is_cut=False)
    back = epo(one, "--on", "--force")
    assert back.returncode == 0, back.stdout + back.stderr
    assert runs(one, "node3") == ["instance1"]
    assert one.wrong() == []


@pytest.mark.slow
@pytest.mark.parametrize("garbage", ["instead", "cut"])
def test_an_instance_whose_other_node_answers_garbage_waits_for_a_person(
    lab: Callable[..., labs.Running], garbage: str
) -> None:
    one = lab(nodes=3, pairs=PAIR)
    assert states.command(one, "instance", "stop", "instance1", "--yes").returncode == 0
    one.lab.node("node3").garble(garbage)

    refused = states.command(one, "instance", "start", "instance1")

    assert refused.returncode != 0, refused.stdout
    assert "node3 answers, and what its replica of instance1 has cannot be read" in refused.stderr
    assert "`roundsman node power off node3 --force`" in refused.stderr
    unread = states.command(one, "instance", "start", "instance1", "--discard", "node3", "--yes")
    assert unread.returncode != 0, "it may run there"
    assert runs(one, "node2") == []

    off = states.command(one, "node", "power", "off", "node3", "--force", "--yes")
    assert off.returncode == 0, off.stdout + off.stderr
    done = states.command(one, "instance", "start", "instance1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert runs(one, "node2") == ["instance1"]
    one.lab.node("node3").garble("")
    one.until(states.at_rest, "its jobs end")
    assert one.wrong() == []
