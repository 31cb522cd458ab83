"""What a DRBD resource says of itself on one node, whichever version told it.

The words are those of DRBD 9; version 8.4 has one word for connection and replication, which is read as the two.
Amounts are in KiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import FrozenSet, List, Mapping, NamedTuple, Optional, Tuple

from ..values import errors

PING_INTERVAL = 10
"""Seconds, where nothing else is configured."""


class Role(Enum):
    """Who may write."""

    PRIMARY = "Primary"
    SECONDARY = "Secondary"
    UNKNOWN = "Unknown"


class Connection(Enum):
    """How a side stands to its peer."""

    STANDALONE = "StandAlone"
    DISCONNECTING = "Disconnecting"
    UNCONNECTED = "Unconnected"
    TIMEOUT = "Timeout"
    BROKEN_PIPE = "BrokenPipe"
    NETWORK_FAILURE = "NetworkFailure"
    PROTOCOL_ERROR = "ProtocolError"
    TEAR_DOWN = "TearDown"
    CONNECTING = "Connecting"
    CONNECTED = "Connected"


class Disk(Enum):
    """What a replica is worth."""

    DISKLESS = "Diskless"
    ATTACHING = "Attaching"
    DETACHING = "Detaching"
    FAILED = "Failed"
    NEGOTIATING = "Negotiating"
    INCONSISTENT = "Inconsistent"
    OUTDATED = "Outdated"
    UNKNOWN = "DUnknown"
    CONSISTENT = "Consistent"
    UP_TO_DATE = "UpToDate"

    @property
    def is_gone(self) -> bool:
        """Whether there is no disk behind the device."""
        return self in {Disk.DISKLESS, Disk.FAILED, Disk.DETACHING}


class Replication(Enum):
    """What goes over the connection."""

    OFF = "Off"
    ESTABLISHED = "Established"
    STARTING_SYNC_S = "StartingSyncS"
    STARTING_SYNC_T = "StartingSyncT"
    WF_BITMAP_S = "WFBitMapS"
    WF_BITMAP_T = "WFBitMapT"
    WF_SYNC_UUID = "WFSyncUUID"
    SYNC_SOURCE = "SyncSource"
    SYNC_TARGET = "SyncTarget"
    VERIFY_S = "VerifyS"
    VERIFY_T = "VerifyT"
    PAUSED_SYNC_S = "PausedSyncS"
    PAUSED_SYNC_T = "PausedSyncT"
    AHEAD = "Ahead"
    BEHIND = "Behind"

    @property
    def is_paused(self) -> bool:
        """Whether a resync is held."""
        return self in {Replication.PAUSED_SYNC_S, Replication.PAUSED_SYNC_T}

    @property
    def is_under_way(self) -> bool:
        """Whether the replicas are being made equal, or compared."""
        return self not in {Replication.OFF, Replication.ESTABLISHED} and not self.is_paused


@dataclass(frozen=True)
class Generation:
    """The identifiers of a replica's data: what it is now, what it was when the peer went, and what it was before.

    The lowest bit of an identifier is the role's and no part of it; 0 is none. `crashed_primary`: it was primary when
    its node went down, and has not seen its peer since.
    """

    current: int
    bitmap: int = 0
    history: Tuple[int, ...] = ()
    crashed_primary: bool = False


@dataclass(frozen=True)
class Volume:
    """One disk of a resource; `done` is how much of a resync is done, in percent."""

    number: int
    disk: Disk
    peer_disk: Disk = Disk.UNKNOWN
    minor: Optional[int] = None
    replication: Replication = Replication.OFF
    out_of_sync: Optional[int] = None
    done: Optional[float] = None
    paused_by_user: bool = False
    generation: Optional[Generation] = None


@dataclass(frozen=True)
class Net:
    """How the kernel is to reach the peer of a resource: its addresses, none while it stands alone, and the protocol.

    `ping_interval`: seconds of silence after which the peer is asked whether it is there. `two_primaries`: both may be
    primary just now.
    """

    addresses: FrozenSet[str] = frozenset()
    protocol: str = "C"
    two_primaries: bool = False
    ping_interval: int = PING_INTERVAL


@dataclass(frozen=True)
class Side:
    """A resource on one node, with one peer; version 9 prints the `addresses` of the peer that are in use."""

    resource: str
    role: Role
    connection: Connection
    volumes: Tuple[Volume, ...]
    peer_role: Role = Role.UNKNOWN
    addresses: FrozenSet[str] = frozenset()

    @property
    def is_up_to_date(self) -> bool:
        """Whether all of its disks are up to date."""
        return all(volume.disk is Disk.UP_TO_DATE for volume in self.volumes)

    @property
    def is_whole(self) -> bool:
        """Whether its data are those of one moment, and not half of a resync; the controller outdates what is apart."""
        return all(volume.disk in {Disk.UP_TO_DATE, Disk.CONSISTENT, Disk.OUTDATED} for volume in self.volumes)


class Resources(NamedTuple):
    """The resources of a node that are up; `unread` says by name why one cannot be represented: it is unknown."""

    sides: List[Side]
    unread: Mapping[str, str]

    def side(self, name: str) -> Optional[Side]:
        """One of them; None if it is down.

        Raises:
            InvalidInput: it is up, and unknown.
        """
        if name in self.unread:
            raise errors.InvalidInput(f"{name} cannot be read on this node: {self.unread[name]}")
        return next((side for side in self.sides if side.resource == name), None)
