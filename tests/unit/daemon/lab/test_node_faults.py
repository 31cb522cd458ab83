"""What each fault of a lab's node does, and what it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import bmcs, breaking, chassis, standing_faults, world
from ansible_collections.roundsman.cluster.daemon.lab.simulator import (
    fake,
    simulated_lvm,
    simulated_node,
    simulated_programs,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import replica_facts

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    """instance1 runs on node2, and its secondary is node3."""
    return twins.lab(tmp_path, pairs=[("node2", "node3")])


def is_alone(lab: world.Lab, name: str) -> bool:
    """Whether the replica on a node has lost its peer, as modules read it."""
    (fact,) = replica_facts.read(lab.node(name).root, hypervisor="fake").replicas or ()
    return fact.connection is not drbd.Connection.CONNECTED


def how(node: world.LabNode) -> str:
    """How a node answers by its journal."""
    return next((entry["how"] for entry in reversed(node.journal()) if entry["event"] == "answers"), "well")


def test_a_panic_ends_guests_and_links_and_its_bmc_still_reads_on_until_a_power_cycle(lab: world.Lab) -> None:
    node = lab.node("node2")
    boot = node.boot_id()
    node.panic()
    assert bmcs.LabChassis(node).powered()
    assert not node.answers()
    assert (node.running(), how(node), is_alone(lab, "node3")) == ([], "not", True)
    assert [entry["why"] for entry in node.journal() if entry["event"] == "stopped"] == ["panic"]
    with pytest.raises(errors.Failed, match="lost power"):
        fake.Driver(node.root, opcode="").start("x", {})
    bmcs.LabChassis(node).set_power(False)
    bmcs.LabChassis(node).set_power(True)
    assert node.answers()
    assert (how(node), standing_faults.standing(node), node.running()) == ("well", [], [])
    assert node.boot_id() != boot


def test_replication_links_are_cut_and_the_node_is_reached(lab: world.Lab) -> None:
    node = lab.node("node2")
    node.cut_replication(is_cut=True)
    assert node.answers()
    assert (how(node), node.running(), is_alone(lab, "node3"), is_alone(lab, "node2")) == (
        "well",
        ["instance1"],
        True,
        True,
    )
    standing_faults.fix(node, "replication")
    assert not is_alone(lab, "node3")


def test_agent_and_ssh_are_apart(lab: world.Lab) -> None:
    node = lab.node("node2")
    node.cut_ssh(is_cut=True)
    assert not node.answers()
    assert simulated_node.is_reached(node.root)
    assert how(node) == "badly"
    standing_faults.fix(node, "ssh")
    node.cut_agent(is_cut=True)
    assert node.answers()
    assert how(node) == "badly"
    standing_faults.fix(node)
    assert how(node) == "well"


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_the_clock_of_a_node_is_wrong_for_all_that_runs_there(lab: world.Lab, seconds: float) -> None:
    node = lab.node("node2")
    node.set_clock(seconds)
    code = "import time; print(time.time(), time.time_ns() // 10**9)"

    def clocks(name: str) -> list[float]:
        environment = {**os.environ, **simulated_node.environment(lab.node(name).root)}
        printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        return [float(word) for word in printed.stdout.split()]

    assert all(abs(moment - time.time() - seconds) < 1800 for moment in clocks("node2"))
    assert all(abs(moment - time.time()) < 1800 for moment in clocks("node3"))


def test_an_agent_that_lies_says_in_sync_and_what_modules_read_is_true(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = lab.node("node3")
    node.cut_link("node2", is_cut=True)
    node.lie(is_lying=True)
    assert is_alone(lab, "node3")
    monkeypatch.setenv(simulated_node.FROM_AGENT, "1")
    assert not is_alone(lab, "node3")
    assert is_alone(lab, "node2"), "another agent is honest"
    standing_faults.fix(node, "lies")
    assert is_alone(lab, "node3")


def test_a_full_volume_group_takes_nothing_more(lab: world.Lab) -> None:
    node = lab.node("node2")
    create = ("lvcreate", "--yes", "--name", "more", "--size", f"{simulated_lvm.EXTENT}m", "xenvg")
    node.fill_group(is_full=True)
    with pytest.raises(errors.Failed, match="insufficient free space"):
        simulated_programs.SimulatedPrograms(node.root).run(*create)
    standing_faults.fix(node, "full")
    simulated_programs.SimulatedPrograms(node.root).run(*create)


def test_a_node_powers_on_by_itself_after_each_loss_of_its_power(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, now = lab.node("node2"), time.monotonic()
    node.return_after(3600)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(2):
        node.set_power(False, by="its BMC")
        now += 3599
        assert not node.is_powered()
        now += 1
        assert node.is_powered()
        assert node.answers()
    standing_faults.fix(node, "returns")
    node.set_power(False)
    now += 7200
    assert not node.is_powered()


def test_a_bmc_may_be_another_nodes(lab: world.Lab) -> None:
    node, other = lab.node("node2"), lab.node("node3")
    node.set_faults([f"{chassis.OF}=node3"])
    bmcs.LabChassis(node).set_power(False)
    assert (node.is_powered(), other.is_powered()) == (True, False)
    assert not bmcs.LabChassis(node).powered()
    with pytest.raises(errors.NotFound, match="there is no node 'node9'"):
        breaking.plan(lab, node, breaking.Wanted(bmc=("of=node9",)))


def test_a_rack_takes_the_power_and_the_bmcs_of_its_nodes_by_one_cause(lab: world.Lab) -> None:
    (step,) = breaking.plan(lab, lab.node("node2"), breaking.Wanted(rack=("node3",)))
    step.apply()
    for name in ("node2", "node3"):
        node = lab.node(name)
        assert not node.is_powered()
        assert node.faults() == {chassis.DEAD}
        assert {fault.option for fault in standing_faults.fix(node)} == {"power", "bmc"}
        assert node.is_powered()
    assert lab.node("node1").is_powered()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (breaking.Wanted(clock=0), "--clock 0"),
        (breaking.Wanted(loss=101), "--loss 101"),
        (breaking.Wanted(slow_resync=0), "--slow-resync 0"),
        (breaking.Wanted(returns=-1), "--returns -1"),
        (breaking.Wanted(panic=True, power=True), "choose one of --panic, --reboot, --power and --rack"),
    ],
)
def test_a_measure_that_cannot_be_is_refused(lab: world.Lab, wanted: breaking.Wanted, said: str) -> None:
    with pytest.raises(errors.InvalidInput, match=said):
        breaking.plan(lab, lab.node("node2"), wanted)
