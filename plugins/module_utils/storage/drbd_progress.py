"""How far the replicas of a DRBD disk are in sync, and what keeps them from it."""

from __future__ import annotations

from typing import Optional

from ..domain.disks import replicas
from ..domain.disks.drbd import Connection, Disk, Replication, Side, Volume
from .drbd_node import is_together

FULL = 100.0
KIB_PER_MIB = 1024
_BAD = {Disk.INCONSISTENT, Disk.OUTDATED}


def is_settled(side: Side, volume: Volume) -> bool:
    """Whether a volume is in sync, and no comparison of its replicas is under way."""
    is_in_sync = replicas.is_in_sync(side.connection, volume.disk, volume.peer_disk)
    return is_in_sync and volume.replication is Replication.ESTABLISHED


def percent(side: Side, volume: Volume, size: Optional[float]) -> float:
    """How much of a disk of so many MiB is equal on both nodes, in percent."""
    if is_settled(side, volume):
        return FULL
    if volume.done is not None:
        return volume.done
    if not volume.replication.is_under_way or not size or volume.out_of_sync is None:
        return 0.0
    return round(max(0.0, FULL - FULL * volume.out_of_sync / (size * KIB_PER_MIB)), 2)


def trouble(side: Side, volume: Volume) -> str:
    """Why the replicas will not become equal by waiting, or ''."""
    together = is_together(side)
    reasons = {
        "stands alone: its peer or it refused the connection": side.connection is Connection.STANDALONE,
        "has no disk on this node": volume.disk.is_gone,
        "has no disk on its peer": together and volume.peer_disk.is_gone,
        "has its resync paused": volume.paused_by_user,
        "is up to date on neither node": (
            together and volume.replication is Replication.ESTABLISHED and {volume.disk, volume.peer_disk} <= _BAD
        ),
    }
    return next((text for text, is_so in reasons.items() if is_so), "")
