"""What instances write on the simulated disks of a lab, and what becomes of it when something fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab.simulator import (
    fake,
    simulated_node,
    simulated_replica,
    simulated_store,
    simulated_world,
)
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_programs import SimulatedPrograms
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import disks

if TYPE_CHECKING:
    from pathlib import Path

SECOND = simulated_replica.SECOND
RESOURCE, DEVICES = "web1-disk0", ["/dev/drbd4"]
RATE = int(simulated_world.WRITES_PER_SECOND)


class World:
    """Two nodes with a pair in sync; web1 writes on node1 since second 0."""

    def __init__(self, nodes: Path) -> None:
        self.nodes = nodes
        self.one, self.two = nodes / "node1", nodes / "node2"
        for root in (self.one, self.two):
            (root / "lab").mkdir(parents=True)
        ends = disks.End("node1", "192.0.2.1"), disks.End("node2", "192.0.2.2")
        made = simulated_world.NewDisks("web1", "u-1", (64,), (4,), ends, "vg", "secret", is_primary=True)
        simulated_world.place(nodes, [made], opcode="lab up", now=0)
        assert simulated_world.start_writing(self.one, "web1", devices=DEVICES, now=0) == 0

    def run(self, root: Path, *command: str, at: int) -> str:
        return SimulatedPrograms(root, opcode="7/0", clock=lambda: at * SECOND).run(*command)

    def cut(self, *, is_cut: bool, at: int) -> None:
        simulated_node.set_fault(self.one, "links/node2", "cut" if is_cut else "")
        simulated_world.settle(self.one, now=at * SECOND)

    def replicas(self, *, at: int) -> dict[str, int]:
        return simulated_world.replicas(self.nodes, "web1", now=at * SECOND)

    def events(self, root: Path, event: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in (root / fake.JOURNAL).read_text().splitlines()]
        return [one for one in found if one["event"] == event]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "nodes")


def test_what_is_written_is_on_both_replicas_until_the_link_is_cut_and_again_when_it_is_back(world: World) -> None:
    assert world.replicas(at=2) == {"node1": 2 * RATE, "node2": 2 * RATE}
    world.cut(is_cut=True, at=2)
    assert world.replicas(at=10) == {"node1": 10 * RATE, "node2": 2 * RATE}
    world.cut(is_cut=False, at=10)
    assert world.replicas(at=11) == {"node1": 11 * RATE, "node2": 11 * RATE}
    assert world.events(world.two, "overwritten") == [], "nothing was on the stale replica that the other one lacks"


def test_a_stale_replica_that_is_written_too_is_lost_with_its_writes_when_it_is_discarded(world: World) -> None:
    world.cut(is_cut=True, at=2)
    simulated_world.lose_power(world.one, now=4 * SECOND)
    world.run(world.two, "drbdadm", "primary", RESOURCE, at=4)
    assert simulated_world.start_writing(world.two, "web1", devices=DEVICES, now=4 * SECOND) == 2 * RATE
    world.cut(is_cut=False, at=5)
    world.run(world.one, "drbdadm", "adjust", RESOURCE, at=5)
    for root in (world.one, world.two):
        world.run(root, "modprobe", "drbd", at=5)
        assert "cs:StandAlone" in (root / "proc/drbd").read_text()
    assert world.replicas(at=5) == {"node1": 4 * RATE, "node2": 3 * RATE}
    world.run(world.two, "drbdadm", "adjust", RESOURCE, at=5)
    world.run(world.one, "drbdadm", "connect", "--discard-my-data", RESOURCE, at=6)
    (event,) = world.events(world.one, "overwritten")
    assert (event["counter"], event["newest"], event["lost"]) == (4 * RATE, 4 * RATE, 2 * RATE)
    assert (event["instance"], event["opcode"]) == ("web1", "7/0")
    assert world.replicas(at=7) == {"node1": 5 * RATE, "node2": 5 * RATE}


def test_a_resync_goes_at_its_speed_and_is_interrupted_where_it_was(world: World) -> None:
    simulated_world.set_resync_speed(world.one, 1024, now=0)
    world.run(world.two, "drbdadm", "invalidate", RESOURCE, at=0)
    status = ("drbdsetup", "status", "--verbose", "--statistics")
    assert "replication:SyncTarget peer-disk:UpToDate done:50.00" in world.run(world.two, *status, at=32)
    world.cut(is_cut=True, at=32)
    assert "out-of-sync:32768" in world.run(world.two, *status, at=50)
    world.cut(is_cut=False, at=50)
    assert "replication:SyncTarget" in world.run(world.two, *status, at=81)
    assert "replication:Established peer-disk:UpToDate" in world.run(world.two, *status, at=83)


def test_an_instance_keeps_its_devices_open_and_a_secondary_is_not_opened(world: World) -> None:
    with pytest.raises(errors.Failed, match="held open by someone"):
        world.run(world.one, "drbdadm", "secondary", RESOURCE, at=1)
    with pytest.raises(errors.Failed, match="not primary"):
        simulated_world.start_writing(world.two, "web1", devices=DEVICES, now=SECOND)
    with pytest.raises(errors.Failed, match="not primary"):
        simulated_world.hand_over(world.one, world.two, "web1", now=SECOND)
    assert simulated_world.stop_writing(world.one, "web1", now=2 * SECOND) == 2 * RATE
    assert world.run(world.one, "drbdadm", "secondary", RESOURCE, at=2) == ""
    assert world.replicas(at=9) == {"node1": 2 * RATE, "node2": 2 * RATE}


def test_a_disk_that_fails_is_let_go_and_the_writes_go_to_the_peer(world: World) -> None:
    simulated_node.set_fault(world.one, "disks/web1", "lost")
    simulated_world.settle(world.one, now=2 * SECOND)
    assert simulated_world.acknowledged(world.one, "web1", now=5 * SECOND) == 5 * RATE
    assert "disk:Diskless" in world.run(world.one, "drbdsetup", "status", at=5)
    assert world.replicas(at=5)["node2"] == 5 * RATE


def test_a_call_that_was_killed_while_it_wrote_is_finished_by_the_next_one(world: World) -> None:
    pending = world.nodes / simulated_store.PENDING
    line = json.dumps({"ns": 5, "instance": "web1", "event": "overwritten"})
    path = f"node2/{simulated_store.REPLICAS}/{RESOURCE}.json"
    pending.write_text(json.dumps({"files": {path: None}, "events": [["node1", line]]}))
    (world.one / fake.JOURNAL).open("a").write(f"{line}\n")
    assert list(world.replicas(at=1)) == ["node1"]
    assert len(world.events(world.one, "overwritten")) == 1, "the killed call had entered it already"
    assert not pending.exists()


def test_what_fails_changes_nothing(world: World) -> None:
    before = {path: path.read_text() for path in world.nodes.rglob("*.json")}
    with pytest.raises(errors.Failed, match=r"\(-1\) Multiple primaries not allowed"):
        world.run(world.two, "drbdadm", "primary", RESOURCE, at=3)
    assert {path: path.read_text() for path in world.nodes.rglob("*.json")} == before


def test_a_node_that_boots_has_nothing_up_and_knows_that_it_was_primary(world: World) -> None:
    assert simulated_world.lose_power(world.one, now=3 * SECOND) == {"web1": 3 * RATE}
    world.run(world.one, "modprobe", "drbd", at=4)
    assert world.run(world.one, "drbdsetup", "status", at=4) == "# No currently configured DRBD found.\n"
    assert world.run(world.one, "drbdadm", "get-gi", f"{RESOURCE}/0", at=4).rstrip().split(":")[4:] == list("1111000")
    world.run(world.one, "drbdadm", "adjust", RESOURCE, at=5)
    assert world.replicas(at=6) == {"node1": 3 * RATE, "node2": 3 * RATE}


def test_a_new_volume_in_the_place_of_that_of_the_metadata_has_none(world: World) -> None:
    world.run(world.two, "drbdadm", "down", RESOURCE, at=1)
    world.run(world.two, "lvremove", "--yes", "vg/u-1.meta0", at=1)
    world.run(world.two, "lvcreate", "--size", "4m", "--name", "u-1.meta0", "vg", at=1)
    with pytest.raises(errors.Failed, match="No valid meta-data signature found"):
        world.run(world.two, "drbdadm", "adjust", RESOURCE, at=1)
