"""Nodes whose agents fall silent, in a lab with an agent for each node: fencing before failover, always."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, processes

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters

AGENT = "ansible_collections.roundsman.cluster.plugins.module_utils.monitoring.agent"
MISSES = 2


def own_addresses(cluster: clusters.Cluster) -> clusters.Cluster:
    """The lab's nodes at an address each, so that their agents can listen at one port."""
    numbered = enumerate(cluster.nodes.items(), start=1)
    nodes = {uuid: dataclasses.replace(one, primary_ip=f"127.0.66.{place}") for place, (uuid, one) in numbered}
    return dataclasses.replace(cluster, nodes=nodes)


@contextlib.contextmanager
def agents(one: labs.Running, port: int, log: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The agents of all nodes, by the names of the nodes."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for node in one.cluster().nodes.values():
            root = one.lab.node(node.name).root
            settings = {"bind": [node.primary_ip], "port": port, "hypervisor": "fake"}
            settings |= {"diagnose_command": "lab-diagnose", "collectors": {"diagnose": 1}}
            (root / "etc/roundsman/agent.json").write_text(json.dumps(settings))
            environment = {**os.environ, "ROUNDSMAN_ROOT": str(root)}
            with (log / f"{node.name}.log").open("wb") as stream:
                started[node.name] = subprocess.Popen([sys.executable, "-m", AGENT], env=environment, stderr=stream)
        yield started
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(20)


def up(lab: Callable[..., labs.Running], **settings: Any) -> tuple[labs.Running, int]:
    """A lab whose daemon asks agents every second, and takes silent nodes for dead after a few misses."""
    port = processes.free_port()
    chosen = {"agent_port": port, "diagnose_interval": 1.0, "dead_after": MISSES, "dead_node_policy": "failover"}
    one = lab(nodes=4, instances=4, settings={**chosen, **settings}, edit=own_addresses)
    return one, port


def explained(one: labs.Running, text: str) -> Callable[[labs.Running], Any]:
    """Whether what is known of node2's silence says a text."""

    def look(_: labs.Running) -> Any:
        silent = one.get("/1/explain/node2")["silent"]
        return silent if silent and text in silent["reason"] + silent["unblock"] else None

    return look


def everyone_answers(one: labs.Running) -> Any:
    """Whether every node has reported through its agent."""
    return all(node["health"] == "Ok" for node in one.get("/1/nodes"))


@pytest.mark.slow
def test_a_dead_node_loses_its_instances_only_once_its_bmc_says_off(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one, port = up(lab)
    with agents(one, port, tmp_path) as running:
        one.until(everyone_answers, "all agents answer")
        held = one.cluster().primaries(one.cluster().node("node2").uuid)
        assert held
        running["node2"].kill()
        one.until(explained(one, "its BMC says that it is on"), "the BMC is asked")
        assert one.incident("node2") is None
        assert one.cluster().primaries(one.cluster().node("node2").uuid) == held

        one.lab.node("node2").set_power(False)
        # The BMC is asked again after minutes; a person who powers it off is not waited for.
        assert one.put("/2/nodes/node2/power", {"command": "off", "force": True}).is_success
        one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    cluster = one.cluster()
    node = cluster.node("node2")
    assert cluster.primaries(node.uuid) == []
    assert (node.offline, node.powered) == (True, False)
    for instance in held:
        copies = [where.name for where in cluster.nodes.values() if instance.name in runs(one, where.name)]
        assert copies == [cluster.node_name(cluster.instance(instance.uuid).primary_node)]
    assert one.wrong() == []


@pytest.mark.slow
def test_with_its_bmc_silent_too_nothing_starts_until_a_person_says_that_it_is_off(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one, port = up(lab)
    with agents(one, port, tmp_path) as running:
        one.until(everyone_answers, "all agents answer")
        one.lab.node("node2").set_faults([chassis.DEAD])
        one.lab.node("node2").set_power(False)
        running["node2"].kill()
        silent = one.until(explained(one, "its BMC does not answer either"), "the BMC is asked in vain")
        assert "roundsman node confirm-off node2" in silent["unblock"]
        held = one.cluster().primaries(one.cluster().node("node2").uuid)
        assert held
        assert one.incident("node2") is None

        assert one.put("/2/nodes/node2/confirm-off").is_success
        one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    cluster = one.cluster()
    assert cluster.primaries(cluster.node("node2").uuid) == []
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_whose_agent_only_hangs_is_not_fenced_whatever_the_policy_and_its_bmc_say(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one, port = up(lab, dead_node_policy="fence")
    with agents(one, port, tmp_path) as running:
        one.until(everyone_answers, "all agents answer")
        node = one.lab.node("node2")
        held = runs(one, "node2")
        assert held
        node.cut(is_cut=True)  # SSH is gone; its agent is reached in another way, and hangs.
        running["node2"].wait(20)
        with socket.create_server((one.cluster().node("node2").primary_ip, port)):
            told = one.until(explained(one, "its agent's port accepts connections"), "it is seen that it is alive")
            assert "roundsman node power off node2 --force" in told["unblock"]
            assert node.is_powered()
            assert runs(one, "node2") == held


@pytest.mark.slow
def test_a_power_cut_is_failed_over_within_two_polls_of_the_bmcs_off_with_the_possible_loss_printed(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one, port = up(lab, dead_after=1, diagnose_interval=30.0)
    polls: list[float] = []
    is_off: list[int] = []

    def are_elsewhere(_: labs.Running) -> bool:
        """Count the polls that a node which lives has answered, and look whether the dead one's instances moved."""
        seen = {node["name"]: node for node in one.get("/1/nodes")}
        answered = seen["node3"]["agent"]["answered"]
        if answered not in polls:
            polls.append(answered)
        if not is_off and (not seen["node2"]["powered"] or explained(one, "its BMC says that it is off")(one)):
            is_off.append(len(polls))
        return all(one.cluster().node_name(one.cluster().instance(uuid).primary_node) != "node2" for uuid in held)

    with agents(one, port, tmp_path) as running:
        one.until(everyone_answers, "all agents answer")
        held = [instance.uuid for instance in one.cluster().primaries(one.cluster().node("node2").uuid)]
        assert held
        running["node2"].kill()
        one.lab.node("node2").lose_power()
        one.until(are_elsewhere, "its instances are elsewhere")
        assert len(polls) - is_off[0] <= 2, "polls between the BMC's off and the failover"
        one.until(states.reads("node2", "completed"), "its incident ends")

    told = [opcode["text"] for job in one.get("/1/jobs") for opcode in job["opcodes"] if opcode["kind"] == "failover"]
    assert len(told) == len(held)
    assert all(text.startswith("possible loss: writes of the last ") for text in told)
    assert one.wrong() == []


def runs(one: labs.Running, name: str) -> list[str]:
    """The instances that run on a node, as its files say."""
    folder = one.lab.node(name).root / "var/lib/roundsman/fake/running"
    return [path.stem for path in folder.glob("*.json")]
