"""Nodes whose agents fall silent, in a lab with an agent for each node: fencing before failover, always."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.server
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import building, chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Disk
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import replica_facts
from ansible_collections.roundsman.cluster.plugins.plugin_utils import reaching

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ansible_collections.roundsman.cluster.daemon.lab import world
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

MISSES = 2
FOR_10_SECONDS = 1024 * 1024
"""KiB/s with which a disk of the lab is in sync after so long."""
ONE_BY_ONE = 240.0
"""Seconds for the three resyncs of an evacuation, one after the other, and what comes before them."""


def up(
    lab: Callable[..., labs.Running],
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
    edit: Callable[[clusters.Cluster], clusters.Cluster] | None = None,
    **settings: Any,
) -> labs.Running:
    """A lab whose daemon asks agents every second, and takes silent nodes for dead after a few misses."""
    chosen = {"diagnose_interval": 1.0, "dead_after": MISSES, "dead_node_policy": "failover"}
    return lab(nodes=4, instances=4, pairs=pairs, settings={**chosen, **settings}, edit=edit, agents=True)


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
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab)
    one.until(everyone_answers, "all agents answer")
    held = one.cluster().primaries(one.cluster().node("node2").uuid)
    assert held
    one.lab.node("node2").cut_agent(is_cut=True)
    one.until(explained(one, "its BMC says that it is on"), "the BMC is asked")
    assert one.incident("node2") is None
    assert one.cluster().primaries(one.cluster().node("node2").uuid) == held

    one.lab.node("node2").set_power(False)
    one.until(states.reads("node2", "completed"), "its BMC is read again, and its instances are elsewhere")

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
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab)
    one.until(everyone_answers, "all agents answer")
    one.lab.node("node2").set_faults([chassis.DEAD])
    one.lab.node("node2").set_power(False)
    one.lab.node("node2").cut_agent(is_cut=True)
    silent = one.until(explained(one, "its BMC does not answer either"), "the BMC is asked in vain")
    assert "roundsman node confirm-off node2" in silent["unblock"]
    held = one.cluster().primaries(one.cluster().node("node2").uuid)
    assert held
    assert one.incident("node2") is None

    # What nobody but a person says of its power needs what a person accepts.
    assert one.put("/2/nodes/node2/confirm-off").is_success
    (instance,) = held
    states.accept_loss(one, instance.name)
    one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    cluster = one.cluster()
    assert cluster.primaries(cluster.node("node2").uuid) == []
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_whose_agent_only_hangs_is_not_fenced_whatever_the_policy_and_its_bmc_say(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_node_policy="fence")
    one.until(everyone_answers, "all agents answer")
    node = one.lab.node("node2")
    held = runs(one, "node2")
    assert held
    node.cut(is_cut=True)  # SSH is gone; its agent is reached in another way, and hangs.
    place = one.cluster().node("node2").primary_ip, one.lab.agent_port
    one.until(lambda _: not reaching.accepts(*place), "its port is closed")
    with socket.create_server(place):
        told = one.until(explained(one, "its agent's port accepts connections"), "it is seen that it is alive")
        assert "roundsman node power off node2 --force" in told["unblock"]
        assert node.is_powered()
        assert runs(one, "node2") == held


@pytest.mark.slow
def test_a_power_cut_is_known_after_a_few_questions_and_failed_over_though_polls_are_a_minute_apart(
    lab: Callable[..., labs.Running],
) -> None:
    least = 5
    one = up(lab, dead_after=least, diagnose_interval=60.0)
    one.until(everyone_answers, "all agents answer")
    held = [instance.uuid for instance in one.cluster().primaries(one.cluster().node("node2").uuid)]
    assert held

    def is_dated(_: labs.Running) -> Any:
        """How often node2 did not answer until it was known to be off."""
        node = next(node for node in one.get("/1/nodes") if node["name"] == "node2")
        is_known = not node["powered"] and one.incident("node2") is not None
        return (node["agent"] or {}).get("misses") or least if is_known else None

    one.lab.node("node2").lose_power()
    misses = one.until(is_dated, "it is known to be off")
    one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    assert misses <= least + 6, "questions, one every five seconds, while its BMC is commanded and read back"
    power_jobs = [job for job in one.get("/1/jobs") if job["opcodes"][0]["kind"] == "power"]
    reasons = [job["reason"][0][1] for job in power_jobs]
    assert reasons == ["node2 does not answer and reads off: is it?"], "nothing else is a job"
    node, confirmed = one.cluster().node("node2"), power_jobs[0]["opcodes"][0]
    assert node.off_since > confirmed["started"], "until it was commanded off its BMC may have been wrong"
    told = [opcode["text"] for job in one.get("/1/jobs") for opcode in job["opcodes"] if opcode["kind"] == "failover"]
    assert len(told) == len(held)
    assert all(text.startswith("possible loss: writes of the last ") for text in told)
    assert one.wrong() == []


@pytest.mark.slow
def test_an_isolated_node_whose_bmc_reads_off_until_it_is_commanded_loses_no_more_than_stated(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_after=8, diagnose_interval=60.0)
    one.until(everyone_answers, "all agents answer")
    node2 = one.lab.node("node2")
    node2.set_faults([chassis.STALE_OFF])
    node2.cut(is_cut=True)

    one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    lost = max(entry.get("counter") or 0 for entry in node2.journal() if entry["event"] == "stopped")
    assert lost > 0, "it wrote alone until it was powered off"
    assert one.wrong() == [], "each failover has stated what was lost"


@pytest.mark.slow
def test_a_node_whose_management_link_alone_is_cut_is_deaf_and_is_never_fenced(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_node_policy="fence")
    one.until(everyone_answers, "all agents answer")
    node = one.lab.node("node2")
    held = runs(one, "node2")
    assert held
    node.silence(is_silent=True)
    one.until(explained(one, "it is deaf, not dead: node"), "its peers report that they are connected to it")
    told = one.until(explained(one, "its BMC says that it is on"), "its BMC is read")
    assert "its agent or its management link repaired" in told["unblock"]
    shown = states.command(one, "status").stdout
    assert "it is deaf, not dead: node" in shown
    assert "it is deaf, not dead: node" in states.command(one, "explain", "node2").stdout.replace("It is", "it is")
    assert node.is_powered()
    assert runs(one, "node2") == held
    assert fences(one) == []
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_that_panicked_is_fenced_by_two_witnesses_and_fails_over(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_node_policy="fence")
    one.until(everyone_answers, "all agents answer")
    node, held = one.lab.node("node2"), runs(one, "node2")
    assert held
    panic(node)
    assert node.is_powered()
    one.until(states.reads("node2", "completed"), "its instances are elsewhere")
    assert len(fences(one)) == 1
    assert not node.is_powered()
    for name in held:
        (where,) = [other.name for other in one.cluster().nodes.values() if name in runs(one, other.name)]
        assert where != "node2"
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_that_is_lost_only_by_a_peer_whose_own_links_are_cut_is_not_fenced(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_node_policy="fence", pairs=[("node2", "node3"), ("node3", "node4"), ("node4", "node1")])
    one.until(everyone_answers, "all agents answer")
    node, peer = one.lab.node("node2"), one.lab.node("node3")
    held = runs(one, "node2")
    assert held
    for other in ("node2", "node4"):
        peer.cut_link(other, is_cut=True)
    node.silence(is_silent=True)
    told = one.until(explained(one, "the fault may be at node3"), "the only witness is doubted")
    assert "the replication link of node3 restored" in told["unblock"]
    assert (node.is_powered(), runs(one, "node2"), fences(one)) == (True, held, [])

    # Once node3 reaches another node its word counts: node2 is cut off from everybody.
    peer.cut_link("node4", is_cut=False)
    one.until(states.reads("node2", "completed"), "it is fenced, and its instances are elsewhere")
    assert len(fences(one)) == 1


@pytest.mark.slow
def test_of_a_pair_without_a_third_node_the_silence_of_agent_and_ssh_is_the_second_witness(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, dead_node_policy="fence", pairs=[("node2", "node3")])
    one.until(everyone_answers, "all agents answer")
    held = runs(one, "node2")
    assert held
    panic(one.lab.node("node2"))
    one.until(states.reads("node2", "completed"), "it is fenced, and its instances are elsewhere")
    assert len(fences(one)) == 1
    assert runs(one, "node3") == held


@pytest.mark.slow
def test_a_power_cut_between_two_polls_is_known_by_what_the_peers_answer_early(
    lab: Callable[..., labs.Running],
) -> None:
    one = up(lab, diagnose_interval=3600.0, edit=with_any_loss)
    one.until(everyone_answers, "all agents answer")
    held = runs(one, "node2")
    assert held
    asked = {node["name"]: node["agent"]["answered"] for node in one.get("/1/nodes")}
    one.lab.node("node2").lose_power()
    one.until(states.reads("node2", "completed"), "its instances are elsewhere, and no poll was due")
    (answered,) = (node["agent"]["answered"] for node in one.get("/1/nodes") if node["name"] == "node2")
    assert answered == asked["node2"]
    assert not set(held) & set(runs(one, "node2"))


def with_any_loss(cluster: clusters.Cluster) -> clusters.Cluster:
    """A cluster in which the time that a slow machine takes for a test holds up no failover."""
    return dataclasses.replace(cluster, cluster=dataclasses.replace(cluster.cluster, failover_max_loss=600))


def panic(node: world.LabNode) -> None:
    """Let the kernel of a node panic: its guests and its links are gone, and it has power."""
    node.cut(is_cut=True)
    for name in node.running():
        node.crash(name)


def fences(one: labs.Running) -> list[int]:
    """The jobs that fenced a node, or were to."""
    jobs = [(job["id"], opcode["what"]) for job in one.get("/1/jobs") for opcode in job["opcodes"]]
    return [number for number, what in jobs if "fence" in what]


def runs(one: labs.Running, name: str) -> list[str]:
    """The instances that run on a node, as its files say."""
    folder = one.lab.node(name).root / "var/lib/roundsman/fake/running"
    return [path.stem for path in folder.glob("*.json")]


@pytest.mark.slow
def test_all_instances_of_a_dead_node_run_again_before_its_replicas_are_copied_and_no_failover_is_refused(
    lab: Callable[..., labs.Running],
) -> None:
    """With more instances than `moves_per_node` some were down for as long as the resyncs of others took."""
    one = up(lab, pairs=(("node2", "node3"), ("node2", "node3"), ("node1", "node2"), ("node4", "node1")))
    one.until(everyone_answers, "all agents answer")
    for name in ("node1", "node3", "node4"):
        one.lab.node(name).slow_resync(FOR_10_SECONDS)
    assert one.put("/2/modify", {"moves_per_node": 1}).is_success, "one move of a node after the other"
    one.lab.node("node2").lose_power()
    one.until(states.reads("node2", "completed"), "nothing is left on the dead node", seconds=ONE_BY_ONE)

    cluster = one.cluster()
    node = cluster.node("node2")
    assert not [instance.name for instance in cluster.instances.values() if node.uuid in instance.nodes]
    ran = {name for other in cluster.nodes.values() for name in runs(one, other.name)}
    assert ran == {instance.name for instance in cluster.instances.values()}
    failovers, replaced = (_ends(one, kind) for kind in ("failover", "replace_disks"))
    assert (len(failovers), len(replaced)) == (2, 3)
    assert max(failovers) < min(replaced), "a failover waited for a new secondary"
    assert "check both on site" not in one.where.audit_log.read_text()
    assert one.wrong() == []


@pytest.mark.slow
def test_a_dead_node_is_failed_over_though_something_answers_at_its_address(lab: Callable[..., labs.Running]) -> None:
    one = up(lab)
    one.until(everyone_answers, "all agents answer")
    place = building.agent_place(1, one.lab.agent_port)
    with _answering_as(place.seen, place.port, after=one.lab.node("node2").lose_power):
        one.until(states.reads("node2", "completed"), "its instances are elsewhere")
    cluster = one.cluster()
    assert not cluster.primaries(cluster.node("node2").uuid)
    assert one.wrong() == []


@contextlib.contextmanager
def _answering_as(address: str, port: int, *, after: Callable[[], None]) -> Iterator[None]:
    """A web server at the address of a node, from the moment on at which that has lost it."""
    after()
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="/nonexistent")
    deadline = time.monotonic() + labs.LIMIT
    while True:
        try:
            server = http.server.ThreadingHTTPServer((address, port), handler)
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_node_that_dies_while_its_replica_is_replaced_for_hours_is_failed_over_at_once(
    lab: Callable[..., labs.Running],
) -> None:
    """The replacement holds the node of the old replica until it has copied, and needs nothing of it."""
    one = up(lab, pairs=(("node2", "node3"), ("node3", "node1"), ("node1", "node4"), ("node4", "node1")))
    one.until(everyone_answers, "all agents answer")
    one.lab.node("node4").slow_resync(1)
    body = {"mode": "replace_new_secondary", "remote_node": "node4"}
    copying = one.ask("POST", "/2/instances/instance1/replace-disks", body).json()
    one.until(_copies("node4"), "node2 copies to node4")

    one.lab.node("node3").lose_power()
    one.until(lambda _: set(runs(one, "node1")) == {"instance2", "instance3"}, "instance2 runs elsewhere")

    assert one.get(f"/2/jobs/{copying}")["status"] == "running"
    assert runs(one, "node2") == ["instance1"]
    one.lab.node("node4").slow_resync(0)
    assert states.job_ended(one, copying)["opcodes"][0]["status"] == "success"
    assert one.wrong() == []


def _copies(target: str) -> Callable[[labs.Running], bool]:
    """Whether a node receives the data of an instance."""

    def look(one: labs.Running) -> bool:
        found = replica_facts.read(one.lab.node(target).root, hypervisor="fake").replicas or ()
        return any(each.is_connected and each.disk is Disk.INCONSISTENT for each in found)

    return look


def _ends(one: labs.Running, kind: str) -> list[float]:
    """When the opcodes of a kind ended that succeeded."""
    opcodes = (opcode for job in one.get("/1/jobs") for opcode in job["opcodes"] if opcode["kind"] == kind)
    return [opcode["ended"] for opcode in opcodes if opcode["status"] == "success"]
