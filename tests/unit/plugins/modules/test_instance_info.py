from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.modules import instance_disks, instance_info, instance_state

if TYPE_CHECKING:
    from tests.unit.plugins.modules.called import Node


@pytest.mark.parametrize("check", [False, True])
def test_what_runs_and_what_has_a_copy_is_told(node: Node, check: bool) -> None:
    node.start("b")
    for name in ("b", "a"):
        node.call(
            instance_disks,
            instance=name,
            state="present",
            uuid=name,
            disks=[{"size": 1, "minor": ord(name)}],
            vg="vg",
            here={"name": "node2", "address": "192.0.2.2"},
            peer={"name": "node3", "address": "192.0.2.3"},
        )
    told = node.call(instance_info, check=check)
    assert (told["changed"], told["running"], told["replicas"]) == (False, ["b"], ["a", "b"])


def test_an_empty_node_has_nothing(node: Node) -> None:
    told = node.call(instance_info)
    assert told["running"] == told["replicas"] == []


def test_how_each_is_and_what_it_has_is_told(node: Node) -> None:
    node.call(instance_state, instance="a", state="started", memory=16, vcpus=2)
    told = node.call(instance_info)
    assert told["states"] == {"a": "running"}
    assert told["facts"] == {"a": {"memory": 16, "vcpus": 2, "cpu_seconds": 0.0}}
    assert (told["migrations"], told["recovered"]) == ({}, "")
