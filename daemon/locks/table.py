"""The lock table: who is granted what, and who is next (seed 004, "Locking"; DESIGN, "Jobs").

A request asks for several locks at once and gets all or none. Requests are served by priority, then arrival; one that
clashes with an earlier waiting request waits behind it, so nobody is overtaken, save that a shared request joins a
waiting group of its own priority that wants just the same, and that an owner never waits behind a request that waits
for this owner. Locks are asked for in their order, so there is always somebody who waits for nobody.

Costs: a change looks, for each lock that it touches, at the requests up to the first exclusive one that must wait on
(where something shared is let go of, at the exclusive ones only) and at the owners who wait while they hold something;
a set lock touches every lock of its level that somebody holds or wants.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import locks
from ...plugins.plugin_utils.cluster.locks import Mode
from . import blocking, holders, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .holders import Holding, Owner
    from .waiting import Request

MOST_BLOCKERS = 10


class Table:
    """All locks of one cluster."""

    def __init__(self) -> None:
        self._holders = holders.Holders()
        self._waiting = waiting.Waiting()
        self._blocking = blocking.Blocking(self._holders, self._waiting)
        self._holding_and_waiting: set[Owner] = set()
        self._arrivals = itertools.count()

    @property
    def held(self) -> dict[str, dict[Owner, Mode]]:
        """Every lock that is held, with its holders."""
        return self._holders.by_lock()

    @property
    def holdings(self) -> Mapping[Owner, Holding]:
        """What for, and since when, each owner holds its locks."""
        return self._holders.holdings

    @property
    def waiting(self) -> list[Request]:
        """The requests that wait, in the order in which they are served."""
        return self._waiting.in_order()

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
        if owner in self._waiting:
            raise errors.LockRefused(f"{owner.name} waits for locks already")
        mine = self._holders.locks_of(owner)
        missing = {lock: mode for lock, mode in wants.items() if not locks.covers(mine, lock, mode)}
        _check_order(owner, mine, missing)
        self._check_circle(owner, missing)
        number = next(self._arrivals)
        group = self._waiting.group(priority, missing)
        arrival = number if group is None else group.arrival
        self._enqueue(waiting.Request(owner, missing, priority, arrival, number, purpose, now))
        return [owner] if owner not in self._holders and self._serve(owner) else self._pass_by()

    def release(self, owner: Owner, names: Iterable[str] | None = None) -> list[Owner]:
        """Take locks from an owner, or all it holds and wants; returns the owners that are granted theirs by it."""
        mine = self._holders.locks_of(owner)
        gone = {name: mine[name] for name in (list(mine) if names is None else names) if name in mine}
        freed = {**(self._dequeue(owner) if names is None else {})}
        for lock, mode in gone.items():
            self._holders.let_go(owner, lock)
            freed[lock] = Mode.EXCLUSIVE if Mode.EXCLUSIVE in {mode, freed.get(lock)} else mode
        if owner not in self._holders:
            self._holding_and_waiting.discard(owner)
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
            self._holders.share(owner, lock)
        return self._grant({lock: mine[lock] for lock in changed})

    def reprioritize(self, owner: Owner, priority: int) -> list[Owner]:
        """Give a waiting request another priority; it keeps its arrival. Returns the owners that are granted theirs."""
        before = self._waiting.request_of(owner)
        if before is None or before.priority == priority:
            return []
        touched = self._dequeue(owner)
        number = before.number
        self._enqueue(waiting.Request(owner, before.wants, priority, number, number, before.purpose, before.since))
        return self._grant(dict.fromkeys(touched, Mode.EXCLUSIVE))

    def restore(self, owner: Owner, held: Mapping[str, Mode], holding: Holding) -> None:
        """Write down what an owner held before a restart; nobody may wait yet."""
        self._holders.hold(owner, held, holding)

    def locks_of(self, owner: Owner) -> dict[str, Mode]:
        """What an owner holds."""
        return dict(self._holders.locks_of(owner))

    def owners(self) -> set[Owner]:
        """Everybody who holds something."""
        return self._holders.owners()

    def is_waiting(self, owner: Owner) -> bool:
        return owner in self._waiting

    def blockers(self, owner: Owner) -> list[str]:
        """The names of those for whom an owner waits, ten at most: they hold what it wants, or wait for it before."""
        request = self._waiting.request_of(owner)
        names: dict[str, None] = {}
        for blocker in () if request is None else self._blocking.blockers(request):
            names[blocker.name] = None
            if len(names) == MOST_BLOCKERS:
                break
        return sorted(names)

    def awaited(self, owner: Owner) -> int | None:
        """The best priority among the requests that want what an owner holds; costs a look at each of its locks."""
        return self._waiting.best_priority(self._holders.locks_of(owner))

    def _grant(self, freed: Mapping[str, Mode]) -> list[Owner]:
        """Serve, in their order, the requests that may go on because locks in these modes are free."""
        granted: list[Owner] = []
        blocked: set[Owner] = set()
        lines = (_candidates(lock, line, blocked) for lock, line in self._waiting.lines(freed).items())
        for request in heapq.merge(*lines, key=lambda candidate: candidate.place):
            if request.owner in blocked or self._waiting.request_of(request.owner) is not request:
                continue
            if self._serve(request.owner):
                granted.append(request.owner)
            else:
                blocked.add(request.owner)
        return granted + self._pass_by()

    def _pass_by(self) -> list[Owner]:
        """Serve owners that hold something and need not wait behind those who now wait for them."""
        both = filter(None, map(self._waiting.request_of, self._holding_and_waiting))
        return [
            request.owner for request in sorted(both, key=lambda request: request.place) if self._serve(request.owner)
        ]

    def _serve(self, owner: Owner) -> bool:
        request = self._waiting.request_of(owner)
        if request is None or next(self._blocking.blockers(request), None) is not None:
            return False
        self._dequeue(owner)
        self._holders.hold(owner, request.wants, holders.Holding(request.purpose, request.since))
        return True

    def _enqueue(self, request: Request) -> None:
        self._waiting.put(request)
        if request.owner in self._holders:
            self._holding_and_waiting.add(request.owner)

    def _dequeue(self, owner: Owner) -> Mapping[str, Mode]:
        self._holding_and_waiting.discard(owner)
        request = self._waiting.take_out(owner)
        return {} if request is None else request.wants

    def _check_circle(self, owner: Owner, wants: Mapping[str, Mode]) -> None:
        other = self._blocking.circle(owner, wants)
        if other is not None:
            asked = ", ".join(sorted(wants, key=locks.rank))
            raise errors.LockRefused(
                f"{owner.name} asks for {asked}, where {other.name} holds a lock and waits for what {owner.name} "
                f"holds: {owner.name} must release it first"
            )


def _candidates(lock: str, line: Sequence[Request], blocked: set[Owner]) -> Iterator[Request]:
    """Those who may go on; behind an exclusive one that must wait on, only who holds something may (`_pass_by`)."""
    for request in tuple(line):
        yield request
        if request.owner in blocked and request.wants[lock] is Mode.EXCLUSIVE:
            return


def _check_order(owner: Owner, mine: Mapping[str, Mode], wants: Mapping[str, Mode]) -> None:
    for lock in wants:
        locks.level(lock)
        if lock not in mine and locks.set_of(lock) in mine:
            raise errors.LockRefused(f"{owner.name} asks for {lock} alone while it shares {locks.set_of(lock)}")
    if mine and wants and min(map(locks.rank, wants)) < max(map(locks.rank, mine)):
        first, last = min(wants, key=locks.rank), max(mine, key=locks.rank)
        raise errors.LockRefused(f"{owner.name} asks for {first} while it holds {last}, against the order")
