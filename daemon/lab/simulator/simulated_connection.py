"""How the two sides of a lab's DRBD resource connect and part, and what a resync between them does.

The rules are those of the kernel's module 8.4.11 (`drbd_receiver.c` for the handshake).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Optional, TypeVar

from .simulated_generations import SPLIT, UNRELATED, Sides
from .simulated_replica import (
    BITS,
    CONNECTED,
    CONNECTING,
    CONSISTENT,
    DISKLESS,
    DUNKNOWN,
    FRESH,
    INCONSISTENT,
    OUTDATED,
    PAUSED_SOURCE,
    PAUSED_TARGET,
    PRIMARY,
    SOURCE,
    STANDALONE,
    SYNC_OFFSET,
    TARGET,
    UNKNOWN,
    UP_TO_DATE,
    Content,
    Overwritten,
    bare,
    once_connected,
)

AnySides = TypeVar("AnySides", bound="ConnectedSides")


@dataclass(frozen=True)
class ConnectedSides(Sides):
    """Both sides of a resource, which connect and part."""

    def meet(self: AnySides) -> AnySides:  # noqa: PLR0911 - a reason each
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
            theirs = bare(other.metadata.current) if other.metadata and self._device(1 - i).is_attached else None
            is_lost = device.role == PRIMARY and not device.is_attached
            if is_lost and theirs is not None and theirs != device.effective:
                return self._dropped(i)._marked()
        if first.is_attached and second.is_attached:
            return self._handshake()._marked()
        if first.role == second.role == PRIMARY and not first.two_primaries:
            return self._dropped(0)._dropped(1)._marked()
        return self._connected()._marked()

    def _handshake(self: AnySides, *, attaching: Optional[int] = None, disk: str = "") -> AnySides:
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
            pair = pair._change(attaching, disk=disk, effective=bare(pair._metadata(attaching).current))
        if not newer:
            return pair._connected()
        return pair._start(source, is_full=abs(newer) > 1, is_split=is_split)

    def _connected(self: AnySides) -> AnySides:
        """Together without a resync: what is consistent counts as up to date."""
        pair = self
        for i in (0, 1):
            pair = pair._change(i, connection=CONNECTED, disk=once_connected(pair._device(i).disk))
        for i in (0, 1):
            pair = pair._tell(i)
        return pair._cleared()

    def _dropped(self: AnySides, i: int) -> AnySides:
        return self._alone(i, STANDALONE)

    def _parted(self: AnySides, i: int, mine: str, theirs: str) -> AnySides:
        """The sides lose each other; `mine` and `theirs` are their connections afterwards."""
        pair, j, left = self, 1 - i, self.left(self.now)
        was_together = self._device(i).is_together
        if self._is_syncing:
            for k in (0, 1):
                pair = pair._dirty(k, left)
        pair = pair._alone(i, mine)
        is_heard = was_together and self.sides[j].device is not None
        return (pair._alone(j, theirs) if is_heard else pair)._marked()

    def _alone(self: AnySides, i: int, connection: str) -> AnySides:
        device = self._device(i)
        kept = device.peer_disk in {INCONSISTENT, OUTDATED}
        changes: dict[str, Any] = {"peer_disk": device.peer_disk if kept else DUNKNOWN, "peer_role": UNKNOWN}
        if connection == STANDALONE:
            changes.update(two_primaries=False, discards=False)
        pair = self._change(i, connection=connection, peer_paused=False, **changes)
        is_lost = device.is_together and device.peer_disk in {CONSISTENT, UP_TO_DATE}
        return pair._bump(i) if is_lost and device.role == PRIMARY else pair

    def _detached(self: AnySides, i: int) -> AnySides:
        pair = self
        if self._is_syncing:
            left = self.left(self.now)
            for k in (0, 1):
                pair = pair._dirty(k, left)._change(k, connection=CONNECTED)
        found = self.sides[i].metadata
        effective = bare(found.current) if found else 0
        pair = pair._change(i, disk=DISKLESS, effective=effective)._tell(i)
        return pair._bump_without_peer_disk(1 - i)._marked() if self._device(i).is_together else pair._marked()

    # A resync

    def _start(self: AnySides, source: int, *, is_full: bool, is_split: bool = False) -> AnySides:
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

    def _overwriting(self: AnySides, source: int) -> AnySides:
        target = 1 - source
        old, new = self.sides[target].content, self.content(source)
        lost = old.missing_in(new)
        event = Overwritten(target, counter=old.counter, newest=new.counter, lost=lost)
        pair = dataclasses.replace(self, events=(*self.events, event)) if lost else self
        return pair._side(target, content=dataclasses.replace(old, is_torn=True))

    def _synced(self: AnySides) -> AnySides:
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

    def _cleared(self: AnySides) -> AnySides:
        """Where both are up to date, nobody is a crashed primary any more."""
        pair = self
        if all(self._device(i).disk == self._device(i).peer_disk == UP_TO_DATE for i in (0, 1)):
            for i in (0, 1):
                pair = pair._change(i, forgets_crash=pair._device(i).has_crashed)
        return pair

    def _paused(self: AnySides) -> AnySides:
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

    def _rebased(self: AnySides, now: int) -> AnySides:
        """A resync under way is counted from now."""
        left, pair = self.left(now), self
        for i in (0, 1):
            pair = pair._change(i, resync_since=now, resync_total=left)._dirty(i, left)
        return pair

    def content(self, i: int) -> Content:
        """What is read from the device of a side: its own data, or the peer's where those are better."""
        device = self._device(i)
        is_own = device.disk == UP_TO_DATE or not (device.is_together and device.peer_disk == UP_TO_DATE)
        return self.sides[i if is_own else 1 - i].content
