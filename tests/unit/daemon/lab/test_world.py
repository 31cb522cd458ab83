from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import standing_faults
from ansible_collections.roundsman.cluster.daemon.lab.simulator import fake, simulated_node, simulated_world

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    stopped, powered_off, silent = node.journal()[-3:]
    assert (stopped["event"], stopped["opcode"], stopped["why"]) == ("stopped", "power off", "power")
    assert (powered_off["event"], powered_off["ran"], powered_off["by"]) == ("powered off", ["instance1"], "a person")
    assert (silent["event"], silent["how"]) == ("answers", "not")


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


def state_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def agent(node: world.LabNode) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs on the node as its agent does."""
    (node.root / "etc/roundsman/agent.json").write_text("{}")
    # It has no child: a shell that waits for one that has not run its program yet does not stop.
    words = [sys.executable, "-Ic", "import signal; signal.pause()", "--front"]
    with subprocess.Popen(words, env={"ROUNDSMAN_ROOT": str(node.root)}) as process:
        try:
            # A forked child has its parent's environment until it runs its own program.
            while process.pid not in simulated_node.processes(node.root):
                pass
            yield process
        finally:
            process.kill()


def test_the_agent_of_a_node_that_hangs_keeps_its_port_and_does_not_answer(node: world.LabNode) -> None:
    with agent(node) as process:
        node.hang(is_hung=True)
        while state_of(process) != "T":
            os.sched_yield()
        standing_faults.fix(node, "hang")
        while state_of(process) == "T":
            os.sched_yield()
        node.lose_power()
        assert process.wait(60) == -signal.SIGKILL


def cut(node: world.LabNode) -> None:
    node.cut(is_cut=True)


def silence(node: world.LabNode) -> None:
    node.silence(is_silent=True)


def test_a_boot_has_an_identifier_of_its_own(node: world.LabNode) -> None:
    boots = [node.boot_id()]
    acts: list[Callable[[], None]] = [
        lambda: node.set_power(False),
        lambda: node.set_power(True),
        node.reboot,
        node.reboot,
    ]
    for act in acts:
        act()
        boots.append(node.boot_id())
    assert boots[0] == boots[1]
    assert len(set(boots)) == len(boots) - 1
    assert "" not in boots


def test_every_fault_stands_until_it_is_fixed(node: world.LabNode) -> None:
    for act in (cut, silence, lambda each: each.hang(is_hung=True), lambda each: each.cut_agent(is_cut=True)):
        act(node)
    node.cut_link("node3", is_cut=True)
    node.lose_disk("instance1", is_lost=True)
    node.garble("before")
    node.delay(3)
    node.slow_stop("instance1", 5)
    node.ignore_stop("instance2", is_ignored=True)
    node.autostart("instance1", is_on=True)
    node.fail_migrations("after")
    node.set_faults(["dead"])
    node.cut_ssh(is_cut=True)
    node.cut_replication(is_cut=True)
    node.lose_packets(30)
    node.lie(is_lying=True)
    node.set_clock(-3600)
    node.fill_group(is_full=True)
    node.slow_resync(1024)
    node.return_after(3600)
    node.panic()
    assert "panic" in {fault.option for fault in standing_faults.standing(node)}
    node.reboot(seconds=3600)
    options = {fault.option for fault in standing_faults.FAULTS} - {"power", "panic"}
    assert {fault.option for fault in standing_faults.standing(node)} == options
    node.lose_power()
    assert {fault.option for fault in standing_faults.standing(node)} == options - {"reboot"} | {"power"}
    standing_faults.fix(node)
    assert standing_faults.standing(node) == []
    assert node.answers()


def test_a_node_that_is_ordered_off_after_its_power_was_cut_stays_off(node: world.LabNode) -> None:
    node.lose_power()
    node.set_power(False, by="its BMC")
    standing_faults.fix(node)
    assert not node.is_powered()
    assert [entry["by"] for entry in node.journal() if entry["event"] == "powered off"] == ["power cut"]


def test_a_guest_whose_last_disk_fails_writes_nothing_more_and_the_lab_goes_on(tmp_path: Path) -> None:
    lab = twins.lab(tmp_path, pairs=[("node2", "node3")])
    primary, later = lab.node("node2"), time.monotonic_ns() + 60 * 10**9
    primary.cut_link("node3", is_cut=True)
    primary.lose_disk("instance1", is_lost=True)
    known = simulated_world.acknowledged(primary.root, "instance1")
    simulated_world.settle(primary.root, now=later)
    assert simulated_world.acknowledged(primary.root, "instance1", now=later) == known
