"""The replica of a replicated disk on a simulated node: what it is asked to be there, done and seen to be done."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.storage import drbd, templates
from ansible_collections.roundsman.cluster.plugins.module_utils.storage.disks import Disk, Disks, End, State

if TYPE_CHECKING:
    from tests.unit.plugins.module_utils.storage.machine import Machine

UUID = "5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11"
DATA, META = f"vg/{UUID}.disk0", f"vg/{UUID}.meta0"
ONE, TWO, THREE = (End(f"n{number}", f"192.0.2.{number}") for number in (1, 2, 3))
NAME = "web1-disk0"


def storage(
    machine: Machine,
    *,
    peer: End | None = TWO,
    wanted: tuple[Disk, ...] = (Disk(64, minor=3),),
    secret: str = "",
    new_secret: bool = False,
    alone: bool = False,
    last: bool = False,
    force: bool = False,
    generations: bool = False,
) -> drbd.Template:
    of_pair = "-and-".join(sorted((machine.root.name, peer.name))) if peer else ""
    named = Disks("web1", UUID, wanted, vg="vg", here=machine.end, peer=peer, secret=secret or of_pair)
    asked = dataclasses.replace(
        named, new_secret=new_secret, alone=alone, last=last, force=force, generations=generations
    )
    name = machine.root.name
    return drbd.Template(asked, runner=machine, root=machine.root, node=machine.node, nodename=name)


def become(
    machine: Machine,
    state: State,
    *,
    peer: End | None = TWO,
    alone: bool = False,
    last: bool = False,
    force: bool = False,
) -> list[str]:
    """Do what is needed, and see that nothing is needed then."""
    steps = storage(machine, peer=peer, alone=alone, last=last, force=force).steps(state)
    templates.done(steps)
    assert storage(machine, peer=peer, alone=alone, last=last, force=force).steps(state) == []
    return [step.text for step in steps]


def new_pair(machine: Machine) -> Machine:
    """The node n2 with the other replica: both are connected, and neither has data yet."""
    other = machine.peer()
    become(machine, State.PRESENT)
    become(other, State.PRESENT, peer=ONE)
    machine.ran.clear()
    return other


def up_to_date(machine: Machine) -> Machine:
    """The machine with a resource that is connected, and up to date on both of its nodes."""
    new_pair(machine)
    machine.drbdadm("new-current-uuid", f"{NAME}/0", "--clear-bitmap")
    return machine
