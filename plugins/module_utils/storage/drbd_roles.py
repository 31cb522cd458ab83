"""Who may write: this side of a DRBD resource becomes primary or secondary, and rarely both sides are primary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, List, Optional

from ..domain.disks import replicas
from ..domain.disks.drbd import Disk, Replication, Role, Side
from ..domain.disks.drbd_generations import FRESH, bare
from ..domain.values import errors
from .disks import State, Step
from .drbd_node import insist, is_together

if TYPE_CHECKING:
    from .drbd_node import DrbdNode
    from .programs import Runner

PATIENCE = 20.0
"""How long a side that does not know yet whether its data are good waits for its peer, in seconds."""
IN_USE = 10.0
"""How long a device may still be held open after its user has ended, in seconds: whoever looks at new devices does."""
PAUSE = 0.5


class Roles:
    """Changes the roles of resources on this node."""

    def __init__(self, runner: Runner, node: DrbdNode) -> None:
        self._runner = runner
        self._node = node

    def primary(
        self, resource: str, side: Optional[Side], wanted: State, *, may_be_two: bool, alone: bool, force: bool
    ) -> List[Step]:
        """The steps to primary; `SHARED` allows two of them, on replicas in sync, until another state is asked for.

        DRBD lets a replica be up to date although its peer was written since they disconnected. So one without its
        peer is promoted only with `alone`, by which the caller says that it checked which replica is the newest. One
        that DRBD has as old needs `force`, too: a person has given up what its peer wrote.

        Raises:
            Refused: a second primary would work on other data.
        """
        is_primary = side is not None and side.role is Role.PRIMARY
        force = force and alone
        why = _why_forced(side) if force and side is not None else ""
        text = f"make {resource} primary{why}"
        steps = [] if is_primary else [Step(text, lambda: self._promote(resource, alone=alone, force=force))]
        if wanted is State.SHARED:
            if side is None or not _is_in_sync(side):
                raise errors.Refused(
                    f"{resource} is not up to date on both of its nodes: only one may be primary. Repair it first "
                    "with `roundsman instance repair-disks NAME`, and with `--discard NODE` after a split brain"
                )
            return steps if may_be_two else [self._two(resource, "yes"), *steps]
        return [*steps, self._two(resource, "no")] if may_be_two else steps

    def standby(self, side: Optional[Side], *, may_be_two: bool) -> List[Step]:
        """The steps to secondary; what is down may not run already."""
        if side is None:
            return []
        name = side.resource
        steps = [Step(f"make {name} secondary", lambda: self._demote(name))] if side.role is Role.PRIMARY else []
        return [*steps, self._two(name, "no")] if may_be_two else steps

    def new_generation(self, side: Side) -> List[Step]:
        """The steps by which a secondary without its peer begins a generation, so that this peer's data count as older.

        DRBD begins one when a primary loses its peer. Two secondaries part without, and a replica that is then written
        with another peer would have the generation of the one that was not.
        """
        if side.role is Role.PRIMARY or not _is_good(side):
            return []
        name = side.resource
        text = f"begin a generation of {name}, which the old peer has not"
        return [Step(text, lambda: self._begin_generation(name))]

    def is_fresh(self, side: Side) -> bool:
        """Whether this replica never had data."""
        read = self._node.with_generations(side)
        return all(
            volume.disk is Disk.INCONSISTENT
            and volume.generation is not None
            and bare(volume.generation.current) == FRESH
            for volume in read.volumes
        )

    def _two(self, resource: str, answer: str) -> Step:
        # At run time only: a node that boots again never has it.
        option = f"--allow-two-primaries={answer}"
        text = f"{'allow' if answer == 'yes' else 'no longer allow'} two primaries of {resource}"
        return Step(text, lambda: self._runner.run("drbdadm", "net-options", option, resource))

    def _promote(self, resource: str, *, alone: bool, force: bool) -> None:
        side = self._known(resource, alone=alone, force=force)
        if not alone and side is not None and not is_together(side):
            raise errors.Refused(
                f"{resource} is {side.connection.value} on this node, so its peer may have newer data: "
                "it is not made primary"
            )
        # Both sides are new: any of them may be the first, and the other one is made equal to it.
        is_first = side is not None and _is_new_pair(side) and self.is_fresh(side)
        is_forced = is_first or (force and side is not None and _why_forced(side) != "")
        try:
            insist(self._runner, "drbdadm", "primary", *(["--force"] if is_forced else []), resource)
        except errors.Failed as error:
            if is_forced or side is None or not _why_forced(side):
                raise
            raise errors.Failed(f"{error}. {_last_resort(resource)}") from error

    def _begin_generation(self, resource: str) -> None:
        insist(self._runner, "drbdadm", "primary", resource)
        self._demote(resource)

    def _known(self, resource: str, *, alone: bool, force: bool) -> Optional[Side]:
        """The side, once it is known what its data are worth: once it has its peer, or is to be good `alone`."""
        deadline = time.monotonic() + PATIENCE
        while True:
            side = self._node.side(resource)
            is_known = side is not None and (is_together(side) or (alone and _is_usable(side, force=force)))
            if is_known or time.monotonic() > deadline:
                return side
            time.sleep(PAUSE)

    def _demote(self, resource: str) -> None:
        deadline = time.monotonic() + IN_USE
        while True:
            try:
                insist(self._runner, "drbdadm", "secondary", resource)
            except errors.Failed as error:
                if "held open" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE)
            else:
                return


def _is_good(side: Side) -> bool:
    return all(volume.disk is Disk.UP_TO_DATE for volume in side.volumes)


def _is_usable(side: Side, *, force: bool) -> bool:
    """Whether a side without its peer may be promoted as it is."""
    return _is_good(side) or (force and _why_forced(side) != "")


def _why_forced(side: Side) -> str:
    """Why a side is promoted only by force: it is whole, may be old, and has lost its peer; '' for any other."""
    old = [volume.disk.value for volume in side.volumes if volume.disk in {Disk.OUTDATED, Disk.CONSISTENT}]
    is_whole = len(old) == sum(volume.disk is not Disk.UP_TO_DATE for volume in side.volumes)
    if is_together(side) or not old or not is_whole:
        return ""
    return f" by force, because it is {old[0]} and its peer is gone"


def _last_resort(resource: str) -> str:
    """What a person can do who has lost the peer of an old replica for good, on the primary of record itself."""
    return (
        f"{resource} may be older on this node than on the other one, which is not connected: restore that node, then "
        "retry. If it is lost for good, start the instance with `roundsman instance start NAME --discard NODE`, which "
        "gives up what only that node has"
    )


def _is_in_sync(side: Side) -> bool:
    volumes = side.volumes
    return bool(volumes) and all(
        replicas.is_in_sync(side.connection, volume.disk, volume.peer_disk) for volume in volumes
    )


def _is_new_pair(side: Side) -> bool:
    return is_together(side) and all(
        volume.disk is volume.peer_disk is Disk.INCONSISTENT and volume.replication is Replication.ESTABLISHED
        for volume in side.volumes
    )
