"""How the node's DRBD resources are, from `drbdsetup` and `/proc/drbd`."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ...domain.disks import drbd
from ...storage import drbd_node, programs
from .. import observing

_CODES = {
    drbd.Connection.CONNECTED: observing.OK,
    drbd.Connection.STANDALONE: observing.BAD,
    drbd.Connection.DISCONNECTING: observing.BAD,
    drbd.Connection.TEAR_DOWN: observing.BAD,
}
"""As in Ganeti; any other state of a connection may pass by itself."""


def make() -> observing.Collect:
    """The collector; it keeps nothing."""
    return collect


def collect(where: observing.Surroundings) -> observing.Said:
    """All resources; a node without the kernel's module has none.

    Raises: errors.RoundsmanError if DRBD does not tell.
    """
    runner = programs.runner_for(where.root, hypervisor=where.settings.hypervisor)
    return report(drbd_node.DrbdNode(runner, proc=where.root / drbd_node.PROC).resources())


def report(found: drbd.Resources) -> str:
    """The worst state of the resources, each one that is not well or unknown in a line, and all that are known."""
    judged = [_judged(side) for side in found.sides]
    judged += [(observing.UNKNOWN, f"{name}: {reason}") for name, reason in found.unread.items()]
    code = max((code for code, _ in judged), default=observing.OK)
    return observing.status(code, [text for _, text in judged if text], [_told(side) for side in found.sides])


def _judged(side: drbd.Side) -> Tuple[int, str]:
    gone = [str(volume.number) for volume in side.volumes if volume.disk.is_gone]
    if gone:
        return observing.BAD, "{}: no disk behind volume {}".format(side.resource, ", ".join(gone))
    code = _CODES.get(side.connection, observing.TEMPORARILY_BAD)
    return code, "" if code == observing.OK else "{}: {}".format(side.resource, side.connection.value)


def _told(side: drbd.Side) -> Dict[str, Any]:
    return {
        "resource": side.resource,
        "role": side.role.value,
        "peerRole": side.peer_role.value,
        "connectionState": side.connection.value,
        "volumes": [
            {
                "volume": volume.number,
                "minor": volume.minor,
                "diskState": volume.disk.value,
                "peerDiskState": volume.peer_disk.value,
                "replicationState": volume.replication.value,
                "outOfSync": volume.out_of_sync,
                "done": volume.done,
            }
            for volume in side.volumes
        ],
    }
