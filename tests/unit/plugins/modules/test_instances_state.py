from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import world
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock, instance_with_disks
from ansible_collections.roundsman.cluster.plugins.modules import instance_disks, instances_state

from tests.unit.plugins.modules.test_instance_disks import DRBD, THERE, make_pair

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node

BOTH = [{"name": name, "hypervisor": "fake"} for name in ("a", "b")]


def call(node: Node, state: str, **options: Any) -> dict[str, Any]:
    return node.call(instances_state, hypervisor=None, state=state, instances=BOTH, **options)


def test_all_are_started_and_stopped_once(node: Node) -> None:
    node.start("b")
    told = call(node, "started")
    assert [one["changed"] for one in told["results"]] == [True, False]
    assert told["diff"] == {"before": "a: not here\nb: running\n", "after": "a: running\nb: running\n"}
    assert node.running() == ["a", "b"]
    assert not call(node, "started")["changed"]
    assert call(node, "stopped", time_limit=1)["changed"]
    assert node.running() == []


def test_check_mode_tells_and_changes_nothing(node: Node) -> None:
    told = call(node, "started", check=True)
    assert ([one["changed"] for one in told["results"]], node.running()) == ([True, True], [])


def test_one_that_cannot_be_reached_stops_no_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_lock, "TIME_LIMIT", 0.0)
    with instance_lock.held("a", node.root, opcode="4/0"):
        told = call(node, "started")
    assert told["failed"]
    assert told["msg"].startswith("not started: a: a is being worked on by process")
    assert (told["missed"], node.running()) == (["a"], ["b"])


def test_a_guest_gets_no_more_for_its_soft_stop_than_its_own_limit(node: Node) -> None:
    own = {"shutdown_timeout": "0.2", "shutdown_seconds": "100000"}
    deaf = [{"name": name, "hypervisor": "fake", "hvparams": own} for name in ("a", "b")]
    assert not node.call(instances_state, hypervisor=None, state="started", instances=deaf)["failed"]
    told = node.call(instances_state, hypervisor=None, state="stopped", instances=deaf, time_limit=50000)
    assert (told["failed"], node.running()) == (False, [])


PAIR = {
    "name": "a",
    "hypervisor": "fake",
    "disk_template": "drbd",
    **{key: DRBD[key] for key in ("uuid", "disks", "vg")},
}


def return_after_loss(node: Node, other: Node, *, is_failed_over: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both nodes answer at a return after both lost their power and the link between them does not come back."""
    make_pair(node, other)
    assert node.call(instance_disks, instance="a", state="info", wait_synced=60, **DRBD)["synced"]
    assert not node.call(instances_state, hypervisor=None, state="started", instances=[PAIR])["failed"]
    first, second = world.LabNode(node.root), world.LabNode(other.root)
    if is_failed_over:
        first.cut_replication(is_cut=True)
    first.lose_power()
    if is_failed_over:
        active = other.call(instance_disks, instance="a", state="active", alone=True, **THERE)
        assert not active["failed"]
    second.lose_power()
    for one in (first, second):
        one.set_power(True)
        one.cut_replication(is_cut=True)
    stood = other.call(instances_state, hypervisor=None, state="standby", instances=[PAIR])
    (result,) = stood["results"]
    peer = {"here": "node2", "name": "node3", "answered": True, "disks": result["disks"]}
    return stood, node.call(instances_state, hypervisor=None, state="started", instances=[{**PAIR, "peer": peer}])


@pytest.mark.parametrize("is_failed_over", [False, True])
def test_a_replica_without_its_link_starts_only_if_its_peer_was_not_written_since(
    node: Node, other: Node, monkeypatch: pytest.MonkeyPatch, *, is_failed_over: bool
) -> None:
    """The configuration may be restored, and older than a failover: it names the node of the older replica."""
    monkeypatch.setattr(instance_with_disks, "CONNECTING", 0.0)
    stood, started = return_after_loss(node, other, is_failed_over=is_failed_over)
    assert not stood["failed"], stood
    assert started["failed"] is is_failed_over, started
    assert node.running() == ([] if is_failed_over else ["a"])
    assert ("`roundsman instance start a --discard node2`" in started.get("msg", "")) is is_failed_over, started
