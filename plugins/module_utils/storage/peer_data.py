"""Whether the peers have all data of an instance, looked at again and again while both nodes may write its disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from ..domain.disks.drbd import Connection, Disk
from ..domain.values import errors
from . import drbd_node, drbd_resource, programs

if TYPE_CHECKING:
    import pathlib

    from ..domain.disks.drbd import Side
    from .disks import Disks

LIMIT, TRIES = 5.0, 3
"""Seconds that DRBD of this node has for its answers, and how often it is asked where it cannot be read."""


class PeerData:
    """What the peers of an instance's replicas on this node have; disks that are not replicated have none."""

    def __init__(self, disks: Disks, template: str, *, root: pathlib.Path, hypervisor: str) -> None:
        self._names = [
            drbd_resource.name(disks.instance, disks.uuid, number, adopted=disk.name)
            for number, disk in enumerate(disks.disks if template == "drbd" else ())
        ]
        self._runner = programs.runner_for(root, hypervisor=hypervisor)
        self._proc = root / drbd_node.PROC

    def lacks(self) -> str:
        """Why a peer may lack data that this node has; '' while all have them."""
        if not self._names:
            return ""
        node = drbd_node.DrbdNode(programs.Hurried(self._runner, seconds=LIMIT), proc=self._proc)
        told = ""
        for _ in range(TRIES):
            try:
                found = node.resources()
                return next(filter(None, (lacking(name, found.side(name)) for name in self._names)), "")
            except errors.RoundsmanError as error:
                told = f"they cannot be read: {error}"
        return told


def lacking(name: str, side: Optional[Side]) -> str:
    """The same of one resource of this node, which is None while it is down."""
    if side is None:
        return f"{name} is down"
    for volume in side.volumes:
        # A disk that has failed here is no reason to stay: what is written goes to the peer.
        if side.connection is not Connection.CONNECTED or volume.peer_disk is not Disk.UP_TO_DATE:
            return f"{name} is {side.connection.value}, {volume.disk.value} here and {volume.peer_disk.value} there"
    return "" if side.volumes else f"{name} has no disk"
