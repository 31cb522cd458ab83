"""Fencing by a BMC that is wrong, and nodes that are silent and alive: nothing runs twice, nobody alive is fenced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis

from . import labs, states

if TYPE_CHECKING:
    from collections.abc import Callable

EVACUATE_FAILOVER = '{"status": "evacuate-failover"}'


def running_at(one: labs.Running) -> dict[str, list[str]]:
    """Where each instance runs, as the files of the nodes say."""
    found: dict[str, list[str]] = {}
    for node in one.lab.nodes():
        for path in (node.root / "var/lib/roundsman/fake/running").glob("*.json"):
            found.setdefault(path.stem, []).append(node.name)
    return found


def twice(one: labs.Running) -> dict[str, list[str]]:
    """The instances that run on more than one node."""
    return {name: nodes for name, nodes in running_at(one).items() if len(nodes) > 1}


def evacuated_in_vain(one: labs.Running, *faults: str) -> dict[str, Any]:
    """The incident of node2, whose BMC has these faults and whose links are cut, once its failover has failed."""
    labs.report_all(one)
    node = one.lab.node("node2")
    node.set_faults(list(faults))
    last = labs.report(one, "node2", EVACUATE_FAILOVER)
    node.cut(is_cut=True)
    assert "instance2" in running_at(one)

    labs.drop(one, "r.json", last)
    one.until(one.ended("node2"), "the evacuation ends")
    one.until(states.at_rest, "nothing is left in the queue")

    assert twice(one) == {}
    failed = one.incident("node2")
    assert failed is not None
    assert failed["repair-status"] == "failed"
    return failed


@pytest.mark.slow
def test_a_bmc_that_says_off_of_a_node_that_runs_starts_nothing_twice(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    failed = evacuated_in_vain(one, chassis.LYING)
    assert "instance2 was not started on node3" in failed["reason"]
    assert "it reads on, although off was sent" in failed["reason"]
    # What the liar said was put to the test: the node has no power now, and nothing was started.
    assert not one.lab.node("node2").is_powered()


@pytest.mark.slow
def test_a_bmc_that_restarts_and_then_reads_on_has_its_node_keep_its_power(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    failed = evacuated_in_vain(one, chassis.RESTARTING)
    assert "it reads on, although off was sent" in failed["reason"]
    assert one.lab.node("node2").is_powered()
    assert running_at(one)["instance2"] == ["node2"]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_bmc_that_reads_off_and_takes_no_off_fences_nobody_until_a_person_has_looked(
    lab: Callable[..., labs.Running],
) -> None:
    one = lab(nodes=3, instances=3)
    failed = evacuated_in_vain(one, chassis.LYING, chassis.REFUSING)
    assert "its BMC reads off, but accepted no command to power off" in failed["reason"]
    assert "run `roundsman node confirm-off node2`" in failed["reason"]
    assert "instance2" in running_at(one)
    node = one.lab.node("node2")
    assert node.is_powered()

    node.set_power(False)
    node.set_faults([chassis.REFUSING])
    assert one.put("/2/nodes/node2/confirm-off").is_success
    assert one.put(f"/2/incidents/{failed['id']}/ack").is_success
    states.accept_loss(one, "instance2")
    one.until(states.reads("node2", "completed"), "its instances are elsewhere")
    assert running_at(one)["instance2"] == ["node3"]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_that_hangs_with_open_connections_is_not_powered_off_for_it(lab: Callable[..., labs.Running]) -> None:
    """Its BMC takes no off, whatever it says: open connections are no word of its power, and silence is none either."""
    one = lab(nodes=3, pairs=(("node2", "node3"),))
    labs.report_all(one)
    node = one.lab.node("node2")
    node.set_faults([chassis.LYING, chassis.REFUSING])
    node.hang(is_hung=True)

    labs.drop(one, "r.json", labs.report(one, "node2", EVACUATE_FAILOVER))
    one.until(one.ended("node2"), "the evacuation ends")
    one.until(states.at_rest, "nothing is left in the queue")

    failed = one.incident("node2")
    assert failed is not None
    assert "its BMC reads off, but accepted no command to power off" in failed["reason"]
    assert node.is_powered()
    node.hang(is_hung=False)
    assert one.wrong() == []


@pytest.mark.slow
def test_a_node_without_power_is_failed_over_by_an_off_that_is_read_back(lab: Callable[..., labs.Running]) -> None:
    one = lab(nodes=3, instances=3)
    labs.report_all(one)
    last = labs.report(one, "node2", EVACUATE_FAILOVER)
    one.lab.node("node2").set_power(False)

    labs.drop(one, "r.json", last)
    one.until(states.reads("node2", "completed"), "its instances are elsewhere")

    assert running_at(one)["instance2"] == ["node3"]
    assert one.wrong() == []


@pytest.mark.slow
def test_a_silent_node_is_chosen_by_nobody(lab: Callable[..., labs.Running]) -> None:
    """Not by a round, the command line, a playbook by hand, an allocator, nor for a new replica."""
    one = lab(nodes=4, pairs=(("node1", "node2"),))
    silent = one.lab.node("node3")
    silent.cut(is_cut=True)
    one.diagnose()
    one.until(lambda _: one.get("/1/nodes")[2]["silent"], "it is known to be silent")

    plan = states.command(one, "evacuate", "node1", "--plan")
    assert "node4" in plan.stdout
    assert "node3" not in plan.stdout
    by_hand = one.play("evacuate.yml", "-e", "node=node1", "--check")
    assert "node4" in by_hand.stdout, by_hand.stdout
    assert "node3" not in by_hand.stdout
    refused = one.ask(
        "POST", "/2/instances/instance1/replace-disks", {"mode": "replace_new_secondary", "remote_node": "node3"}
    )
    assert "node3 did not answer when it was last asked" in refused.text
    new = {
        "name": "web",
        "disk_template": "diskless",
        "hypervisor": "fake",
        "beparams": {"memory": 64},
        "pnode": "node3",
    }
    added = one.ask("POST", "/2/instances", new)
    assert added.is_error, added.text

    labs.drop(one, "r.json", labs.report(one, "node1", '{"status": "evacuate"}'))
    one.until(
        lambda _: (
            one.cluster().instance("instance1").nodes
            == tuple(one.cluster().node(name).uuid for name in ("node2", "node4"))
        ),
        "it moves",
    )
    assert running_at(one) == {"instance1": ["node2"]}
