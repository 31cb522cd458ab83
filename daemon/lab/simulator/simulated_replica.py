"""A DRBD replica of a lab as a pure value: its data, its metadata, the device while it is up, and how DRBD refuses.

Sizes and amounts are in KiB, times in ns of any one clock; nothing here reads it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Optional, Tuple

from ....plugins.module_utils.domain.values import errors

FRESH = 4
"""The current identifier of metadata that never had data."""
SYNC_OFFSET = 0x0001000000000000
BITS = (1 << 64) - 1
BLOCK = 4
HOT = 4096
"""What a running instance writes on, and what its crash or a detached disk leaves to be compared (the activity log)."""
SPEED = 64 * 1024 * 1024
"""KiB per second of a resync."""
SECOND = 1_000_000_000
MOST_RUNS = 16

STANDALONE, CONNECTING, CONNECTED = "StandAlone", "WFConnection", "Connected"
SOURCE, TARGET, PAUSED_SOURCE, PAUSED_TARGET = "SyncSource", "SyncTarget", "PausedSyncS", "PausedSyncT"
SYNCING = frozenset({SOURCE, TARGET, PAUSED_SOURCE, PAUSED_TARGET})
TOGETHER = SYNCING | {CONNECTED}
PRIMARY, SECONDARY, UNKNOWN = "Primary", "Secondary", "Unknown"
DISKLESS, NEGOTIATING, INCONSISTENT, OUTDATED = "Diskless", "Negotiating", "Inconsistent", "Outdated"
DUNKNOWN, CONSISTENT, UP_TO_DATE = "DUnknown", "Consistent", "UpToDate"
RANKS = {
    name: rank
    for rank, name in enumerate((DISKLESS, NEGOTIATING, INCONSISTENT, OUTDATED, DUNKNOWN, CONSISTENT, UP_TO_DATE))
}
NO_DATA = -2


class Rejected(errors.Failed):
    """DRBD refuses a command: `text` is what its tools print, `status` their exit status."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def state_error(number: int) -> Rejected:
    """A refusal of the kernel's state engine (`drbd_strings.c`), with the exit status of `drbdsetup`."""
    texts = {
        -1: "Multiple primaries not allowed by config",
        -2: "Need access to UpToDate data",
        -8: "Can not start OV/resync since it is already active",
        -10: "State change was refused by peer node",
        -12: "Device is held open by someone",
        -15: "Need a connection to start verify or resync",
    }
    return Rejected(f"State change failed: ({number}) {texts[number]}", status=17 if number == NO_DATA else 11)


def failure(number: int, text: str) -> Rejected:
    """A refusal of a configuration request."""
    return Rejected(f"Failure: ({number}) {text}", status=10)


@dataclass(frozen=True)
class Content:
    """The data of a replica: the runs of the instance that wrote them, each with its last counter.

    A run is one life of an instance, from its start to its end, on whichever nodes. Two replicas on which different
    runs have written have diverged; one whose runs are the beginning of the other's is older. `is_torn`: a resync has
    overwritten a part.
    """

    runs: Tuple[Tuple[str, int], ...] = ()
    is_torn: bool = False

    @property
    def counter(self) -> int:
        """The last counter that was written; 0 on a new disk."""
        return self.runs[-1][1] if self.runs else 0

    def written(self, run: str, counter: int) -> Content:
        """The data once this run has written up to this counter."""
        if self.runs and self.runs[-1][0] == run:
            runs = (*self.runs[:-1], (run, max(counter, self.runs[-1][1])))
        else:
            runs = (*self.runs, (run, counter))[-MOST_RUNS:]
        return dataclasses.replace(self, runs=runs)

    def missing_in(self, other: Content) -> int:
        """How many of the writes on this replica the other one does not have."""
        theirs = dict(other.runs)
        oldest = other.runs[0][1] if other.runs else 0
        before, missing = 0, 0
        for number, (run, counter) in enumerate(self.runs):
            if run in theirs:
                missing += max(0, counter - theirs[run])
            elif number or len(other.runs) < MOST_RUNS or counter > oldest:
                missing += counter - before
            before = counter
        return missing


@dataclass(frozen=True)
class Metadata:
    """What DRBD stores of a replica: generation identifiers, flags, and how much of it the peer lacks (`dirty`).

    Version 9 also stores the number of this node (`node_id`), and keeps what each of `known_peers` lacks under the
    number of that peer until it is forgotten.
    """

    current: int = FRESH
    bitmap: int = 0
    history: Tuple[int, int] = (0, 0)
    is_consistent: bool = False
    was_up_to_date: bool = False
    was_primary: bool = False
    was_connected: bool = False
    is_peer_outdated: bool = False
    has_crashed: bool = False
    dirty: int = 0
    node_id: Optional[int] = None
    known_peers: Tuple[Tuple[int, str], ...] = ()

    def text(self) -> str:
        """As `drbdadm get-gi` prints it."""
        identifiers = (self.current, self.bitmap, *self.history)
        flags = (
            self.is_consistent,
            self.was_up_to_date,
            self.was_primary,
            self.was_connected,
            False,
            self.is_peer_outdated,
            self.has_crashed,
        )
        return ":".join([*(f"{identifier:016X}" for identifier in identifiers), *(str(int(flag)) for flag in flags)])


@dataclass(frozen=True)
class Writer:
    """An instance that writes: `counter` was acknowledged at `since`, and `rate` more are each second."""

    instance: str
    run: str
    counter: int
    since: int
    rate: float

    def at(self, now: int, *, moves: bool = True) -> Writer:
        """The same at a later moment; `moves`: its writes succeeded meanwhile."""
        count = int(max(0, now - self.since) * self.rate / SECOND) if moves else 0
        if moves and not count:
            return self
        since = min(now, self.since + int(count * SECOND / self.rate)) if moves else max(now, self.since)
        return dataclasses.replace(self, counter=self.counter + count, since=since)


@dataclass(frozen=True)
class Device:
    """A resource that is up on a node, as the kernel keeps it in memory; `peer` is the name of the other node.

    `forgets_crash`: it is no crashed primary any more, which the metadata say only after its next change of state.
    `peer_id`: the number under which version 9 has a connection to the peer. `stranger`: the node that it is connected
    to although its peer is another one; only who has the `secret` is let in. `address` and `peer_address`: where the
    kernel listens and whom it calls, as DRBD prints them.
    """

    minor: int
    peer: str
    connection: str = STANDALONE
    role: str = SECONDARY
    disk: str = DISKLESS
    peer_role: str = UNKNOWN
    peer_disk: str = DUNKNOWN
    two_primaries: bool = False
    discards: bool = False
    is_paused: bool = False
    peer_paused: bool = False
    has_crashed: bool = False
    forgets_crash: bool = False
    peer_boot: str = ""
    effective: int = 0
    resync_since: int = 0
    resync_total: int = 0
    opened_by: Tuple[str, ...] = ()
    writer: Optional[Writer] = None
    peer_id: Optional[int] = None
    secret: str = ""
    stranger: str = ""
    address: str = ""
    peer_address: str = ""

    @property
    def other(self) -> str:
        """The node at the other end of its connection, or the one that it waits for."""
        return self.stranger or self.peer

    @property
    def is_together(self) -> bool:
        """Whether the peer is connected."""
        return self.connection in TOGETHER

    @property
    def is_attached(self) -> bool:
        """Whether it works on its own disk."""
        return RANKS[self.disk] >= RANKS[INCONSISTENT]

    @property
    def is_alone(self) -> bool:
        """Whether a primary with all data writes to no other replica, as `replicas.ReplicaFact.is_alone` has it."""
        if self.role != PRIMARY or self.disk != UP_TO_DATE:
            return False
        return not self.is_together or self.peer_disk == DISKLESS

    @property
    def may_write(self) -> bool:
        """Whether a write by the instance succeeds."""
        return self.role == PRIMARY and (self.disk == UP_TO_DATE or (self.is_together and self.peer_disk == UP_TO_DATE))


@dataclass(frozen=True)
class Side:
    """A replica on one node: its disk (`size` 0: none), the metadata on it, and the device while it is up."""

    size: int = 0
    metadata: Optional[Metadata] = None
    content: Content = dataclasses.field(default_factory=Content)
    has_failed: bool = False
    device: Optional[Device] = None


@dataclass(frozen=True)
class Overwritten:
    """A resync destroyed writes on the replica of a side that the other one lacks: `lost` of them.

    `counter` is the highest of the destroyed replica, `newest` that of the other one.
    """

    side: int
    counter: int
    newest: int
    lost: int


def resync_left(device: Device, *, now: int, speed: int) -> int:
    """How much the resync of a side still has to copy at this moment."""
    if device.connection in {PAUSED_SOURCE, PAUSED_TARGET}:
        return device.resync_total
    copied = speed * max(0, now - device.resync_since) // SECOND
    return max(0, -(-(device.resync_total - copied) // BLOCK) * BLOCK)


def once_connected(disk: str) -> str:
    """What a disk is worth once the peer is there and has nothing newer."""
    return UP_TO_DATE if disk in {CONSISTENT, OUTDATED} else disk


def bare(identifier: int) -> int:
    """An identifier of a generation without the bit of the role."""
    return identifier & ~1
