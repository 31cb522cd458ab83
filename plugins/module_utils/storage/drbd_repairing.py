"""One step of a repair on one node, done only while this node still is as the step supposes; said before it is done."""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING, Callable, Dict, List, Optional

from ..domain.disks.drbd import Connection, Disk, Resources, Role, Side
from ..domain.disks.drbd_generations import bare
from ..domain.disks.drbd_pairs import Action
from ..domain.values import errors
from .disks import Step
from .drbd_node import is_together
from .volumes import Volumes

if TYPE_CHECKING:
    from .drbd_node import DrbdNode
    from .programs import Runner

PAUSE = 1.0
_NO_VOLUME = re.compile(r"/dev/(?:[hsv]d|xvd|nvme|mmcblk|md)[^/]*")
"""Disks and partitions, of which LVM needs not be asked."""
_SNAPSHOT_OVERHEAD = 1.01
"""A snapshot that never overflows is as large as its volume, and has 16 bytes for each 4 KiB beside."""
_SETTLED = {Connection.STANDALONE, Connection.CONNECTED}


class Kept(Step):
    """A step that keeps what a volume has, before that is discarded; or says why it is not kept."""


class Unkept(Kept):
    """A step that only says why what a volume has is not kept."""


class Repairs:
    """What can be done to a resource on this node."""

    def __init__(self, runner: Runner, node: DrbdNode) -> None:
        self._runner = runner
        self._node = node
        self._volumes = Volumes(runner)

    def steps(self, action: Action, resource: str) -> List[Step]:
        """What an action comes to on this node; nothing where it is done already.

        Raises:
            Refused: this node is not as the action supposes, or a replica would be discarded that may be the only one.
        """
        self._node.load()
        side = self._node.side(resource)
        if action is Action.UP:
            is_up = side is not None and side.volumes
            adjust = Step(f"drbdadm adjust {resource}", lambda: self._node.adjust(resource))
            return [] if is_up else [adjust]
        if side is None:
            raise errors.Refused(f"{resource} is down on this node: bring it up first")
        makers: Dict[Action, Callable[[Side], List[Step]]] = {
            Action.ATTACH: self._attach,
            Action.RESUME: self._resume,
            Action.CONNECT: self._connect,
            Action.INVALIDATE: self._invalidate,
            Action.DEMOTE: self._demote,
            Action.DISCARD: self._discard,
            Action.GIVE_UP: self._give_up,
            Action.OUTDATE: self._outdate,
        }
        if action not in makers:
            raise errors.InvalidInput(f"to {action.value} is no step on one node: it is the opcode replace_disks")
        return makers[action](side)

    def _attach(self, side: Side) -> List[Step]:
        gone = [volume.number for volume in side.volumes if volume.disk.is_gone]
        return [self._step("attach", f"{side.resource}/{number}") for number in gone]

    def _resume(self, side: Side) -> List[Step]:
        return (
            [self._step("resume-sync", side.resource)] if any(volume.paused_by_user for volume in side.volumes) else []
        )

    def _connect(self, side: Side) -> List[Step]:
        return [self._step("connect", side.resource)] if side.connection is Connection.STANDALONE else []

    def _invalidate(self, side: Side) -> List[Step]:
        if not is_together(side) or any(volume.peer_disk is not Disk.UP_TO_DATE for volume in side.volumes):
            raise errors.Refused(f"{side.resource}: its peer is not connected and up to date: this replica is kept")
        return [self._step("invalidate", side.resource)]

    def _demote(self, side: Side) -> List[Step]:
        return [self._step("secondary", side.resource)] if side.role is Role.PRIMARY else []

    def _discard(self, side: Side) -> List[Step]:
        return [*self._alone(side), self._step("connect", side.resource, "--discard-my-data")]

    def _give_up(self, side: Side) -> List[Step]:
        if all(volume.disk is Disk.INCONSISTENT for volume in side.volumes):
            return []
        steps = self._alone(side)
        if unkept := [step.text for step in steps if isinstance(step, Unkept)]:
            raise errors.Refused(f"{'; '.join(unkept)}: all that {side.resource} has would be gone, so it is kept")
        return [*steps, self._step("invalidate", side.resource)]

    def _alone(self, side: Side) -> List[Step]:
        """What it has is kept, and it waits for no peer, before it is discarded."""
        if side.role is Role.PRIMARY:
            raise errors.Refused(f"{side.resource} is primary on this node: what it writes is kept")
        if is_together(side):
            raise errors.Refused(f"{side.resource} has its peer: there is no split brain")
        alone = side.connection is Connection.STANDALONE
        return [*self._kept(side), *([] if alone else [self._step("disconnect", side.resource)])]

    def _kept(self, side: Side) -> List[Step]:
        """A snapshot of each logical volume under the resource; one that would not fit is said, and is no hindrance."""
        steps: List[Step] = []
        room: Dict[str, float] = {}
        for number in (volume.number for volume in side.volumes):
            device = self._runner.run("drbdadm", "sh-ll-dev", f"{side.resource}/{number}").strip()
            found = {} if _NO_VOLUME.fullmatch(device) else self._volumes.found()
            name = next((name for name in found if device in _paths(name)), "")
            if not name:
                steps.append(_not_kept(f"no snapshot of {device}: it is no logical volume"))
                continue
            group, size = name.partition("/")[0], math.ceil(found[name].size * _SNAPSHOT_OVERHEAD) + 1
            free = room.setdefault(group, self._volumes.room(group))
            if size > free:
                steps.append(_not_kept(f"no snapshot of {name}: {group} has {free:g} MiB free, and {size} are needed"))
                continue
            room[group] = free - size
            new = next(
                candidate
                for candidate in (f"{name}.discarded{number}" for number in range(1, 1000))
                if candidate not in found
            )
            made = self._volumes.snapshot(name, new, size)
            steps.append(Kept(f"{made.text}; remove it with: lvremove {new}", made.act))
        return steps

    def _outdate(self, side: Side) -> List[Step]:
        """Nothing for a side that has its peer again, or that is no whole replica anyway."""
        if side.role is Role.PRIMARY:
            raise errors.Refused(f"{side.resource} is primary on this node: its replica here is not outdated")
        if not is_together(side) and self._is_written_alone(side):
            raise errors.Refused(
                f"{side.resource} was written on this node since it lost its peer, so a person decides whose data "
                "count: it is not outdated"
            )
        may_start = any(volume.disk in {Disk.UP_TO_DATE, Disk.CONSISTENT} for volume in side.volumes)
        return [self._step("outdate", side.resource)] if may_start and not is_together(side) else []

    def _is_written_alone(self, side: Side) -> bool:
        """Whether a volume has begun a generation without its peer: it was promoted since the two disconnected."""
        found = [volume.generation for volume in self._node.with_generations(side).volumes]
        return any(generation is not None and bare(generation.bitmap) for generation in found)

    def _step(self, verb: str, what: str, *options: str) -> Step:
        text = " ".join(("drbdadm", verb, *options, what))
        return Step(text, lambda: self._runner.run("drbdadm", verb, *options, what))


def _not_kept(text: str) -> Unkept:
    return Unkept(text, lambda: None)


def _paths(name: str) -> List[str]:
    """The devices of a logical volume `group/volume`."""
    mapped = "-".join(part.replace("-", "--") for part in name.split("/"))
    return [f"/dev/{name}", f"/dev/mapper/{mapped}"]


def settled(node: DrbdNode, resources: List[str], *, time_limit: float) -> Resources:
    """The resources of this node once the connections of those named do not change by themselves any more.

    `time_limit` is in seconds; a side may wait for its peer for ever.
    """
    deadline = time.monotonic() + time_limit
    while True:
        found = node.resources()
        passing = [side for side in found.sides if side.resource in resources and not _is_settled(side)]
        if not passing or time.monotonic() > deadline:
            return found
        time.sleep(PAUSE)


def _is_settled(side: Side) -> bool:
    passing = {Disk.ATTACHING, Disk.NEGOTIATING, Disk.DETACHING}
    return side.connection in _SETTLED and not any(volume.disk in passing for volume in side.volumes)


def parted(node: DrbdNode, side: Side) -> Optional[Side]:
    """A side that has not its peer, with the identifiers that say how the two have parted; None for one that has it."""
    return None if is_together(side) else node.with_generations(side)
