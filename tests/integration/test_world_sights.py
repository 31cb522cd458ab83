"""What the nodes of a lab have seen of their peers: by their agents, and by a look that a test asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import ip_addresses
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd_resource, replica_facts, sights
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import addresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import labs

RESOURCE = "instance1-disk0"


def peer(one: labs.Running, name: str) -> str:
    """The address at which the resource files of its peers have a node."""
    return ip_addresses.normal(addresses.replicating(one.cluster().node(name)))


def seen(one: labs.Running, node: str) -> dict[str, float]:
    """How many seconds ago a node saw the peers of the first instance's disk."""
    return sights.ages(one.lab.node(node).root).get(RESOURCE, {}).get(0, {})


@pytest.mark.slow
def test_the_agent_of_a_node_keeps_when_it_saw_its_peer_and_forgets_it_with_a_boot(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=1, pairs=[("node2", "node3")], agents=True)
    one.until(lambda _: seen(one, "node3"), "the agent of the secondary has looked")
    root = one.lab.node("node3").root
    assert set(seen(one, "node3")) == {peer(one, "node2")}
    written = (root / drbd_resource.FOLDER / f"roundsman-{RESOURCE}.res").read_text()
    assert drbd_resource.written_peer_address(written) == peer(one, "node2")
    known = fact(one).seen
    assert known == replicas.newest({peer(one, "node2"): known[0][1]})

    one.lab.node("node2").set_power(False)
    off = sights.uptime()
    one.look("node3")
    assert sights.uptime() - seen(one, "node3")[peer(one, "node2")] <= off
    one.lab.node("node3").set_power(False)
    one.lab.node("node3").set_power(True)
    assert seen(one, "node3") == {}


@pytest.mark.slow
def test_a_look_in_a_lab_without_agents_is_asked_for(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=1, pairs=[("node2", "node3")])
    assert seen(one, "node3") == {}
    one.look("node3")
    assert set(seen(one, "node3")) == {peer(one, "node2")}
    assert seen(one, "node2") == {}


@pytest.mark.slow
def test_a_secondary_sees_that_its_primary_lost_its_disk_and_has_all_its_data(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=1, pairs=[("node2", "node3")])
    before = fact(one).current
    one.lab.node("node2").lose_disk("instance1", is_lost=True)
    one.until(lambda _: fact(one).peer_disk.is_gone, "the instance has written, and the secondary knows it")
    assert fact(one).is_connected
    assert fact(one).bitmap == before, "the generation that both had"
    at = sights.uptime()
    one.look("node3")
    assert sights.uptime() - seen(one, "node3")[peer(one, "node2")] > at - 0.1
    one.lab.node("node2").set_power(False)
    assert (fact(one).is_connected, fact(one).bitmap) == (False, before)


def fact(one: labs.Running) -> replicas.ReplicaFact:
    """What node3 says of its replica."""
    (found,) = replica_facts.read(one.lab.node("node3").root, hypervisor="fake").replicas or ()
    return found
