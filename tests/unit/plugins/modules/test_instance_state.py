from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_lock
from ansible_collections.roundsman.cluster.plugins.modules import instance_info, instance_migrate, instance_state

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node


def test_an_instance_is_started_and_stopped_once(node: Node) -> None:
    for state, running in (("started", ["a"]), ("stopped", [])):
        first, second = (node.call(instance_state, instance="a", state=state, opcode="4/0") for _ in range(2))
        assert (first["changed"], second["changed"]) == (True, False)
        assert first["running"] is second["running"] is (state == "started")
        assert node.running() == running
    assert node.events() == [("a", "started", "4/0"), ("a", "stopped", "4/0")]


@pytest.mark.parametrize("state", ["started", "stopped"])
def test_check_mode_tells_and_changes_nothing(node: Node, state: str) -> None:
    node.start("a")
    told = node.call(instance_state, instance="a", state=state, check=True)
    assert told["changed"] is (state == "stopped")
    assert node.running() == ["a"]


def test_a_node_without_the_hypervisor_fails(node: Node) -> None:
    shutil.rmtree(node.root / "var")
    told = node.call(instance_state, instance="a", state="started")
    assert told["failed"]
    assert "no fake hypervisor" in told["msg"]


def test_how_it_is_before_and_after_is_shown(node: Node) -> None:
    told = node.call(instance_state, instance="a", state="started")
    assert (told["state"], told["diff"]) == ("running", {"before": "not here\n", "after": "running\n"})


def test_two_steps_of_one_instance_do_not_work_at_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_lock, "TIME_LIMIT", 0.0)
    node.start("a")
    with instance_lock.held("a", node.root, opcode="4/0"):
        for told in (
            node.call(instance_state, instance="a", state="stopped", opcode="5/0"),
            node.call(instance_migrate, instance="a", target_address="/nowhere", opcode="5/0"),
            node.call(instance_info, interrupted="a"),
        ):
            assert "a is being worked on by process" in told["msg"]
            assert "opcode 4/0" in told["msg"]
        assert not node.call(instance_state, instance="a", state="stopped", check=True)["failed"]
    assert node.running() == ["a"]
