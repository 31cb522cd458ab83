"""Disks open before an instance starts and close after it has stopped: the disks are files, the hypervisor a twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_with_disks
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import drbd
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.hypervisor import drivers
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import disks, templates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GIVEN: dict[str, Any] = {
    "name": "web1",
    "hypervisor": "kvm",
    "uuid": "u-1",
    "memory": 16,
    "vcpus": 1,
    "devices": [],
    "nics": [],
    "hvparams": {},
    "disk_template": "drbd",
    "disks": [{"size": 64, "name": "", "minor": 3}],
    "vg": "roundsman",
    "file_dir": "/srv",
}


class World:
    """A hypervisor and a disk template that tell in `happened` what was done, in its order."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.state: dict[str, str] = {}
        self.refusal = self.trouble = ""
        self.replica: dict[str, Any] = {}

    def running(self) -> list[str]:
        return [name for name, state in self.state.items() if state == drivers.RUNNING]

    def states(self) -> dict[str, str]:
        return dict(self.state)

    def start(self, name: str, facts: Mapping[str, Any], *, runs_nowhere: bool = False) -> bool:
        if name in self.state:
            return False
        self.happened.append(f"start {' '.join(facts['devices'])}")
        self.state[name] = drivers.RUNNING
        return True

    def stop(self, name: str, *, time_limit: float, only_here: bool = False) -> bool:
        self.happened.append(f"stop within {time_limit:g}")
        return self.state.pop(name, None) is not None

    def steps(self, wanted: disks.State) -> list[disks.Step]:
        if self.refusal:
            raise errors.Refused(self.refusal)
        return [disks.Step(wanted.value, lambda: self.happened.append(wanted.value))]

    def local_disks(self) -> list[disks.LocalDisk]:
        return [disks.LocalDisk("/dev/drbd3", 64.0, text="Secondary, Connected", trouble=self.trouble, **self.replica)]


@pytest.fixture(name="world")
def fixture_world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(drivers, "get", lambda *_args, **_options: world)
    monkeypatch.setattr(templates, "get", lambda *_args, **_options: world)
    return world


@pytest.fixture(name="apart")
def fixture_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Replicas that do not connect are not waited for."""
    monkeypatch.setattr(instance_with_disks, "CONNECTING", 0.0)
    return world


def make(folder: Path, *, starts: bool, only_looks: bool = False, **given: Any) -> Any:
    return instance_with_disks.make(
        {**GIVEN, **given}, folder, starts=starts, only_looks=only_looks, limit=5.0, opcode="1/0"
    )


def said(*replicas: Mapping[str, Any]) -> dict[str, Any]:
    """What the node of the other replica answered."""
    found = [disks.LocalDisk("/dev/drbd3", 64.0, text="Secondary, Connecting", **replica) for replica in replicas]
    return {"here": "node1", "name": "node2", "answered": True, "disks": disks.as_result(found)["disks"]}


def test_its_disks_are_opened_before_it_starts_and_closed_after_it_has_stopped(world: World, tmp_path: Path) -> None:
    assert make(tmp_path, starts=True).running
    assert not make(tmp_path, starts=False).running
    assert world.happened == ["active", "start /dev/drbd3", "stop within 5", "standby"]


APART = {"role": "Secondary", "disk": "UpToDate", "is_connected": False}
BEFORE, WROTE_ALONE, OTHER_WROTE = drbd.Generation(0x10), drbd.Generation(0x20, 0x10), drbd.Generation(0x30, 0x10)
OLD, NEW, OTHER_NEW = ({**APART, "generation": each} for each in (BEFORE, WROTE_ALONE, OTHER_WROTE))


@pytest.mark.parametrize(
    ("replica", "peer"),
    [
        ({**OLD, "is_connected": True}, said(OTHER_NEW)),
        (NEW, said(OLD)),
        (OLD, said(OLD)),
        (OTHER_NEW, {**said(), "answered": False, "disks": None}),
    ],
    ids=["connected", "written since", "the same", "no answer"],
)
def test_where_the_other_node_answers_a_replica_starts_that_has_its_peer_or_is_not_older(
    apart: World, tmp_path: Path, replica: dict[str, Any], peer: dict[str, Any]
) -> None:
    apart.replica = replica
    assert make(tmp_path, starts=True, peer=peer).running
    assert apart.happened == [*(["up"] if peer["answered"] else []), "active", "start /dev/drbd3"]


@pytest.mark.parametrize(
    ("replica", "peer", "text"),
    [
        # A restored configuration: the instance was failed over after this replica had been written alone.
        (NEW, said(OTHER_NEW), "both replicas of web1 were written since they disconnected"),
        (OLD, said(OTHER_NEW), "is older than the one on node2"),
        (NEW, {**said(), "disks": None}, r"may be older than .* node2 \(its answer cannot be understood\)"),
        (NEW, {**said(), "disks": [{}]}, "its answer cannot be understood.*`roundsman instance start web1`"),
        ({**APART, "generation": None}, said(OLD), "may be older than the one on node2"),
    ],
)
def test_where_the_other_node_answers_a_replica_that_may_be_older_is_not_started(
    apart: World, tmp_path: Path, replica: dict[str, Any], peer: dict[str, Any], text: str
) -> None:
    for trouble in ("", "stands alone"):
        apart.trouble, apart.replica, apart.happened = trouble, replica, []
        with pytest.raises(errors.Refused, match=text):
            make(tmp_path, starts=True, peer=peer)
        assert apart.happened == ["up"]


def test_it_does_not_start_on_disks_that_cannot_be_opened(world: World, tmp_path: Path) -> None:
    world.refusal = "web1: its replica is not up to date"
    with pytest.raises(errors.Refused, match="not up to date"):
        make(tmp_path, starts=True)
    assert world.happened == []


def test_one_that_runs_keeps_its_disks_as_they_are(world: World, tmp_path: Path) -> None:
    world.state["web1"] = drivers.RUNNING
    assert not make(tmp_path, starts=True).changed
    assert world.happened == []


def test_check_mode_opens_nothing(world: World, tmp_path: Path) -> None:
    assert make(tmp_path, starts=True, only_looks=True).changed
    assert world.happened == []


def test_a_diskless_instance_starts_on_the_devices_it_is_given(world: World, tmp_path: Path) -> None:
    make(tmp_path, starts=True, disk_template="diskless", devices=["/dev/x"])
    assert world.happened == ["start /dev/x"]


def test_a_copy_of_what_runs_elsewhere_stands_by_and_one_that_cannot_is_told(world: World, tmp_path: Path) -> None:
    only_looks, _ = instance_with_disks.stand_by(GIVEN, tmp_path, only_looks=True, opcode="1/0")
    assert (only_looks.changed, only_looks.after, world.happened) == (True, "standby", [])
    world.trouble = "is down on this node"
    made, found = instance_with_disks.stand_by(GIVEN, tmp_path, only_looks=False, opcode="1/0")
    assert (made.after, found["text"]) == ("Secondary, Connected", "/dev/drbd3 is down on this node")
    assert [disk["trouble"] for disk in found["disks"]] == ["is down on this node"]
    assert world.happened == ["standby"]
