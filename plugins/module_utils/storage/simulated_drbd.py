"""A pair of DRBD 8.4 replicas as pure values: what each side says and stores, and how a command or a fault changes it.

The rules are those of the kernel's module 8.4.11 (`drbd_receiver.c` for the handshake, `drbd_state.c` for what is
refused, `drbd_nl.c` for promotion and attaching); a resource has one volume and one peer. A cut link is noticed at
once: in the seconds in which DRBD still waits for its peer no write is acknowledged, so nothing can be lost in them.

Sizes and amounts are in KiB, times in ns of any one clock; nothing here reads it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any, Optional, Tuple

from ..domain import errors

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
SPLIT, UNRELATED = 100, 1000
_NO_DATA = -2
_STATE = frozenset({"connection", "role", "disk", "peer_role", "peer_disk", "is_paused", "peer_paused"})


class Rejected(errors.Failed):
    """DRBD refuses a command: `text` is what its tools print, `status` their exit status."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def _state_error(number: int) -> Rejected:
    """A refusal of the kernel's state engine (`drbd_strings.c`), with the exit status of `drbdsetup`."""
    texts = {
        -1: "Multiple primaries not allowed by config",
        -2: "Need access to UpToDate data",
        -8: "Can not start OV/resync since it is already active",
        -10: "State change was refused by peer node",
        -12: "Device is held open by someone",
        -15: "Need a connection to start verify or resync",
    }
    return Rejected(f"State change failed: ({number}) {texts[number]}", status=17 if number == _NO_DATA else 11)


def _failure(number: int, text: str) -> Rejected:
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
    to although its peer is another one; only who has the `secret` is let in.
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


@dataclass(frozen=True)
class Pair:
    """Both sides of a resource, as they were at `now`; `is_linked`: the nodes reach, and one names, the other.

    `events` is what happened since the pair was made that nobody could see later.
    """

    sides: Tuple[Side, Side]
    now: int = 0
    is_linked: bool = True
    speed: int = SPEED
    events: Tuple[Overwritten, ...] = ()

    # Time

    def at(self, now: int) -> Pair:
        """The pair at a later moment: the running instances have written on, and a resync is further or done."""
        pair = self
        for i in (0, 1):
            pair = pair._written(i, now)
        if pair._is_syncing and pair.left(now) <= 0:
            pair = pair._synced()
        elif pair._is_syncing and pair._is_moving:
            pair = pair._rebased(now)
        return dataclasses.replace(pair, now=max(now, pair.now))._marked()

    def left(self, now: int) -> int:
        """How much a resync still has to copy; without one what is out of sync."""
        for side in self.sides:
            if side.device is not None and side.device.connection in SYNCING:
                return resync_left(side.device, now=now, speed=self.speed)
        return max((side.metadata.dirty for side in self.sides if side.metadata), default=0)

    # Commands

    def up(self, i: int, *, minor: int, peer: str, secret: str = "") -> Pair:
        """New-resource, new-minor: the device is there, without a disk and without a peer."""
        return self._side(i, device=Device(minor=minor, peer=peer, secret=secret))

    def connect(self, i: int, *, discards: bool = False) -> Pair:
        """Wait for the peer, or meet it if it waits too."""
        if self._device(i).connection != STANDALONE:
            raise _failure(102, "Local address(port) already in use.")
        if discards and self._device(i).role == PRIMARY:
            raise _failure(123, "The discard-my-data option is not allowed when primary")
        return self._change(i, connection=CONNECTING, discards=discards).meet()

    def disconnect(self, i: int) -> Pair:
        """Stand alone; the peer waits."""
        device, j = self._device(i), 1 - i
        if device.connection == STANDALONE:
            raise _failure(162, "Invalid configuration request additional info from kernel: unknown connection")
        if device.role == PRIMARY and device.disk != UP_TO_DATE:
            raise _state_error(-2)
        peer = self.sides[j].device
        if device.is_together and peer is not None and peer.role == PRIMARY and peer.disk != UP_TO_DATE:
            raise _state_error(-10)
        return self._parted(i, STANDALONE, CONNECTING)

    def attach(self, i: int) -> Pair:
        """Work on the disk again; connected, both sides compare their identifiers first."""
        side, device = self.sides[i], self._device(i)
        if device.is_attached:
            # So says drbdmeta, which drbdadm asks first.
            raise Rejected(f"Device '{device.minor}' is configured!", status=20)
        if not side.size:
            raise _failure(104, "Can not open backing device.")
        if side.metadata is None:
            raise _failure(119, "No valid meta-data signature found.")
        found, is_alone = side.metadata, not device.is_together
        if is_alone and device.role == PRIMARY and device.effective != _bare(found.current):
            raise _failure(150, "Can only attach to the data we lost last (see kernel log).")
        disk = INCONSISTENT if not found.is_consistent else UP_TO_DATE if found.was_up_to_date else OUTDATED
        hot = min(side.size, found.dirty + HOT) if found.was_primary else found.dirty
        pair = self._side(i, metadata=dataclasses.replace(found, dirty=hot, current=_bare(found.current)))
        pair = pair._change(i, has_crashed=found.has_crashed or found.was_primary)
        if is_alone:
            known = {"peer_disk": OUTDATED} if found.is_peer_outdated else {}
            return pair._change(i, disk=disk, effective=_bare(found.current), **known)._role_bit(i)._marked()
        peer = self.sides[1 - i].device
        if peer is None or not peer.is_attached:
            return pair._change(i, disk=_connected(disk))._role_bit(i)._tell(i)._marked()
        return pair._role_bit(i)._handshake(attaching=i, disk=disk)._marked()

    def detach(self, i: int) -> Pair:
        """Let the disk go; reads and writes go to the peer."""
        device, j = self._device(i), 1 - i
        if not device.is_attached:
            return self
        if device.role == PRIMARY and not (device.is_together and device.peer_disk == UP_TO_DATE):
            raise _state_error(-2)
        peer = self.sides[j].device
        needed = peer is not None and device.is_together and peer.role == PRIMARY and peer.disk != UP_TO_DATE
        if needed:
            raise _state_error(-10)
        return self._detached(i)

    def promote(self, i: int, *, force: bool = False) -> Pair:
        """Make a side primary."""
        device = self._device(i)
        if device.role == PRIMARY:
            return self
        reason = _why_not_primary(device)
        is_forced = reason == _NO_DATA and force and RANKS[INCONSISTENT] <= RANKS[device.disk] < RANKS[UP_TO_DATE]
        if reason and not is_forced:
            raise _state_error(reason)
        pair = self._change(i, role=PRIMARY, discards=False, **({"disk": UP_TO_DATE} if is_forced else {}))
        found = pair.sides[i].metadata
        if pair._device(i).is_attached and found is not None:
            alone = not device.is_together or device.peer_disk == DISKLESS
            pair = pair._new_current(i) if is_forced or (alone and not found.bitmap) else pair._role_bit(i)
        pair = pair._tell(i)
        if device.is_together and device.disk == DISKLESS:
            pair = pair._bump_without_peer_disk(1 - i)
        if is_forced and device.is_together and device.peer_disk == INCONSISTENT:
            pair = pair._handshake()
        return pair._marked()

    def demote(self, i: int) -> Pair:
        """Make a side secondary."""
        device = self._device(i)
        if device.role == SECONDARY:
            return self
        if device.opened_by:
            raise _state_error(-12)
        return self._change(i, role=SECONDARY)._role_bit(i)._tell(i)._marked()

    def outdate(self, i: int) -> Pair:
        """Mark the data as old: only disconnected, and never on a primary. Connected, it changes nothing.

        Without an attached disk drbdadm does it in the metadata.
        """
        device = self.sides[i].device
        if device is None or not device.is_attached:
            if not self._metadata(i).is_consistent:
                raise Rejected("Device is inconsistent.", status=5)
            return self._store(i, was_up_to_date=False)
        if device.disk == INCONSISTENT:
            raise Rejected("", status=5)
        if device.is_together:
            return self
        if device.role == PRIMARY:
            raise Rejected("", status=17)
        return self._change(i, disk=OUTDATED)._marked()

    def invalidate(self, i: int) -> Pair:
        """Copy everything anew from the peer; standing alone, only remember that."""
        device = self._device(i)
        if not device.is_attached:
            raise _failure(138, "Device does not have a disk-config")
        if device.connection == STANDALONE and device.role == SECONDARY:
            return self._change(i, disk=INCONSISTENT)._dirty(i, self.sides[i].size)._marked()
        if device.connection in SYNCING:
            raise _state_error(-8)
        if not device.is_together:
            raise _state_error(-15)
        if device.peer_disk != UP_TO_DATE:
            raise _state_error(-2)
        return self._start(1 - i, is_full=True)._marked()

    def skip_resync(self, i: int) -> Pair:
        """Take the data of a new pair for equal (`new-current-uuid --clear-bitmap`)."""
        if not all(self._device(k).is_together and _bare(self._metadata(k).current) == FRESH for k in (0, 1)):
            raise _state_error(-15)
        current, pair = self._identifier(i), self
        for k in (0, 1):
            pair = pair._store(k, current=current, bitmap=0, dirty=0)
            pair = pair._change(k, disk=UP_TO_DATE, peer_disk=UP_TO_DATE)._role_bit(k)
        return pair._marked()

    def pause(self, i: int) -> Pair:
        """Hold a resync."""
        if self._device(i).is_paused:
            raise _failure(134, "Sync-pause flag is already set")
        return self._change(i, is_paused=True)._paused()

    def resume(self, i: int) -> Pair:
        """Go on with a resync."""
        if not self._device(i).is_paused:
            raise _failure(135, "Sync-pause flag is already cleared")
        return self._change(i, is_paused=False)._paused()

    def allow_two(self, i: int, *, allowed: bool) -> Pair:
        """Allow two primaries, or no longer; connected, the peer follows."""
        device = self._device(i)
        if device.connection == STANDALONE:
            raise _failure(162, "Invalid configuration request additional info from kernel: unknown connection")
        if not allowed and device.role == device.peer_role == PRIMARY:
            raise _failure(164, "Can not clear allow_two_primaries, currently a primary on both nodes")
        pair = self._change(i, two_primaries=allowed)
        return pair._change(1 - i, two_primaries=allowed) if device.is_together else pair

    def down(self, i: int) -> Pair:
        """Demote, disconnect, detach, and remove the device."""
        pair = self.demote(i)
        if pair._device(i).connection != STANDALONE:
            pair = pair.disconnect(i)
        return pair._side(i, device=None)

    # What happens to a side

    def lose_power(self, i: int) -> Pair:
        """The kernel of a side is gone, with all it kept in memory; what was stored stays."""
        device = self.sides[i].device
        if device is None:
            return self
        pair = self._parted(i, CONNECTING, CONNECTING) if device.is_together else self
        # What the side itself would have stored of the parting it did not live to store.
        return pair._side(i, device=None, metadata=self.sides[i].metadata)

    def cut(self) -> Pair:
        """The nodes reach each other no longer; both sides wait for their peer."""
        pair = dataclasses.replace(self, is_linked=False)
        first = self.sides[0].device
        return pair._parted(0, CONNECTING, CONNECTING) if first is not None and first.is_together else pair

    def link(self) -> Pair:
        """The nodes reach each other again."""
        return dataclasses.replace(self, is_linked=True).meet()

    def with_failed_disk(self, i: int, *, has_failed: bool) -> Pair:
        """The disk of a side gives I/O errors, or none any more; DRBD lets it go at the next write."""
        return self._side(i, has_failed=has_failed)

    # Instances

    def open(self, i: int, holder: str) -> Pair:
        """The device is opened for writing by an instance.

        Raises:
            Rejected: it is not primary, or its data cannot be reached.
        """
        device = self._device(i)
        if device.role != PRIMARY:
            raise Rejected("Wrong medium type: the device is not primary", status=1)
        if not device.may_write:
            raise Rejected("Input/output error", status=1)
        return self._change(i, opened_by=(*(opener for opener in device.opened_by if opener != holder), holder))

    def close(self, i: int, holder: str) -> Pair:
        """The device is closed by an instance, which writes no more."""
        device = self._device(i)
        writer = device.writer if device.writer and device.writer.instance != holder else None
        return self._change(
            i, opened_by=tuple(opener for opener in device.opened_by if opener != holder), writer=writer
        )

    def write_with(self, i: int, writer: Optional[Writer]) -> Pair:
        """An instance writes on a side from now on."""
        return self._change(i, writer=writer)

    def content(self, i: int) -> Content:
        """What is read from the device of a side: its own data, or the peer's where those are better."""
        device = self._device(i)
        is_own = device.disk == UP_TO_DATE or not (device.is_together and device.peer_disk == UP_TO_DATE)
        return self.sides[i if is_own else 1 - i].content

    # The connection

    def meet(self) -> Pair:  # noqa: PLR0911 - a reason each
        """Both sides wait for each other and reach each other: they connect, or refuse to."""
        first, second = (side.device for side in self.sides)
        if first is None or second is None or not self.is_linked:
            return self._marked()
        if first.connection != CONNECTING or second.connection != CONNECTING or first.minor != second.minor:
            return self._marked()
        if first.secret != second.secret:
            return self._dropped(0)._dropped(1)._marked()
        if (first.discards and second.discards) or first.two_primaries != second.two_primaries:
            return self._dropped(0)._dropped(1)._marked()
        for i, device in enumerate((first, second)):
            other = self.sides[1 - i]
            theirs = _bare(other.metadata.current) if other.metadata and self._device(1 - i).is_attached else None
            is_lost = device.role == PRIMARY and not device.is_attached
            if is_lost and theirs is not None and theirs != device.effective:
                return self._dropped(i)._marked()
        if first.is_attached and second.is_attached:
            return self._handshake()._marked()
        if first.role == second.role == PRIMARY and not first.two_primaries:
            return self._dropped(0)._dropped(1)._marked()
        return self._connected()._marked()

    def _handshake(self, *, attaching: Optional[int] = None, disk: str = "") -> Pair:
        """Compare the identifiers, and connect, start a resync, or stand alone (`drbd_sync_handshake`)."""
        disks = [disk if i == attaching else self._device(i).disk for i in (0, 1)]
        roles = [self._device(i).role for i in (0, 1)]
        newer, pair = self._compared()
        if abs(newer) != UNRELATED and (disks[0] == INCONSISTENT) != (disks[1] == INCONSISTENT):
            is_full = abs(newer) in {2, SPLIT}
            newer = (1 if disks[1] == INCONSISTENT else -1) * (2 if is_full else 1)
        is_split = abs(newer) == SPLIT
        if is_split:
            discards = [self._device(i).discards for i in (0, 1)]
            newer = -1 if discards == [True, False] else 1 if discards == [False, True] else SPLIT
        if abs(newer) in {SPLIT, UNRELATED}:
            return self if attaching is not None else self._dropped(0)._dropped(1)
        if attaching is None and roles == [PRIMARY, PRIMARY] and not self._device(0).two_primaries:
            return self._dropped(0)._dropped(1)
        if newer:
            source = 0 if newer > 0 else 1
            if disks[source] == INCONSISTENT:
                return self if attaching is not None else self._dropped(source)
            if roles[1 - source] == PRIMARY and attaching != 1 - source:
                return self if attaching is not None else self._dropped(1 - source)
        if attaching is not None:
            pair = pair._change(attaching, disk=disk, effective=_bare(pair._metadata(attaching).current))
        if not newer:
            return pair._connected()
        return pair._start(source, is_full=abs(newer) > 1, is_split=is_split)

    def _compared(self) -> Tuple[int, Pair]:  # noqa: C901, PLR0911 - the kernel's rules, in its order
        """Whose data are newer (`drbd_uuid_compare`), above 0 the first side's; the pair with corrected identifiers.

        1 asks for what the bitmap says, 2 for everything; `SPLIT` and `UNRELATED` for a person.
        """
        ours, theirs = self._metadata(0), self._metadata(1)
        mine, other = _bare(ours.current), _bare(theirs.current)
        if mine == other == FRESH:
            return 0, self
        if mine in {FRESH, 0} and other != FRESH:
            return -2, self
        if other in {FRESH, 0}:
            return 2, self
        if mine == other:
            return self._compared_equal(ours, theirs)
        if mine == _bare(theirs.bitmap):
            return -1, self
        if mine == _bare(theirs.history[0]) and _bare(theirs.bitmap) == (mine + SYNC_OFFSET) & BITS:
            return -1, self._undo_sync_identifier(1)
        if mine in {_bare(identifier) for identifier in theirs.history}:
            return -2, self
        if other == _bare(ours.bitmap):
            return 1, self
        if other == _bare(ours.history[0]) and _bare(ours.bitmap) == (other + SYNC_OFFSET) & BITS:
            return 1, self._undo_sync_identifier(0)
        if other in {_bare(identifier) for identifier in ours.history}:
            return 2, self
        if _bare(ours.bitmap) == _bare(theirs.bitmap) != 0:
            return SPLIT, self
        if {_bare(identifier) for identifier in ours.history} & {_bare(identifier) for identifier in theirs.history}:
            return SPLIT, self
        return UNRELATED, self

    def _compared_equal(self, ours: Metadata, theirs: Metadata) -> Tuple[int, Pair]:
        for i, (mine, other) in enumerate(((ours, theirs), (theirs, ours))):
            if mine.bitmap and not other.bitmap:
                # It was the source of a resync whose end only the other side has stored, or whose start it missed.
                ended = (_bare(mine.bitmap), _bare(mine.history[0])) == tuple(
                    _bare(identifier) for identifier in other.history
                )
                pair = self._forget_bitmap(i) if ended else self
                return (1 if i == 0 else -1), pair
        crashed = [self._device(i).has_crashed and not self._device(i).forgets_crash for i in (0, 1)]
        if not any(crashed):
            return 0, self
        roles = [self._device(i).role for i in (0, 1)]
        if PRIMARY in roles:
            return (UNRELATED if roles[0] == roles[1] else 1 if roles[0] == PRIMARY else -1), self
        return (1 if crashed[0] else -1), self

    def _undo_sync_identifier(self, i: int) -> Pair:
        found = self._metadata(i)
        return self._store(i, bitmap=found.history[0], history=(found.history[1], found.history[1]))

    def _forget_bitmap(self, i: int) -> Pair:
        found = self._metadata(i)
        if not found.bitmap:
            return self
        return self._store(i, bitmap=0, history=(found.bitmap, found.history[0]))

    def _connected(self) -> Pair:
        """Together without a resync: what is consistent counts as up to date."""
        pair = self
        for i in (0, 1):
            pair = pair._change(i, connection=CONNECTED, disk=_connected(pair._device(i).disk))
        for i in (0, 1):
            pair = pair._tell(i)
        return pair._cleared()

    def _start(self, source: int, *, is_full: bool, is_split: bool = False) -> Pair:
        """Begin a resync; from here on the target's old data are being destroyed."""
        target = 1 - source
        if is_full:
            total = max(side.size for side in self.sides)
        else:
            # Of two that have diverged nobody knows which blocks are the same; else one bitmap is part of the other.
            lacking = [self._metadata(i).dirty for i in (0, 1)]
            total = min(self.sides[target].size, sum(lacking) if is_split else max(lacking))
        ours = self._metadata(source)
        if ours.bitmap and ours.bitmap != FRESH:
            identifier = (ours.bitmap + SYNC_OFFSET) & BITS
        else:
            identifier = self._identifier(source)
        history = (ours.bitmap, ours.history[0]) if ours.bitmap else ours.history
        pair = self._store(source, bitmap=identifier, history=history, dirty=total)
        pair = pair._store(target, current=identifier, bitmap=0, dirty=total)
        is_failing = bool(total) and any(side.has_failed for side in self.sides)
        pair = pair if is_failing else pair._overwriting(source)
        since = {"resync_since": self.now, "resync_total": total}
        pair = pair._change(source, connection=SOURCE, disk=UP_TO_DATE, peer_disk=INCONSISTENT, **since)
        pair = pair._change(target, connection=TARGET, disk=INCONSISTENT, peer_disk=UP_TO_DATE, **since)
        pair = pair._role_bit(target)
        for i in (0, 1):
            pair = pair._tell(i)
        pair = pair._paused()
        for i in (0, 1):
            pair = pair._detached(i) if is_failing and self.sides[i].has_failed else pair
        return pair

    def _overwriting(self, source: int) -> Pair:
        target = 1 - source
        old, new = self.sides[target].content, self.content(source)
        lost = old.missing_in(new)
        event = Overwritten(target, counter=old.counter, newest=new.counter, lost=lost)
        pair = dataclasses.replace(self, events=(*self.events, event)) if lost else self
        return pair._side(target, content=dataclasses.replace(old, is_torn=True))

    def _synced(self) -> Pair:
        """A resync is done: equal data and equal identifiers (`drbd_resync_finished`)."""
        source = 0 if self._device(0).connection in {SOURCE, PAUSED_SOURCE} else 1
        target = 1 - source
        pair = self._forget_bitmap(source)
        ours = pair._metadata(source)
        pair = pair._store(source, dirty=0)
        pair = pair._store(target, current=ours.current, bitmap=ours.bitmap, history=ours.history, dirty=0)
        pair = pair._side(target, content=pair.sides[source].content)
        for i in (0, 1):
            pair = pair._change(i, connection=CONNECTED, disk=UP_TO_DATE, peer_disk=UP_TO_DATE)._role_bit(i)
        return pair._cleared()

    def _cleared(self) -> Pair:
        """Where both are up to date, nobody is a crashed primary any more."""
        pair = self
        if all(self._device(i).disk == self._device(i).peer_disk == UP_TO_DATE for i in (0, 1)):
            for i in (0, 1):
                pair = pair._change(i, forgets_crash=pair._device(i).has_crashed)
        return pair

    def _paused(self) -> Pair:
        """Both sides of a resync are held, or both go on."""
        pair = self
        if all(side.device is not None and side.device.is_together for side in self.sides):
            for i in (0, 1):
                pair = pair._change(i, peer_paused=self._device(1 - i).is_paused)
        if not pair._is_syncing:
            return pair._marked()
        left, is_held = pair.left(self.now), not pair._is_moving
        for i in (0, 1):
            is_source = pair._device(i).connection in {SOURCE, PAUSED_SOURCE}
            words = (PAUSED_SOURCE, PAUSED_TARGET) if is_held else (SOURCE, TARGET)
            pair = pair._change(i, connection=words[0 if is_source else 1], resync_since=self.now, resync_total=left)
        return pair._marked()

    def _parted(self, i: int, mine: str, theirs: str) -> Pair:
        """The sides lose each other; `mine` and `theirs` are their connections afterwards."""
        pair, j, left = self, 1 - i, self.left(self.now)
        was_together = self._device(i).is_together
        if self._is_syncing:
            for k in (0, 1):
                pair = pair._dirty(k, left)
        pair = pair._alone(i, mine)
        is_heard = was_together and self.sides[j].device is not None
        return (pair._alone(j, theirs) if is_heard else pair)._marked()

    def _dropped(self, i: int) -> Pair:
        return self._alone(i, STANDALONE)

    def _alone(self, i: int, connection: str) -> Pair:
        device = self._device(i)
        kept = device.peer_disk in {INCONSISTENT, OUTDATED}
        changes: dict[str, Any] = {"peer_disk": device.peer_disk if kept else DUNKNOWN, "peer_role": UNKNOWN}
        if connection == STANDALONE:
            changes.update(two_primaries=False, discards=False)
        pair = self._change(i, connection=connection, peer_paused=False, **changes)
        is_lost = device.is_together and device.peer_disk in {CONSISTENT, UP_TO_DATE}
        return pair._bump(i) if is_lost and device.role == PRIMARY else pair

    def _detached(self, i: int) -> Pair:
        pair = self
        if self._is_syncing:
            left = self.left(self.now)
            for k in (0, 1):
                pair = pair._dirty(k, left)._change(k, connection=CONNECTED)
        found = self.sides[i].metadata
        effective = _bare(found.current) if found else 0
        pair = pair._change(i, disk=DISKLESS, effective=effective)._tell(i)
        return pair._bump_without_peer_disk(1 - i)._marked() if self._device(i).is_together else pair._marked()

    def _bump_without_peer_disk(self, i: int) -> Pair:
        """A side whose connected peer has no disk starts a generation if any of the two is primary."""
        device = self.sides[i].device
        if device is None or PRIMARY not in {device.role, device.peer_role}:
            return self
        pair = self._bump(i)
        ours = pair.sides[i].metadata
        return pair._change(1 - i, effective=_bare(ours.current)) if ours and device.is_attached else pair

    def _bump(self, i: int) -> Pair:
        """A new current identifier, where the peer's data are lost and no bitmap counts for it yet."""
        found = self.sides[i].metadata
        is_needed = found is not None and not found.bitmap and self._device(i).disk == UP_TO_DATE
        return self._new_current(i) if is_needed else self

    def _new_current(self, i: int) -> Pair:
        found = self._metadata(i)
        return self._store(i, bitmap=found.current, current=self._identifier(i))._role_bit(i)

    def _identifier(self, i: int) -> int:
        found = self._metadata(i)
        seed = f"{found.current:x}/{found.bitmap:x}/{found.history}/{i}/{self.now}/{self.sides[i].content.runs}"
        return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") & ~1 | 1 << 63

    # Writing

    def _written(self, i: int, now: int) -> Pair:
        device = self.sides[i].device
        if device is None or device.writer is None:
            return self
        writer = device.writer.at(now, moves=device.may_write)
        pair = self if writer is device.writer else self._change(i, writer=writer)
        count = writer.counter - device.writer.counter
        try:
            return pair.write(i, writer.run, writer.counter, blocks=count) if count else pair
        except Rejected:
            # Its last disk has failed: nothing was acknowledged since.
            return self.after_failed_write(i)._change(i, writer=device.writer.at(now, moves=False))

    def write(self, i: int, run: str, counter: int, *, blocks: int = 1) -> Pair:
        """Writes are acknowledged on a side: they are on its disk, and on the peer's while that takes them.

        Raises:
            Rejected: they fail.
        """
        if not self._device(i).may_write:
            raise Rejected("Input/output error", status=1)
        for k in (i, 1 - i):
            if self.sides[k].has_failed and self.sides[k].device is not None and self._device(k).is_attached:
                return self._detached(k).write(i, run, counter, blocks=blocks)
        device = self._device(i)
        sent = device.is_together and (device.peer_disk == UP_TO_DATE or device.connection in SYNCING)
        pair = self
        for k, is_on in ((i, device.is_attached), (1 - i, sent)):
            if is_on:
                pair = pair._side(k, content=pair.sides[k].content.written(run, counter))
        if not (device.is_attached and sent):
            where = i if device.is_attached else 1 - i
            before = self._metadata(where).dirty
            pair = pair._dirty(where, max(before, min(before + BLOCK * blocks, HOT, self.sides[where].size)))
        return pair

    def after_failed_write(self, i: int) -> Pair:
        """What a write that fails leaves: a faulty disk is let go."""
        device = self._device(i)
        return self._detached(i) if self.sides[i].has_failed and device.is_attached else self

    # Values

    @property
    def _is_syncing(self) -> bool:
        return any(side.device is not None and side.device.connection in SYNCING for side in self.sides)

    @property
    def _is_moving(self) -> bool:
        return not any(side.device is not None and side.device.is_paused for side in self.sides)

    def _rebased(self, now: int) -> Pair:
        """A resync under way is counted from now."""
        left, pair = self.left(now), self
        for i in (0, 1):
            pair = pair._change(i, resync_since=now, resync_total=left)._dirty(i, left)
        return pair

    def _tell(self, i: int) -> Pair:
        """The peer of a side learns its role and its disk."""
        device = self._device(i)
        if not device.is_together or self.sides[1 - i].device is None:
            return self
        return self._change(1 - i, peer_role=device.role, peer_disk=device.disk)

    def _marked(self) -> Pair:
        """The flags in the metadata follow the state, as long as the disk is attached."""
        pair = self
        for i in (0, 1):
            device, found = self.sides[i].device, self.sides[i].metadata
            if device is None or found is None or not device.is_attached:
                continue
            pair = pair._store(
                i,
                is_consistent=RANKS[device.disk] > RANKS[INCONSISTENT],
                was_up_to_date=RANKS[device.disk] > RANKS[OUTDATED],
                was_primary=device.role == PRIMARY or (device.peer_disk == DISKLESS and device.peer_role == PRIMARY),
                was_connected=device.is_together,
                is_peer_outdated=device.peer_disk in {INCONSISTENT, OUTDATED},
                has_crashed=device.has_crashed,
            )
        return pair

    def _role_bit(self, i: int) -> Pair:
        found = self.sides[i].metadata
        if found is None or not self._device(i).is_attached:
            return self
        return self._store(i, current=_bare(found.current) | (self._device(i).role == PRIMARY))

    def _device(self, i: int) -> Device:
        device = self.sides[i].device
        if device is None:
            raise _failure(158, "Unknown resource")
        return device

    def _metadata(self, i: int) -> Metadata:
        found = self.sides[i].metadata
        if found is None:
            raise _failure(119, "No valid meta-data signature found.")
        return found

    def _dirty(self, i: int, amount: int) -> Pair:
        return self if self.sides[i].metadata is None else self._store(i, dirty=amount)

    def _store(self, i: int, **changes: Any) -> Pair:
        found = self._metadata(i)
        if all(getattr(found, name) == value for name, value in changes.items()):
            return self
        return self._side(i, metadata=dataclasses.replace(found, **changes))

    def _change(self, i: int, **changes: Any) -> Pair:
        device = self.sides[i].device
        if device is None:
            return self
        is_other = any(getattr(device, name) != value for name, value in changes.items() if name in _STATE)
        if is_other and device.forgets_crash:
            changes = {"has_crashed": False, "forgets_crash": False, **changes}
        return self._side(i, device=dataclasses.replace(device, **changes))

    def _side(self, i: int, **changes: Any) -> Pair:
        side = dataclasses.replace(self.sides[i], **changes)
        return dataclasses.replace(self, sides=(side, self.sides[1]) if i == 0 else (self.sides[0], side))


def resync_left(device: Device, *, now: int, speed: int) -> int:
    """How much the resync of a side still has to copy at this moment."""
    if device.connection in {PAUSED_SOURCE, PAUSED_TARGET}:
        return device.resync_total
    copied = speed * max(0, now - device.resync_since) // SECOND
    return max(0, -(-(device.resync_total - copied) // BLOCK) * BLOCK)


def _why_not_primary(device: Device) -> int:
    """The kernel's reason against a promotion (`is_valid_state`), or 0."""
    own, peer = RANKS[device.disk], RANKS[device.peer_disk] if device.is_together else RANKS[DUNKNOWN]
    if device.is_together and device.peer_role == PRIMARY and not device.two_primaries:
        return -1
    return -2 if device.disk != UP_TO_DATE and (not device.is_together or max(own, peer) < RANKS[UP_TO_DATE]) else 0


def _connected(disk: str) -> str:
    """What a disk is worth once the peer is there and has nothing newer."""
    return UP_TO_DATE if disk in {CONSISTENT, OUTDATED} else disk


def _bare(identifier: int) -> int:
    return identifier & ~1
