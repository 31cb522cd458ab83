"""Disks open before an instance starts and close after it has stopped: the disks are files, the hypervisor a twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils import instance_with_disks
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import drbd, errors
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


def make(folder: Path, *, starts: bool, only_looks: bool = False, connects: bool = False, **given: Any) -> Any:
    return instance_with_disks.make(
        {**GIVEN, **given}, folder, starts=starts, only_looks=only_looks, connects=connects, limit=5.0, opcode="1/0"
    )


def test_its_disks_are_opened_before_it_starts_and_closed_after_it_has_stopped(world: World, tmp_path: Path) -> None:
    assert make(tmp_path, starts=True).running
    assert not make(tmp_path, starts=False).running
    assert world.happened == ["active", "start /dev/drbd3", "stop within 5", "standby"]


APART = {"role": "Secondary", "disk": "UpToDate", "is_connected": False}
ALONE, WROTE_ALONE = drbd.Generation(0x10), drbd.Generation(0x20, bitmap=0x10)


@pytest.mark.parametrize(
    ("replica", "trouble"),
    [
        ({**APART, "is_connected": True, "generation": ALONE}, ""),
        ({**APART, "generation": WROTE_ALONE}, ""),
    ],
)
def test_where_the_other_replica_is_up_one_starts_that_has_it_or_was_written_since(
    world: World, tmp_path: Path, replica: dict[str, Any], trouble: str
) -> None:
    world.replica, world.trouble = replica, trouble
    assert make(tmp_path, starts=True, connects=True).running
    assert world.happened == ["up", "active", "start /dev/drbd3"]


@pytest.mark.parametrize(
    ("generation", "trouble"),
    [
        (ALONE, ""),
        (ALONE, "stands alone"),
        (None, ""),
        (None, "stands alone"),
        # DRBD has refused the connection itself: both were written, and a person chooses.
        (WROTE_ALONE, "stands alone"),
    ],
)
def test_where_the_other_replica_is_up_one_that_may_be_older_is_not_started(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation: drbd.Generation | None, trouble: str
) -> None:
    monkeypatch.setattr(instance_with_disks, "CONNECTING", 0.0)
    world.trouble = trouble
    world.replica = {**APART, "generation": generation}
    with pytest.raises(errors.Refused, match=r"may be older than the other one, .*`roundsman instance start web1`"):
        make(tmp_path, starts=True, connects=True)
    assert world.happened == ["up"]
    assert make(tmp_path, starts=True).running, "nobody waits for a replica that is not up"


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
    only_looks = instance_with_disks.stand_by(GIVEN, tmp_path, only_looks=True, opcode="1/0")
    assert (only_looks.changed, only_looks.after, world.happened) == (True, "standby", [])
    assert instance_with_disks.stand_by(GIVEN, tmp_path, only_looks=False, opcode="1/0").after == "Secondary, Connected"
    assert world.happened == ["standby"]
    world.trouble = "is down on this node"
    with pytest.raises(errors.Failed, match="/dev/drbd3 is down on this node"):
        instance_with_disks.stand_by(GIVEN, tmp_path, only_looks=False, opcode="1/0")
