from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import plain, templates, volumes
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disk, Disks, State

from tests.unit.plugins.module_utils.storage.machine import Machine

if TYPE_CHECKING:
    from pathlib import Path

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
OURS, ADOPTED = f"vg/{UUID}.disk0", "data/old"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path / "n1")
    made.make_volume(ADOPTED, 100)
    return made


def become(machine: Machine, state: State, *wanted: Disk) -> list[str]:
    storage = plain.Template(
        Disks("a", UUID, wanted or (Disk(10), Disk(1, name="/dev/data/old")), vg="vg"), runner=machine
    )
    steps = storage.steps(state)
    templates.done(steps)
    assert storage.steps(state) == []
    return [step.text for step in steps]


def test_volumes_are_made_used_where_they_are_active_and_removed(machine: Machine) -> None:
    assert become(machine, State.PRESENT) == [f"make the volume {OURS} of 10 MiB"]
    assert machine.ran == [
        f"lvcreate --yes --wipesignatures y --zero y --size 10m --name {UUID}.disk0 vg",
    ]
    assert become(machine, State.STANDBY) == [f"deactivate the volume {OURS}", f"deactivate the volume {ADOPTED}"]
    assert become(machine, State.ACTIVE) == [f"activate the volume {OURS}", f"activate the volume {ADOPTED}"]
    assert become(machine, State.INFO) == []


def test_an_adopted_volume_is_never_made_nor_removed(machine: Machine) -> None:
    become(machine, State.PRESENT)
    assert become(machine, State.ABSENT) == [f"remove the volume {OURS}", f"deactivate the volume {ADOPTED}"]
    assert set(machine.volumes) == {ADOPTED}
    with pytest.raises(errors.Refused, match="a has no volume data/new on this node"):
        become(machine, State.PRESENT, Disk(1, name="data/new"))


def test_a_volume_in_use_is_neither_deactivated_nor_removed(machine: Machine) -> None:
    become(machine, State.PRESENT)
    machine.open("a", f"/dev/{OURS}")
    for state in (State.STANDBY, State.ABSENT):
        with pytest.raises(errors.Refused, match=f"{OURS} of a is in use"):
            become(machine, state)
    assert machine.volumes[OURS].is_active


def test_what_is_not_there_cannot_be_active_and_nothing_is_shared(machine: Machine) -> None:
    with pytest.raises(errors.Refused, match="has no volume"):
        become(machine, State.ACTIVE)
    with pytest.raises(errors.Refused, match="no other can reach them"):
        become(machine, State.SHARED)
    assert become(machine, State.STANDBY, Disk(10)) == []


def test_sizes_and_paths_are_told(machine: Machine) -> None:
    become(machine, State.PRESENT)
    storage = plain.Template(Disks("a", UUID, (Disk(10), Disk(5)), vg="vg"), runner=machine)
    first, second = storage.local_disks()
    assert (first.path, first.size, first.text) == (f"/dev/{OURS}", 12.0, "active")
    assert (second.size, second.text) == (None, "not there")


def test_a_report_that_is_none_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "{}", '{"report": [{"lv": [{"vg_name": "a"}]}]}'):
        monkeypatch.setattr(machine, "run", lambda *_command, _text=text, **_options: _text)
        with pytest.raises(errors.Failed, match="the report of lvs is not as expected"):
            volumes.Volumes(machine).found()
