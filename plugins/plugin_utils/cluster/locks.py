"""The words of locking: levels in their order, set locks, and modes (seed 004, "Locking").

A lock is named `level/name`. `level/[lockset]` is the lock of a whole level: it overlaps every lock of that level.
`node-res/UUID` is the lock of a node's power. Who has it holds the node, too, and who has the node alone has its power:
that of a silent node is taken while others still work beside it (`docs/decisions/hold-and-record.md`).
"""

from __future__ import annotations

from enum import Enum
from typing import Iterable, Mapping, Set, Tuple

from ...module_utils.domain.values import errors

LEVELS = ("cluster", "instance", "nodegroup", "node", "node-res", "network", "config")
SET_NAME = "[lockset]"


class Mode(Enum):
    """How a lock is held."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


def level(lock: str) -> str:
    """The level of a lock.

    Raises:
        LockRefused: there is no such level, or the lock has no name.
    """
    found, _, name = lock.partition("/")
    if found not in LEVELS or not name:
        raise errors.LockRefused(f"{lock!r} is no lock: name one as LEVEL/NAME, with a level of {', '.join(LEVELS)}")
    return found


def set_of(lock: str) -> str:
    """The set lock that overlaps a lock."""
    return f"{level(lock)}/{SET_NAME}"


def is_set(lock: str) -> bool:
    return lock.endswith(f"/{SET_NAME}")


def objects(wants: Iterable[str], kind: str, *, known: Iterable[str]) -> Set[str]:
    """The objects (UUIDs) of a level that these locks are about; the lock of the whole level is about all `known`."""
    named = {name for level_, _, name in (lock.partition("/") for lock in wants) if level_ == kind and name}
    return (named - {SET_NAME}) | (set(known) if SET_NAME in named else set())


def rank(lock: str) -> Tuple[int, bool, str]:
    """The place of a lock in the order in which locks are taken: by level, a set before its members, then by name."""
    return LEVELS.index(level(lock)), not is_set(lock), lock


def covers(held: Mapping[str, Mode], lock: str, mode: Mode) -> bool:
    """Whether who holds these locks has another one already: itself, by its set, or by the node that it is part of."""
    if any(held.get(name) in {Mode.EXCLUSIVE, mode} for name in (lock, set_of(lock))):
        return True
    return level(lock) == "node-res" and covers(held, f"node/{lock.partition('/')[2]}", Mode.EXCLUSIVE)


def refuse_unless_alone(held: Mapping[str, Mode], lock: str) -> None:
    """To record a change is to write: whoever does has the lock exclusively, itself or by its set.

    Raises:
        Refused: it is not held, or only shared.
    """
    if covers(held, lock, Mode.EXCLUSIVE):
        return
    if covers(held, lock, Mode.SHARED):
        raise errors.Refused(f"{lock} is only shared: hold it exclusively first")
    raise errors.Refused(f"{lock} is not held: run the play again")
