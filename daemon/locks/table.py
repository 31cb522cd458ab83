"""The lock table: who holds what, who waits, and who is next (seed 004, "Locking"; DESIGN, "Jobs").

A request asks for several locks at once and gets all or none. Requests are served by priority, then arrival; one that
clashes with an earlier waiting request waits behind it, so nobody is overtaken, save that a shared request joins a
waiting group of its own priority that wants just the same, and that an owner never waits behind a request that waits
for this owner. Locks are asked for in their order, so there is always somebody who waits for nobody.

Costs: a change looks, for each lock that it touches, at the requests up to the first exclusive one that must wait on
(where something shared is let go of, at the exclusive ones only) and at the owners who wait while they hold something;
a set lock touches every lock of its level that somebody holds or wants.
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
    from collections.abc import Callable, Iterable, Iterator, Mapping


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
    _alone: dict[str, list[Request]] = field(default_factory=dict)
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
            LockRefused: the owner waits already, names no lock, asks against the order, or asks for what is held by one
                who waits for this owner, so that neither could go on.
        """
        if owner in self._requests:
            raise errors.LockRefused(f"{owner.name} waits for locks already")
        mine = self.locks_of(owner)
        missing = {lock: mode for lock, mode in wants.items() if not locks.covers(mine, lock, mode)}
        _check_order(owner, mine, missing)
        self._check_circle(owner, missing)
        number = next(self._arrivals)
        arrival = self._group(priority, missing, otherwise=number)
        self._enqueue(Request(owner, missing, priority, arrival, number, purpose, now))
        return [owner] if owner not in self._mine and self._serve(owner) else self._pass_by()

    def release(self, owner: Owner, names: Iterable[str] | None = None) -> list[Owner]:
        """Take locks from an owner, or all it holds and wants; returns the owners that are granted theirs by it."""
        mine = self._mine.get(owner, {})
        gone = {name: mine[name] for name in (list(mine) if names is None else names) if name in mine}
        freed = {**(self._dequeue(owner) if names is None else {})}
        for lock, mode in gone.items():
            self._let_go(owner, lock)
            freed[lock] = Mode.EXCLUSIVE if Mode.EXCLUSIVE in {mode, freed.get(lock)} else mode
        return self._grant(freed)

    def withdraw(self, owner: Owner) -> list[Owner]:
        """Take back what an owner waits for; what it holds it keeps. Returns the owners that are granted theirs."""
        return self._grant(self._dequeue(owner))

    def downgrade(self, owner: Owner, names: Iterable[str]) -> list[Owner]:
        """Make shared what an owner holds exclusively; returns the owners that are granted theirs by it.

        Raises:
            LockRefused: it does not hold one of them.
        """
        mine, changed = self.locks_of(owner), list(names)
        for lock in changed:
            if lock not in mine:
                raise errors.LockRefused(f"{owner.name} does not hold {lock}")
        for lock in changed:
            self.hold(owner, lock, Mode.SHARED)
        return self._grant({lock: mine[lock] for lock in changed})

    def reprioritize(self, owner: Owner, priority: int) -> list[Owner]:
        """Give a waiting request another priority; it keeps its arrival. Returns the owners that are granted theirs."""
        before = self._requests.get(owner)
        if before is None or before.priority == priority:
            return []
        touched = self._dequeue(owner)
        number = before.number
        self._enqueue(Request(owner, before.wants, priority, number, number, before.purpose, before.since))
        return self._grant(dict.fromkeys(touched, Mode.EXCLUSIVE))

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

    def awaited(self, owner: Owner) -> int | None:
        """The best priority among the requests that want what an owner holds; costs a look at each of its locks."""
        queues = (self._queues.get(name) for lock in self._mine.get(owner, ()) for name in self._overlapping(lock))
        return min((queue[0].priority for queue in queues if queue), default=None)

    def _grant(self, freed: Mapping[str, Mode]) -> list[Owner]:
        """Serve, in their order, the requests that may go on because locks in these modes are free."""
        names: dict[str, Mode] = {}
        for lock, mode in freed.items():
            for name in self._overlapping(lock):
                names[name] = Mode.EXCLUSIVE if Mode.EXCLUSIVE in {mode, names.get(name)} else mode
        granted: list[Owner] = []
        blocked: set[Owner] = set()
        queues = (self._candidates(name, mode, blocked) for name, mode in names.items())
        for request in heapq.merge(*queues, key=lambda one: one.place):
            if request.owner in blocked or self._requests.get(request.owner) is not request:
                continue
            if self._serve(request.owner):
                granted.append(request.owner)
            else:
                blocked.add(request.owner)
        return granted + self._pass_by()

    def _candidates(self, name: str, freed: Mode, blocked: set[Owner]) -> Iterator[Request]:
        """Those who may go on; behind an exclusive one that must wait on, only who holds something may (`_pass_by`)."""
        queue = self._queues if freed is Mode.EXCLUSIVE else self._alone
        for request in tuple(queue.get(name, ())):
            yield request
            if request.owner in blocked and request.wants[name] is Mode.EXCLUSIVE:
                return

    def _blocking(self, request: Request) -> Iterator[Owner]:
        yield from self._clashing(request.owner, request.wants)
        for earlier in self._ahead(request):
            if not self._waits_for(earlier, request.owner, self._directly_before):
                yield earlier.owner

    def _pass_by(self) -> list[Owner]:
        """Serve owners that hold something and need not wait behind those who now wait for them."""
        both = [self._requests[owner] for owner in self._mine.keys() & self._requests.keys()]
        return [one.owner for one in sorted(both, key=lambda one: one.place) if self._serve(one.owner)]

    def _waits_for(self, request: Request, owner: Owner, before: Callable[[Request], Iterator[Owner]]) -> bool:
        """Whether a request cannot be served before an owner lets go of something; `before` is one step of the way."""
        if owner not in self._mine:
            return False
        seen = {request.owner}
        ways = [request]
        while ways:
            for other in before(ways.pop()):
                if other == owner:
                    return True
                if other not in seen:
                    seen.add(other)
                    ways.extend(filter(None, [self._requests.get(other)]))
        return False

    def _directly_before(self, request: Request) -> Iterator[Owner]:
        yield from self._clashing(request.owner, request.wants)
        yield from (earlier.owner for earlier in self._ahead(request))

    def _clashing(self, owner: Owner, wants: Mapping[str, Mode]) -> Iterator[Owner]:
        for lock, mode in wants.items():
            for name in self._overlapping(lock):
                holders = self.held.get(name, {})
                yield from (one for one, held in holders.items() if one != owner and locks.clash(mode, held))

    def _ahead(self, request: Request) -> Iterator[Request]:
        for lock, mode in request.wants.items():
            queues = self._queues if mode is Mode.EXCLUSIVE else self._alone
            for name in self._overlapping(lock):
                for earlier in queues.get(name, ()):
                    if earlier.place >= request.place:
                        break
                    yield earlier

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
        for lock, mode in request.wants.items():
            for queues in self._queues_for(mode):
                bisect.insort(queues.setdefault(lock, []), request, key=lambda one: one.place)
            self._known.setdefault(locks.level(lock), set()).add(lock)

    def _dequeue(self, owner: Owner) -> Mapping[str, Mode]:
        request = self._requests.pop(owner, None)
        if request is None:
            return {}
        for lock, mode in request.wants.items():
            for queues in self._queues_for(mode):
                queue = queues[lock]
                del queue[bisect.bisect_left(queue, request.place, key=lambda one: one.place)]
                if not queue:
                    del queues[lock]
            self._forget(lock)
        return request.wants

    def _queues_for(self, mode: Mode) -> list[dict[str, list[Request]]]:
        return [self._queues, self._alone] if mode is Mode.EXCLUSIVE else [self._queues]

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

    def _check_circle(self, owner: Owner, wants: Mapping[str, Mode]) -> None:
        for other in self._clashing(owner, wants):
            theirs = self._requests.get(other)
            if theirs and self._waits_for(theirs, owner, lambda one: self._clashing(one.owner, one.wants)):
                asked = ", ".join(sorted(wants, key=locks.rank))
                raise errors.LockRefused(
                    f"{owner.name} asks for {asked}, where {other.name} holds a lock and waits for what {owner.name} "
                    f"holds: {owner.name} must release it first"
                )


def _check_order(owner: Owner, mine: Mapping[str, Mode], wants: Mapping[str, Mode]) -> None:
    for lock in wants:
        locks.level(lock)
        if lock not in mine and locks.set_of(lock) in mine:
            raise errors.LockRefused(f"{owner.name} asks for {lock} alone while it shares {locks.set_of(lock)}")
    if mine and wants and min(map(locks.rank, wants)) < max(map(locks.rank, mine)):
        first, last = min(wants, key=locks.rank), max(mine, key=locks.rank)
        raise errors.LockRefused(f"{owner.name} asks for {first} while it holds {last}, against the order")
