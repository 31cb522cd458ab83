from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.modules import instance_state

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
