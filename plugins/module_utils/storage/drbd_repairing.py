"""One step of a repair on one node, done only while this node still is as the step supposes; said before it is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, Dict, List, Optional

from ..domain import errors
from ..domain.drbd import Connection, Disk, Role, Side
from ..domain.drbd_repairs import Action
from .disks import Step
from .drbd_node import is_together

if TYPE_CHECKING:
    from .drbd_node import DrbdNode
    from .programs import Runner

PAUSE = 1.0
_SETTLED = {Connection.STANDALONE, Connection.CONNECTED}


class Repairs:
    """What can be done to a resource on this node."""

    def __init__(self, runner: Runner, node: DrbdNode) -> None:
        self._runner = runner
        self._node = node

    def steps(self, action: Action, resource: str) -> List[Step]:
        """What an action comes to on this node; nothing where it is done already.

        Raises:
            Refused: this node is not as the action supposes, or a copy would be thrown away that may be the only one.
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
            Action.DISCARD: self._discard,
        }
        if action not in makers:
            raise errors.InvalidInput(f"to {action.value} is no step on one node: it is the opcode replace_disks")
        return makers[action](side)

    def _attach(self, side: Side) -> List[Step]:
        gone = [one.number for one in side.volumes if one.disk.is_gone]
        return [self._step("attach", f"{side.resource}/{number}") for number in gone]

    def _resume(self, side: Side) -> List[Step]:
        return [self._step("resume-sync", side.resource)] if any(one.paused_by_user for one in side.volumes) else []

    def _connect(self, side: Side) -> List[Step]:
        return [self._step("connect", side.resource)] if side.connection is Connection.STANDALONE else []

    def _invalidate(self, side: Side) -> List[Step]:
        if not is_together(side) or any(one.peer_disk is not Disk.UP_TO_DATE for one in side.volumes):
            raise errors.Refused(f"{side.resource}: its peer is not connected and up to date: this copy is kept")
        return [self._step("invalidate", side.resource)]

    def _discard(self, side: Side) -> List[Step]:
        if side.role is Role.PRIMARY:
            raise errors.Refused(f"{side.resource} is primary on this node: what it writes is kept")
        if is_together(side):
            raise errors.Refused(f"{side.resource} has its peer: there is no split brain")
        alone = side.connection is Connection.STANDALONE
        first = [] if alone else [self._step("disconnect", side.resource)]
        return [*first, self._step("connect", side.resource, "--discard-my-data")]

    def _step(self, verb: str, what: str, *options: str) -> Step:
        text = " ".join(("drbdadm", verb, *options, what))
        return Step(text, lambda: self._runner.run("drbdadm", verb, *options, what))


def settled(node: DrbdNode, resources: List[str], *, time_limit: float) -> List[Side]:
    """The resources of this node once the connections of those named do not change by themselves any more.

    `time_limit` is in seconds; a side may wait for its peer for ever.
    """
    deadline = time.monotonic() + time_limit
    while True:
        sides = node.sides()
        passing = [one for one in sides if one.resource in resources and not _is_settled(one)]
        if not passing or time.monotonic() > deadline:
            return sides
        time.sleep(PAUSE)


def _is_settled(side: Side) -> bool:
    passing = {Disk.ATTACHING, Disk.NEGOTIATING, Disk.DETACHING}
    return side.connection in _SETTLED and not any(one.disk in passing for one in side.volumes)


def parted(node: DrbdNode, side: Side) -> Optional[Side]:
    """A side that has not its peer, with the identifiers that say how the two have parted; None for one that has it."""
    return None if is_together(side) else node.with_generations(side)
