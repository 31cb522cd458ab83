"""The lock table: who holds what, who waits, and who is next (seed 004, "Locking"; DESIGN, "Jobs").

A request asks for several locks at once and gets all or none. Requests are served by priority, then arrival; one that
conflicts with an earlier waiting request waits behind it, so nobody is overtaken, save that a shared request joins a
waiting group of its own priority that wants just the same. Granting looks at every pair of waiting requests.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors
from ...plugins.module_utils.domain.locks import LEVELS, Mode

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Owner:
    """Who holds or wants locks: a name to show, and the livelock whose end ends the ownership ('' for a job)."""

    name: str
    livelock: str = ""


@dataclass(frozen=True)
class Request:
    """Locks wanted together, such as `{"instance/UUID": Mode.EXCLUSIVE}`."""

    owner: Owner
    wants: Mapping[str, Mode]
    priority: int
    arrival: int
    purpose: str
    since: float


@dataclass
class Table:
    """All locks of one cluster."""

    held: dict[str, dict[Owner, Mode]] = field(default_factory=dict)
    waiting: list[Request] = field(default_factory=list)
    _arrivals: itertools.count[int] = field(default_factory=itertools.count)

    def request(
        self,
        owner: Owner,
        wants: Mapping[str, Mode],
        *,
        priority: int = 0,
        purpose: str = "",
        now: float = 0.0,
    ) -> list[Owner]:
        """Ask for locks; returns the owners whose requests are granted by this call.

        Raises:
            LockRefused: the owner waits already, names no lock, or asks against the order of levels.
        """
        if any(one.owner == owner for one in self.waiting):
            raise errors.LockRefused(f"{owner.name} waits for locks already")
        missing = {lock: mode for lock, mode in wants.items() if not self._has(owner, lock, mode)}
        self._check_order(owner, missing)
        arrival = next(self._arrivals)
        if missing and Mode.EXCLUSIVE not in missing.values():
            group = (one for one in self.waiting if one.priority == priority and one.wants == missing)
            arrival = next((one.arrival for one in group), arrival)
        self.waiting.append(Request(owner, missing, priority, arrival, purpose, now))
        self.waiting.sort(key=lambda one: (one.priority, one.arrival))
        return self.grant()

    def grant(self) -> list[Owner]:
        """Give every waiting request its locks that nothing held and nobody before it stands against."""
        granted: list[Owner] = []
        blocked: list[Request] = []
        for request in self.waiting:
            if self._is_free(request) and not any(_conflict(request.wants, one.wants) for one in blocked):
                for lock, mode in request.wants.items():
                    self.held.setdefault(lock, {})[request.owner] = mode
                granted.append(request.owner)
            else:
                blocked.append(request)
        self.waiting = blocked
        return granted

    def release(self, owner: Owner) -> list[Owner]:
        """Take from an owner everything it holds and wants; returns the owners that are granted theirs by it."""
        self.waiting = [one for one in self.waiting if one.owner != owner]
        for lock in [lock for lock, holders in self.held.items() if owner in holders]:
            del self.held[lock][owner]
            if not self.held[lock]:
                del self.held[lock]
        return self.grant()

    def locks_of(self, owner: Owner) -> dict[str, Mode]:
        """What an owner holds."""
        return {lock: holders[owner] for lock, holders in self.held.items() if owner in holders}

    def owners(self) -> set[Owner]:
        """Everybody who holds something."""
        return {owner for holders in self.held.values() for owner in holders}

    def blockers(self, owner: Owner) -> list[str]:
        """The names of those for whom an owner waits: they hold what it wants, or wait for it before."""
        index = next((index for index, one in enumerate(self.waiting) if one.owner == owner), None)
        if index is None:
            return []
        wants = self.waiting[index].wants
        found = {one.owner.name for one in self.waiting[:index] if _conflict(wants, one.wants)}
        for lock, mode in wants.items():
            for other, held in self.held.get(lock, {}).items():
                if other != owner and Mode.EXCLUSIVE in {mode, held}:
                    found.add(other.name)
        return sorted(found)

    def _has(self, owner: Owner, lock: str, mode: Mode) -> bool:
        mine = self.held.get(lock, {}).get(owner)
        return mine is Mode.EXCLUSIVE or mine is mode

    def _is_free(self, request: Request) -> bool:
        for lock, mode in request.wants.items():
            others = [held for owner, held in self.held.get(lock, {}).items() if owner != request.owner]
            if others and (mode is Mode.EXCLUSIVE or Mode.EXCLUSIVE in others):
                return False
        return True

    def _check_order(self, owner: Owner, wants: Mapping[str, Mode]) -> None:
        for lock in wants:
            if lock.partition("/")[0] not in LEVELS:
                raise errors.LockRefused(f"there is no lock level for {lock!r}")
        mine = self.locks_of(owner)
        if mine and wants and min(map(_rank, wants)) < max(map(_rank, mine)):
            first, last = min(wants, key=_rank), max(mine, key=_rank)
            raise errors.LockRefused(f"{owner.name} asks for {first} while it holds {last}, against the order")


def _rank(lock: str) -> tuple[int, str]:
    level, _, name = lock.partition("/")
    return LEVELS.index(level), name


def _conflict(one: Mapping[str, Mode], other: Mapping[str, Mode]) -> bool:
    return any(
        lock in other and (mode is Mode.EXCLUSIVE or other[lock] is Mode.EXCLUSIVE) for lock, mode in one.items()
    )
