"""The two replicas of a lab's DRBD resource, and their generations: whose data are newer, and when a new one begins.

The rules are those of the kernel's module 8.4.11 (`drbd_receiver.c` for the comparison).
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import Any, Tuple, TypeVar

from .simulated_replica import (
    BITS,
    DISKLESS,
    FRESH,
    INCONSISTENT,
    OUTDATED,
    PRIMARY,
    RANKS,
    SPEED,
    SYNC_OFFSET,
    SYNCING,
    UP_TO_DATE,
    Device,
    Metadata,
    Overwritten,
    Side,
    bare,
    failure,
    resync_left,
)

SPLIT, UNRELATED = 100, 1000
_STATE = frozenset({"connection", "role", "disk", "peer_role", "peer_disk", "is_paused", "peer_paused"})

AnySides = TypeVar("AnySides", bound="Sides")


@dataclass(frozen=True)
class Sides:
    """Both sides of a resource, as they were at `now`; `is_linked`: the nodes reach, and one names, the other.

    `events` is what happened since the pair was made that nobody could see later.
    """

    sides: Tuple[Side, Side]
    now: int = 0
    is_linked: bool = True
    speed: int = SPEED
    events: Tuple[Overwritten, ...] = ()

    def left(self, now: int) -> int:
        """How much a resync still has to copy; without one what is out of sync."""
        for side in self.sides:
            if side.device is not None and side.device.connection in SYNCING:
                return resync_left(side.device, now=now, speed=self.speed)
        return max((side.metadata.dirty for side in self.sides if side.metadata), default=0)

    # Generations

    def _compared(self: AnySides) -> Tuple[int, AnySides]:  # noqa: C901, PLR0911 - the kernel's rules, in its order
        """Whose data are newer (`drbd_uuid_compare`), above 0 the first side's; the pair with corrected identifiers.

        1 asks for what the bitmap says, 2 for everything; `SPLIT` and `UNRELATED` for a person.
        """
        ours, theirs = self._metadata(0), self._metadata(1)
        mine, other = bare(ours.current), bare(theirs.current)
        if mine == other == FRESH:
            return 0, self
        if mine in {FRESH, 0} and other != FRESH:
            return -2, self
        if other in {FRESH, 0}:
            return 2, self
        if mine == other:
            return self._compared_equal(ours, theirs)
        if mine == bare(theirs.bitmap):
            return -1, self
        if mine == bare(theirs.history[0]) and bare(theirs.bitmap) == (mine + SYNC_OFFSET) & BITS:
            return -1, self._undo_sync_identifier(1)
        if mine in {bare(identifier) for identifier in theirs.history}:
            return -2, self
        if other == bare(ours.bitmap):
            return 1, self
        if other == bare(ours.history[0]) and bare(ours.bitmap) == (other + SYNC_OFFSET) & BITS:
            return 1, self._undo_sync_identifier(0)
        if other in {bare(identifier) for identifier in ours.history}:
            return 2, self
        if bare(ours.bitmap) == bare(theirs.bitmap) != 0:
            return SPLIT, self
        if {bare(identifier) for identifier in ours.history} & {bare(identifier) for identifier in theirs.history}:
            return SPLIT, self
        return UNRELATED, self

    def _compared_equal(self: AnySides, ours: Metadata, theirs: Metadata) -> Tuple[int, AnySides]:
        for i, (mine, other) in enumerate(((ours, theirs), (theirs, ours))):
            if mine.bitmap and not other.bitmap:
                # It was the source of a resync whose end only the other side has stored, or whose start it missed.
                ended = (bare(mine.bitmap), bare(mine.history[0])) == tuple(
                    bare(identifier) for identifier in other.history
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

    def _undo_sync_identifier(self: AnySides, i: int) -> AnySides:
        found = self._metadata(i)
        return self._store(i, bitmap=found.history[0], history=(found.history[1], found.history[1]))

    def _forget_bitmap(self: AnySides, i: int) -> AnySides:
        found = self._metadata(i)
        if not found.bitmap:
            return self
        return self._store(i, bitmap=0, history=(found.bitmap, found.history[0]))

    def _bump(self: AnySides, i: int) -> AnySides:
        """A new current identifier, where the peer's data are lost and no bitmap counts for it yet."""
        found = self.sides[i].metadata
        is_needed = found is not None and not found.bitmap and self._device(i).disk == UP_TO_DATE
        return self._new_current(i) if is_needed else self

    def _bump_without_peer_disk(self: AnySides, i: int) -> AnySides:
        """A side whose connected peer has no disk starts a generation if any of the two is primary."""
        device = self.sides[i].device
        if device is None or PRIMARY not in {device.role, device.peer_role}:
            return self
        pair = self._bump(i)
        ours = pair.sides[i].metadata
        return pair._change(1 - i, effective=bare(ours.current)) if ours and device.is_attached else pair

    def _new_current(self: AnySides, i: int) -> AnySides:
        found = self._metadata(i)
        return self._store(i, bitmap=found.current, current=self._identifier(i))._role_bit(i)

    def _identifier(self, i: int) -> int:
        found = self._metadata(i)
        seed = f"{found.current:x}/{found.bitmap:x}/{found.history}/{i}/{self.now}/{self.sides[i].content.runs}"
        return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") & ~1 | 1 << 63

    def _role_bit(self: AnySides, i: int) -> AnySides:
        found = self.sides[i].metadata
        if found is None or not self._device(i).is_attached:
            return self
        return self._store(i, current=bare(found.current) | (self._device(i).role == PRIMARY))

    # Values

    @property
    def _is_syncing(self) -> bool:
        return any(side.device is not None and side.device.connection in SYNCING for side in self.sides)

    @property
    def _is_moving(self) -> bool:
        return not any(side.device is not None and side.device.is_paused for side in self.sides)

    def _tell(self: AnySides, i: int) -> AnySides:
        """The peer of a side learns its role and its disk."""
        device = self._device(i)
        if not device.is_together or self.sides[1 - i].device is None:
            return self
        return self._change(1 - i, peer_role=device.role, peer_disk=device.disk)

    def _marked(self: AnySides) -> AnySides:
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

    def _device(self, i: int) -> Device:
        device = self.sides[i].device
        if device is None:
            raise failure(158, "Unknown resource")
        return device

    def _metadata(self, i: int) -> Metadata:
        found = self.sides[i].metadata
        if found is None:
            raise failure(119, "No valid meta-data signature found.")
        return found

    def _dirty(self: AnySides, i: int, amount: int) -> AnySides:
        return self if self.sides[i].metadata is None else self._store(i, dirty=amount)

    def _store(self: AnySides, i: int, **changes: Any) -> AnySides:
        found = self._metadata(i)
        if all(getattr(found, name) == value for name, value in changes.items()):
            return self
        return self._side(i, metadata=dataclasses.replace(found, **changes))

    def _change(self: AnySides, i: int, **changes: Any) -> AnySides:
        device = self.sides[i].device
        if device is None:
            return self
        is_other = any(getattr(device, name) != value for name, value in changes.items() if name in _STATE)
        if is_other and device.forgets_crash:
            changes = {"has_crashed": False, "forgets_crash": False, **changes}
        return self._side(i, device=dataclasses.replace(device, **changes))

    def _side(self: AnySides, i: int, **changes: Any) -> AnySides:
        side = dataclasses.replace(self.sides[i], **changes)
        return dataclasses.replace(self, sides=(side, self.sides[1]) if i == 0 else (self.sides[0], side))
