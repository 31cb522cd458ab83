"""How the data of two replicas are related, by their generation identifiers (DRBD's rules for a connection)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .drbd import Generation

FRESH = 4
"""The current identifier of a replica that never had data."""
_SYNC_OFFSET = 0x0001000000000000
"""What DRBD adds to the bitmap's identifier when a resync starts (`UUID_NEW_BM_OFFSET`)."""
_MOST = (1 << 64) - 1


class Relation(Enum):
    """Whose data are newer."""

    EQUAL = "the data are the same"
    OURS_NEWER = "ours were written since"
    THEIRS_NEWER = "theirs were written since"
    SPLIT = "both were written since"
    UNRELATED = "they have no data in common"


def relation(ours: Generation, theirs: Generation) -> Relation:
    """The relation of two replicas by DRBD's own rules; a replica without data is older than any other."""
    mine, other = bare(ours.current), bare(theirs.current)
    if mine == other:
        return Relation.EQUAL
    if other in {0, FRESH}:
        return Relation.OURS_NEWER
    if mine in {0, FRESH}:
        return Relation.THEIRS_NEWER
    if other in _past(ours):
        return Relation.OURS_NEWER
    if mine in _past(theirs):
        return Relation.THEIRS_NEWER
    return Relation.SPLIT if _past(ours) & _past(theirs) else Relation.UNRELATED


def age(ours: Generation, theirs: Generation) -> Relation:
    """The relation of two replicas, also where DRBD no longer knows which one is newer.

    Of a generation that a replica had when a resync to another one started, its history keeps the identifier of that
    resync for longer. DRBD does not look for it: what it calls unrelated or split is not connected.
    """
    found = relation(ours, theirs)
    if found not in {Relation.UNRELATED, Relation.SPLIT}:
        return found
    is_ours, is_theirs = _synced_since(ours, theirs), _synced_since(theirs, ours)
    if is_ours is is_theirs:
        return found
    return Relation.OURS_NEWER if is_ours else Relation.THEIRS_NEWER


def has_data_of(ours: Generation, theirs: Generation) -> bool:
    """Whether ours are the data of theirs, or went on from them."""
    return age(ours, theirs) in {Relation.EQUAL, Relation.OURS_NEWER}


def is_noted(ours: Generation, theirs: Generation) -> bool:
    """Whether DRBD has noted in its bitmaps all that differs between two replicas, or does not need them.

    After a split brain it copies what both have noted since the generation that they had in common. If that is in
    their histories only, one of them had another peer since, and has noted what differs from that one.
    """
    if relation(ours, theirs) is not Relation.SPLIT:
        return True
    return bare(ours.bitmap) == bare(theirs.bitmap) != 0


def _synced_since(ours: Generation, theirs: Generation) -> bool:
    """Whether our past has a resync that started from the generation of theirs."""
    return bare((theirs.current + _SYNC_OFFSET) & _MOST) in _past(ours)


def _past(generation: Generation) -> "set[int]":
    return {bare(each) for each in (generation.bitmap, *generation.history)} - {0}


def bare(identifier: int) -> int:
    """A generation identifier without its lowest bit, which is the role's."""
    return identifier & ~1
