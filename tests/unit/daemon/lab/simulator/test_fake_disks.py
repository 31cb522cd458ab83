"""Simulated instances on simulated DRBD disks: what a guest reads, what it wrote, and where it cannot start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import (
    fake,
    node_journal,
    simulated_node,
    simulated_world,
)
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_programs import SimulatedPrograms
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.drbd_sequences import playing, simulated

if TYPE_CHECKING:
    from pathlib import Path

NAME = "sequence"
FACTS = {"devices": [f"/dev/drbd{simulated.MINOR}"]}
WRITES = int(fake.WRITES_PER_SECOND)


class Clock:
    """The machine's clock, which goes when it is told to."""

    def __init__(self) -> None:
        self.now = 10**12

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def pass_seconds(self, seconds: int) -> None:
        self.now += seconds * 10**9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic_ns", clock)
    return clock


@pytest.fixture
def nodes(tmp_path: Path, clock: Clock) -> Path:
    """Two nodes with a DRBD pair in sync, whose primary is node1."""
    del clock
    nodes = tmp_path / "nodes"
    simulated.Simulated(nodes)
    for node in playing.NODES:
        (nodes / node / fake.RUNNING).mkdir(parents=True)
        simulated_node.rewire(nodes / node)
    return nodes


def driver(root: Path) -> fake.Driver:
    return fake.Driver(root, opcode="4/0")


def run(root: Path, *command: str) -> None:
    SimulatedPrograms(root).run(*command, playing.RESOURCE)


def told(root: Path) -> list[tuple[str, Any]]:
    """What a node's journal says of the instance, with the counters."""
    path = root / fake.JOURNAL
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    moves = [entry for entry in entries if entry["event"] in fake.ARRIVALS | fake.DEPARTURES]
    return [(entry["event"], entry.get("counter")) for entry in moves]


def cut(nodes: Path, *, is_cut: bool = True) -> None:
    simulated_node.set_fault(nodes / "node1", "links/node2", "cut" if is_cut else "")
    simulated_world.settle(nodes / "node1")


def test_a_guest_reads_on_its_disk_what_it_wrote_before(nodes: Path, clock: Clock) -> None:
    here = driver(nodes / "node1")
    here.start(NAME, FACTS)
    clock.pass_seconds(10)
    here.stop(NAME, time_limit=60)
    here.start(NAME, FACTS)
    clock.pass_seconds(1)
    here.end(NAME, why="crash")
    assert told(nodes / "node1") == [
        ("started", 0),
        ("stopped", 10 * WRITES),
        ("started", 10 * WRITES),
        ("stopped", 11 * WRITES),
    ]


def test_nothing_starts_on_a_disk_that_is_secondary_here_or_not_up(nodes: Path) -> None:
    there = driver(nodes / "node2")
    with pytest.raises(errors.Failed, match="Wrong medium type"):
        there.start(NAME, FACTS)
    run(nodes / "node2", "drbdadm", "down")
    with pytest.raises(errors.Failed, match="is not there"):
        there.start(NAME, FACTS)
    assert (there.running(), told(nodes / "node2")) == ([], [])


def test_a_migration_takes_the_writing_with_it_once_both_nodes_may_write(nodes: Path, clock: Clock) -> None:
    here = driver(nodes / "node1")
    here.start(NAME, FACTS)
    clock.pass_seconds(2)
    with pytest.raises(errors.Failed, match="it still runs here"):
        here.migrate(NAME, str(nodes / "node2/wire"), hvparams={}, target_lacks=str)
    clock.pass_seconds(2)
    for node in playing.NODES:
        run(nodes / node, "drbdadm", "net-options", "--allow-two-primaries=yes")
    run(nodes / "node2", "drbdadm", "primary")
    assert here.migrate(NAME, str(nodes / "node2/wire"), hvparams={}, target_lacks=str)
    clock.pass_seconds(2)
    driver(nodes / "node2").stop(NAME, time_limit=60)
    assert told(nodes / "node1") == [("started", 0), ("handed over", 4 * WRITES)]
    assert told(nodes / "node2") == [("received", 4 * WRITES), ("stopped", 6 * WRITES)]


def test_what_is_written_after_the_link_was_cut_is_missing_on_the_other_node(nodes: Path, clock: Clock) -> None:
    here, there = driver(nodes / "node1"), driver(nodes / "node2")
    here.start(NAME, FACTS)
    clock.pass_seconds(1)
    cut(nodes)
    clock.pass_seconds(9)
    here.stop(NAME, time_limit=60)
    run(nodes / "node2", "drbdadm", "primary")
    there.start(NAME, FACTS)
    assert told(nodes / "node1")[-1] == ("stopped", 10 * WRITES)
    assert told(nodes / "node2") == [("started", WRITES)]


@pytest.mark.parametrize("why", ["power", "reboot"])
def test_a_node_that_dies_takes_its_guests_in_the_middle_of_their_writes(nodes: Path, clock: Clock, why: str) -> None:
    driver(nodes / "node1").start(NAME, FACTS)
    clock.pass_seconds(3)
    if why == "power":
        fake.lose_power(nodes / "node1", by="a test")
        fake.power_on(nodes / "node1")
    else:
        fake.reboot(nodes / "node1", by="a test")
    clock.pass_seconds(100)
    assert told(nodes / "node1") == [("started", 0), ("stopped", 3 * WRITES)]
    with pytest.raises(errors.Failed, match="is not there"):
        driver(nodes / "node1").start(NAME, FACTS)
    run(nodes / "node2", "drbdadm", "primary")
    driver(nodes / "node2").start(NAME, FACTS)
    assert told(nodes / "node2") == [("started", 3 * WRITES)]


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_node_that_starts_it_itself_after_a_boot_makes_a_second_copy_only_where_drbd_lets_it(
    nodes: Path, clock: Clock, *, is_cut: bool
) -> None:
    here = driver(nodes / "node1")
    here.start(NAME, FACTS)
    clock.pass_seconds(3)
    simulated_node.set_fault(nodes / "node1", f"{simulated_node.AUTOSTART}/{NAME}", json.dumps(FACTS))
    fake.lose_power(nodes / "node1", by="a test")
    run(nodes / "node2", "drbdadm", "primary")
    driver(nodes / "node2").start(NAME, FACTS)
    if is_cut:
        cut(nodes)
    fake.power_on(nodes / "node1")
    assert driver(nodes / "node2").running() == [NAME]
    assert driver(nodes / "node1").running() == ([NAME] if is_cut else [])


class Killed(BaseException):
    """What ends a step for good."""


def test_a_start_that_was_killed_leaves_no_disk_open(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = driver(nodes / "node1")

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as killing:
        killing.setattr("json.dump", killed)
        with pytest.raises(Killed):
            here.start(NAME, FACTS)
    (nodes / "node1" / fake.RUNNING / f"{NAME}.json").unlink()
    here.recover(NAME)
    run(nodes / "node1", "drbdadm", "secondary")
    assert told(nodes / "node1") == []


@pytest.mark.parametrize("step", ["hand over", "note"])
def test_a_migration_that_was_killed_has_moved_the_writing_too(
    nodes: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    here = driver(nodes / "node1")
    here.start(NAME, FACTS)
    clock.pass_seconds(1)
    for node in playing.NODES:
        run(nodes / node, "drbdadm", "net-options", "--allow-two-primaries=yes")
    run(nodes / "node2", "drbdadm", "primary")

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as killing:
        killing.setattr(*((node_journal, "append") if step == "note" else (simulated_world, "hand_over")), killed)
        with pytest.raises(Killed):
            here.migrate(NAME, str(nodes / "node2/wire"), hvparams={}, target_lacks=str)
    for node in (*playing.NODES, "node1"):
        driver(nodes / node).recover(NAME)
    clock.pass_seconds(1)
    driver(nodes / "node2").stop(NAME, time_limit=60)
    assert told(nodes / "node1") == [("started", 0), ("handed over", WRITES)]
    assert told(nodes / "node2") == [("received", WRITES), ("stopped", 2 * WRITES)]
