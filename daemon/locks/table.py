"""The lock table: who holds what, who waits, and who is next (seed 004, "Locking"; DESIGN, "Jobs").

A request asks for several locks at once and gets all or none. Requests are served by priority, then arrival; one that
clashes with an earlier waiting request waits behind it, so nobody is overtaken, save that a shared request joins a
waiting group of its own priority that wants just the same, and that an owner never waits behind a request that waits
for this owner. Locks are asked for in their order, so there is always somebody who waits for nobody.

Costs: a change looks at the requests that it serves and, for each lock that it touches, at one more; a set lock touches
every lock of its level that somebody holds or wants.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors, locks
from ...plugins.module_utils.domain.locks import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True)
class Owner:
    """Who holds or wants locks: a name to show, and the livelock whose end ends the ownership ('' for a job)."""

    name: str
    livelock: str = ""


@dataclass(frozen=True)
class Holding:
    """What for, and since when (unix seconds), an owner holds locks."""

    purpose: str = ""
    since: float = 0.0


@dataclass(frozen=True, eq=False)
class Request:
    """Locks wanted together, such as `{"instance/UUID": Mode.EXCLUSIVE}`."""

    owner: Owner
    wants: Mapping[str, Mode]
    priority: int
    arrival: int
    number: int
    purpose: str
    since: float

    @property
    def place(self) -> tuple[int, int, int]:
        return self.priority, self.arrival, self.number


@dataclass
class Table:
    """All locks of one cluster."""

    held: dict[str, dict[Owner, Mode]] = field(default_factory=dict)
    holdings: dict[Owner, Holding] = field(default_factory=dict)
    _mine: dict[Owner, dict[str, Mode]] = field(default_factory=dict)
    _requests: dict[Owner, Request] = field(default_factory=dict)
    _queues: dict[str, list[Request]] = field(default_factory=dict)
    _known: dict[str, set[str]] = field(default_factory=dict)
    _arrivals: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def waiting(self) -> list[Request]:
        """The requests that wait, in the order in which they are served."""
        return sorted(self._requests.values(), key=lambda one: one.place)

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
            LockRefused: the owner waits already, names no lock, asks against the order, or asks to make exclusive what
                another one who shares it is about to make exclusive.
        """
        if owner in self._requests:
            raise errors.LockRefused(f"{owner.name} waits for locks already")
        mine = self.locks_of(owner)
        missing = {lock: mode for lock, mode in wants.items() if not locks.covers(mine, lock, mode)}
        _check_order(owner, mine, missing)
        self._check_upgrades(owner, mine, missing)
        number = next(self._arrivals)
        arrival = self._group(priority, missing, otherwise=number)
        self._enqueue(Request(owner, missing, priority, arrival, number, purpose, now))
        return [owner] if self._serve(owner) else self._pass_by()

    def release(self, owner: Owner, names: Iterable[str] | None = None) -> list[Owner]:
        """Take locks from an owner, or all it holds and wants; returns the owners that are granted theirs by it."""
        mine = self._mine.get(owner, {})
        gone = list(mine) if names is None else [name for name in names if name in mine]
        withdrawn = self._dequeue(owner) if names is None else []
        for lock in gone:
            self._let_go(owner, lock)
        return self.grant([*gone, *withdrawn])

    def withdraw(self, owner: Owner) -> list[Owner]:
        """Take back what an owner waits for; what it holds it keeps. Returns the owners that are granted theirs."""
        return self.grant(self._dequeue(owner))

    def downgrade(self, owner: Owner, names: Iterable[str]) -> list[Owner]:
        """Make shared what an owner holds exclusively; returns the owners that are granted theirs by it.

        Raises:
            LockRefused: it does not hold one of them.
        """
        changed = list(names)
        for lock in changed:
            if owner not in self.held.get(lock, {}):
                raise errors.LockRefused(f"{owner.name} does not hold {lock}")
        for lock in changed:
            self.hold(owner, lock, Mode.SHARED)
        return self.grant(changed)

    def reprioritize(self, owner: Owner, priority: int) -> list[Owner]:
        """Give a waiting request another priority; it keeps its arrival. Returns the owners that are granted theirs."""
        before = self._requests.get(owner)
        if before is None or before.priority == priority:
            return []
        touched = self._dequeue(owner)
        number = before.number
        self._enqueue(Request(owner, before.wants, priority, number, number, before.purpose, before.since))
        return self.grant(touched)

    def grant(self, touched: Iterable[str]) -> list[Owner]:
        """Serve the requests that a change of these locks lets go on, in their order."""
        names = dict.fromkeys(other for lock in touched for other in self._overlapping(lock))
        granted: list[Owner] = []
        blocked: set[Owner] = set()
        closed: set[str] = set()
        queues = ([(one.place, name, one) for one in self._queues.get(name, ())] for name in names)
        for _place, name, request in heapq.merge(*queues, key=lambda entry: entry[0]):
            if name in closed and request.owner not in self._mine:
                continue
            if request.owner in blocked or self._requests.get(request.owner) is not request:
                pass
            elif self._serve(request.owner):
                granted.append(request.owner)
                continue
            else:
                blocked.add(request.owner)
            if request.owner in blocked and request.wants[name] is Mode.EXCLUSIVE:
                # All others behind it in this queue wait for it; only who holds something may pass.
                closed.add(name)
        return granted + self._pass_by()

    def hold(self, owner: Owner, lock: str, mode: Mode) -> None:
        """Write down that an owner holds a lock, as a grant does and as a restart does with those of before."""
        self.held.setdefault(lock, {})[owner] = mode
        self._mine.setdefault(owner, {})[lock] = mode
        self._known.setdefault(locks.level(lock), set()).add(lock)

    def locks_of(self, owner: Owner) -> dict[str, Mode]:
        """What an owner holds."""
        return dict(self._mine.get(owner, {}))

    def owners(self) -> set[Owner]:
        """Everybody who holds something."""
        return set(self._mine)

    def is_waiting(self, owner: Owner) -> bool:
        return owner in self._requests

    def blockers(self, owner: Owner) -> list[str]:
        """The names of those for whom an owner waits: they hold what it wants, or wait for it before."""
        request = self._requests.get(owner)
        return [] if request is None else sorted({one.name for one in self._blocking(request)})

    def _blocking(self, request: Request) -> Iterator[Owner]:
        for lock, mode in request.wants.items():
            for name in self._overlapping(lock):
                for other, held in self.held.get(name, {}).items():
                    if other != request.owner and locks.clash(mode, held):
                        yield other
                for earlier in self._queues.get(name, ()):
                    if earlier.place >= request.place:
                        break
                    if locks.clash(mode, earlier.wants[name]) and not self._waits_for(earlier, request.owner):
                        yield earlier.owner

    def _pass_by(self) -> list[Owner]:
        """Serve owners that hold something and need not wait behind those who now wait for them."""
        holding = [request for request in map(self._requests.get, self._mine) if request is not None]
        return [one.owner for one in sorted(holding, key=lambda one: one.place) if self._serve(one.owner)]

    def _waits_for(self, request: Request, owner: Owner) -> bool:
        """Whether a request cannot be served before an owner lets go of something."""
        if owner not in self._mine:
            return False
        seen = {request.owner}
        ways = [request]
        while ways:
            for other in self._directly_before(ways.pop()):
                if other == owner:
                    return True
                if other not in seen:
                    seen.add(other)
                    ways.extend(filter(None, [self._requests.get(other)]))
        return False

    def _directly_before(self, request: Request) -> Iterator[Owner]:
        for lock, mode in request.wants.items():
            for name in self._overlapping(lock):
                holders = self.held.get(name, {})
                yield from (one for one, held in holders.items() if one != request.owner and locks.clash(mode, held))
                for earlier in self._queues.get(name, ()):
                    if earlier.place >= request.place:
                        break
                    if locks.clash(mode, earlier.wants[name]):
                        yield earlier.owner

    def _serve(self, owner: Owner) -> bool:
        request = self._requests[owner]
        if next(self._blocking(request), None) is not None:
            return False
        self._dequeue(owner)
        for lock, mode in request.wants.items():
            self.hold(owner, lock, mode)
        if owner in self._mine:
            self.holdings.setdefault(owner, Holding(request.purpose, request.since))
        return True

    def _overlapping(self, lock: str) -> tuple[str, ...]:
        if locks.is_set(lock):
            return tuple(sorted({lock, *self._known.get(locks.level(lock), ())}))
        return (locks.set_of(lock), lock)

    def _group(self, priority: int, wants: Mapping[str, Mode], *, otherwise: int) -> int:
        if not wants or Mode.EXCLUSIVE in wants.values():
            return otherwise
        queue = self._queues.get(next(iter(wants)), ())
        return next((one.arrival for one in queue if one.priority == priority and one.wants == wants), otherwise)

    def _enqueue(self, request: Request) -> None:
        self._requests[request.owner] = request
        for lock in request.wants:
            bisect.insort(self._queues.setdefault(lock, []), request, key=lambda one: one.place)
            self._known.setdefault(locks.level(lock), set()).add(lock)

    def _dequeue(self, owner: Owner) -> list[str]:
        request = self._requests.pop(owner, None)
        if request is None:
            return []
        for lock in request.wants:
            queue = self._queues[lock]
            del queue[bisect.bisect_left(queue, request.place, key=lambda one: one.place)]
            if not queue:
                del self._queues[lock]
            self._forget(lock)
        return list(request.wants)

    def _let_go(self, owner: Owner, lock: str) -> None:
        del self._mine[owner][lock]
        if not self._mine[owner]:
            del self._mine[owner]
            self.holdings.pop(owner, None)
        del self.held[lock][owner]
        if not self.held[lock]:
            del self.held[lock]
        self._forget(lock)

    def _forget(self, lock: str) -> None:
        if lock not in self.held and lock not in self._queues:
            self._known[locks.level(lock)].discard(lock)

    def _check_upgrades(self, owner: Owner, mine: Mapping[str, Mode], wants: Mapping[str, Mode]) -> None:
        for lock in (lock for lock in wants if lock in mine):
            for other in self._queues.get(lock, ()):
                if other.wants[lock] is Mode.EXCLUSIVE and other.owner in self.held.get(lock, {}):
                    raise errors.LockRefused(
                        f"{owner.name} and {other.owner.name} share {lock}, and {other.owner.name} waits to have it "
                        f"alone: {owner.name} must release it first"
                    )


def _check_order(owner: Owner, mine: Mapping[str, Mode], wants: Mapping[str, Mode]) -> None:
    for lock in wants:
        locks.level(lock)
        if lock not in mine and locks.set_of(lock) in mine:
            raise errors.LockRefused(f"{owner.name} asks for {lock} alone while it shares {locks.set_of(lock)}")
    if mine and wants and min(map(locks.rank, wants)) < max(map(locks.rank, mine)):
        first, last = min(wants, key=locks.rank), max(mine, key=locks.rank)
        raise errors.LockRefused(f"{owner.name} asks for {first} while it holds {last}, against the order")
