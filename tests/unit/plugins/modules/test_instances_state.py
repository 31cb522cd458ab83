from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock
from ansible_collections.roundsman.cluster.plugins.modules import instances_state

if TYPE_CHECKING:
    import pytest

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
