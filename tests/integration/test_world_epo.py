"""Emergency power off against resistance: guests that ignore a soft stop, jobs that end while locks are awaited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

PAIRS = [("node2", "node3")] * 10 + [("node3", "node4"), ("node1", "node2")]


def epo(one: labs.Running, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("roundsman"))
    command = [program, "--dir", str(one.lab.folder), "cluster", "epo", "--power-delay", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=labs.LIMIT)


def powered(one: labs.Running) -> list[str]:
    """The nodes that have power in truth."""
    return [node.name for node in one.lab.nodes() if node.is_powered()]


def killed_by_power(one: labs.Running) -> list[str]:
    """The instances that still ran when their node lost its power, as the nodes' own journals say."""
    return [name for node in one.lab.nodes() for entry in node.journal() for name in entry.get("ran", [])]


def ends(one: labs.Running, node: str) -> dict[str, str]:
    """How each instance of a node ended there, by its journal."""
    return {entry["instance"]: entry["why"] for entry in one.lab.node(node).journal() if entry["event"] == "stopped"}


@pytest.mark.slow
def test_guests_that_ignore_a_soft_stop_are_destroyed_and_their_node_goes_off(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=PAIRS)
    node2 = one.lab.node("node2")
    stubborn = sorted(fake.Driver(node2.root, opcode="test").running())
    assert len(stubborn) == 10, "more than are stopped at the same time"
    for name in stubborn:
        node2.ignore_stop(name, is_ignored=True)

    off = epo(one, "--all", "--force", "--shutdown-timeout", "2")

    assert off.returncode == 0, off.stdout + off.stderr
    assert powered(one) == ["node1"]
    assert ends(one, "node2") == dict.fromkeys(stubborn, "destroy")
    assert ends(one, "node3") == {"instance11": "stop"}
    assert killed_by_power(one) == []
    on = epo(one, "--on", "--force")
    assert on.returncode == 0, on.stdout + on.stderr
    assert sorted(fake.Driver(node2.root, opcode="test").running()) == stubborn
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_where_nothing_can_be_stopped_is_named_and_keeps_only_its_own_power(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, instances=8)
    one.lab.node("node3").hang(is_hung=True)

    off = epo(one, "--all", "--force", "--shutdown-timeout", "2")

    assert off.returncode == 2
    assert "node3 keeps its power" in off.stdout[off.stdout.index("NOT CONFIRMED OFF") :]
    assert powered(one) == ["node1", "node3"]
    assert killed_by_power(one) == []


def first_is_down(cluster: clusters.Cluster) -> clusters.Cluster:
    return changes.apply(cluster, changes.InstanceState(cluster.instance("instance1").uuid, "down"), now=1.0)


@pytest.mark.slow
def test_what_starts_and_stops_while_locks_are_awaited_returns_as_it_was_when_the_power_was_taken(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=4, pairs=[("node2", "node3"), ("node3", "node4")], edit=first_is_down)
    fake.Driver(one.lab.node("node2").root, opcode="test").stop("instance1", time_limit=0)
    one.lab.node("node2").delay(4)
    one.lab.node("node3").delay(4)
    one.put("/2/instances/instance1/startup", {})
    one.put("/2/instances/instance2/shutdown", {})
    one.until(lambda _: states.running(one, "startup") and states.running(one, "shutdown"), "both jobs run")

    off = epo(one, "--all", "--force")

    assert off.returncode == 0, off.stdout + off.stderr
    assert "instance2" in off.stdout, "the preview knew instance2 as running"
    assert "instance1" not in off.stdout, "and instance1 as down"
    stands = one.cluster().maintenance.epo
    assert stands is not None
    assert [one.cluster().instances[uuid].name for uuid in stands.instances] == ["instance1"]
    for node in ("node2", "node3"):
        one.lab.node(node).delay(0)
    on = epo(one, "--on", "--force")
    assert on.returncode == 0, on.stdout + on.stderr
    ran = [name for node in one.lab.nodes() for name in fake.Driver(node.root, opcode="test").running()]
    assert ran == ["instance1"]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_with_refused_host_variables_is_named_and_all_others_go_off(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=4, instances=8)
    (one.where.host_vars / "node3.json").chmod(0o666)

    off = epo(one, "--all", "--force", "--shutdown-timeout", "2")

    assert off.returncode == 2, off.stdout + off.stderr
    told = off.stdout[off.stdout.index("NOT CONFIRMED OFF") :]
    assert "node3" in told
    assert "host_vars/node3.json" in told
    assert powered(one) == ["node1", "node3"]
    assert killed_by_power(one) == []
