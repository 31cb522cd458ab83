"""No replica is removed unless another one is known to be in sync: the nodes' journals say what was removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import simulated_world

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow
NAME = "instance2"
PRIMARY, SECONDARY, OTHER = "node2", "node3", "node1"


def replaced(one: labs.Running, node: str) -> dict[str, Any]:
    """Give the instance a new secondary, and wait for the end of the job."""
    body = {"mode": "replace_new_secondary", "remote_node": node}
    answer = one.ask("POST", f"/2/instances/{NAME}/replace-disks", body)
    assert answer.is_success, answer.text
    return states.job_ended(one, answer.json())


def removed(one: labs.Running) -> list[str]:
    """The nodes where a replica of the instance was removed."""
    return [
        node.name
        for node in one.lab.nodes()
        for entry in node.journal()
        if entry.get("instance") == NAME and entry["event"] == "replica removed"
    ]


def counters(one: labs.Running) -> dict[str, int]:
    """How far the instance's writes have come on each replica."""
    return simulated_world.replicas(one.lab.folder / "nodes", NAME)


def test_the_secondary_keeps_its_replica_while_the_primary_works_on_it(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(PRIMARY).lose_disk(NAME, is_lost=True)

    ended = replaced(one, SECONDARY)

    assert ended["status"] == "error"
    assert f"the primary {PRIMARY} is not up to date" in ended["text"]
    assert removed(one) == []
    assert SECONDARY in counters(one)


def test_a_secondary_that_was_written_too_keeps_its_replica(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    one.lab.node(PRIMARY).cut_link(SECONDARY, is_cut=True)
    before = counters(one)[SECONDARY]
    job = one.put(f"/2/instances/{NAME}/failover", {"ignore_consistency": True}).json()
    assert states.job_ended(one, job)["status"] == "success"
    one.lab.node(PRIMARY).cut_link(SECONDARY, is_cut=False)
    assert counters(one)[PRIMARY] > before, "the old primary wrote after the cut"

    ended = replaced(one, OTHER)

    assert ended["status"] == "error"
    assert f"the replica of {NAME} on {PRIMARY}" in ended["text"]
    assert f"may have data that {SECONDARY} has not" in ended["text"]
    assert removed(one) == []
    assert set(counters(one)) == {PRIMARY, SECONDARY}


def test_a_secondary_whose_disk_has_failed_is_replaced_though_its_node_has_booted_since(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    node = one.lab.node(SECONDARY)
    node.lose_disk(NAME, is_lost=True)
    node.set_power(False)
    node.set_power(True)

    ended = replaced(one, OTHER)

    assert ended["status"] == "success", ended
    assert removed(one) == [SECONDARY]


def test_a_healthy_pair_gets_a_new_replica_on_the_same_node_and_then_on_another(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    for node in (SECONDARY, OTHER):
        assert replaced(one, node)["status"] == "success"
    assert removed(one) == [SECONDARY, SECONDARY]
    assert set(counters(one)) == {PRIMARY, OTHER}
    assert one.wrong() == []
