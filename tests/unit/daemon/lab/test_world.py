from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import fake

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world


@pytest.fixture
def node(tmp_path: Path) -> world.LabNode:
    return twins.lab(tmp_path, pairs=[("node2", "node3")]).node("node2")


def test_power_off_kills_what_runs_and_takes_the_wire(node: world.LabNode) -> None:
    assert node.wire.exists()
    node.set_power(False)
    assert not node.is_powered()
    assert not node.wire.exists()
    assert fake.Driver(node.root, opcode="").running() == []
    assert [(one["event"], one["opcode"]) for one in node.journal()][-1] == ("stopped", "power off")


def test_power_on_gives_the_wire_back_and_starts_nothing(node: world.LabNode) -> None:
    node.set_power(False)
    node.set_power(True)
    assert node.is_powered()
    assert (node.wire / fake.RUNNING).is_dir()
    assert fake.Driver(node.root, opcode="").running() == []


def test_a_cut_link_takes_the_wire_and_what_runs_runs_on(node: world.LabNode) -> None:
    node.cut(is_cut=True)
    assert not node.wire.exists()
    assert fake.Driver(node.root, opcode="").running() == ["instance1"]
    node.set_power(False)
    node.set_power(True)
    assert not node.wire.exists(), "the link is still cut"
    node.cut(is_cut=False)
    assert node.wire.exists()


def test_power_and_link_may_be_set_twice(node: world.LabNode) -> None:
    for _ in range(2):
        node.set_power(True)
        node.cut(is_cut=False)
    assert node.wire.exists()
    for _ in range(2):
        node.set_power(False)
        node.cut(is_cut=True)
    assert not node.wire.exists()


def test_a_node_says_what_it_is_told_to(node: world.LabNode) -> None:
    assert json.loads(node.diagnosis.read_text()) == {"status": "Ok"}
    node.break_with({"status": "evacuate"})
    assert json.loads(node.diagnosis.read_text()) == {"status": "evacuate"}
    node.say("no JSON")
    assert node.diagnosis.read_text() == "no JSON\n"


def test_a_bmc_is_broken_and_mended(node: world.LabNode) -> None:
    assert node.faults() == frozenset()
    node.set_faults(["silent", "slow"])
    assert node.faults() == {"silent", "slow"}
    node.set_faults([])
    assert node.faults() == frozenset()
