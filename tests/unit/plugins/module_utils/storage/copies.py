"""The copy of a replicated disk on a node in memory: what it is asked to be there, done and seen to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd, templates
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disk, Disks, End, State

from tests.unit.plugins.module_utils.storage.machine import USED_GI

if TYPE_CHECKING:
    from tests.unit.plugins.module_utils.storage.machine import Machine

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
DATA, META = f"vg/{UUID}.disk0", f"vg/{UUID}.meta0"
ONE = End("n1", "192.0.2.1")
TWO = End("n2", "192.0.2.2")
THREE = End("n3", "192.0.2.3")
NAME = "web1-disk0"


def storage(
    machine: Machine, *, peer: End | None = TWO, wanted: tuple[Disk, ...] = (Disk(64, minor=3),), secret: str = "s3"
) -> drbd.Template:
    asked = Disks("web1", UUID, wanted, vg="vg", here=ONE, peer=peer, secret=secret)
    return drbd.Template(asked, runner=machine, root=machine.root, node=machine.node, nodename="host1")


def become(machine: Machine, state: State, *, peer: End | None = TWO) -> list[str]:
    """Do what is needed, and see that nothing is needed then."""
    steps = storage(machine, peer=peer).steps(state)
    templates.done(steps)
    assert storage(machine, peer=peer).steps(state) == []
    return [step.text for step in steps]


def up_to_date(machine: Machine) -> Machine:
    """The machine with a resource that is connected, and up to date on both of its nodes."""
    become(machine, State.PRESENT)
    one = machine.resources[NAME]
    one.disk, one.gi = "UpToDate", USED_GI
    one.meet(disk="UpToDate")
    machine.ran.clear()
    return machine
