"""Turns: from where instances are to where they shall be, in an order in which each step is possible.

Moves that share a node follow each other, all others run side by side, so what a node holds at any time is known.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..plan import Move, Plan, Refusal
from ..score import limits
from ..score.columns import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..score.state import State, Undo

Place = tuple[int, int]
"""The indices of a primary and a secondary; -1 is none."""
RATE = 100.0
"""MiB a second that a copy of a disk or a live migration is expected to reach."""
OVERHEAD = 2.0
"""Seconds that each step takes beside its data."""
GIB = 1024.0


@dataclass(frozen=True)
class Step:
    """A step of a move, the nodes (names) that its instance has then, and the MiB that are copied."""

    action: str
    primary: str
    secondary: str
    mib: float


@dataclass(frozen=True)
class Turn:
    """When a move has its turn: after as many others as `wave`, at `start`, in seconds from the first; it copies `mib`.

    `primary` and `secondary` are the nodes (names) that its instance has then.
    """

    move: Move
    primary: str
    secondary: str
    mib: float
    wave: int
    start: float
    seconds: float


@dataclass(frozen=True)
class Schedule:
    """The turns of moves in an order in which they may be done, and the instances that stay, each with the reason."""

    turns: tuple[Turn, ...] = ()
    kept: tuple[Refusal, ...] = ()

    @property
    def plan(self) -> Plan:
        return Plan(tuple(turn.move for turn in self.turns), self.kept)

    @property
    def data_gib(self) -> float:
        return sum(turn.mib for turn in self.turns) / GIB

    @property
    def seconds(self) -> float:
        """How long it is expected to take, with independent moves side by side."""
        return max((turn.start + turn.seconds for turn in self.turns), default=0.0)

    @property
    def waves(self) -> int:
        """How many moves have to follow each other at the most."""
        return max((turn.wave + 1 for turn in self.turns), default=0)


def ordered(state: State, wanted: Mapping[int, Place], *, most: int | None = None) -> Schedule:
    """The turns of instances (index) that shall get to their places; the state is moved along and ends as they promise.

    Of the moves that are possible the one that can start first is next, the longer before the shorter, until there are
    `most`. One that is possible at no time stays where it is, and says why. With M moves it costs O(M log M) and, where
    moves wait for room, as many tries more as moves end at their nodes.
    """
    order = Order(state)
    order.add(wanted)
    return order.run(most)


def followed(state: State, steps: Iterable[tuple[int, Place]]) -> Schedule:
    """The turns of moves whose order is given, each possible after those before it; the state is moved along."""
    order = Order(state)
    for instance, place in steps:
        held = state.instances
        here = (int(held.primary[instance]), int(held.secondary[instance]))
        change = _change(state, instance, _way(here, place) if held.mirrored[instance] else [place])
        state.move(instance, primary=place[0], secondary=place[1])
        order.note(change)
    return Schedule(tuple(order.turns))


def path(state: State, instance: int, place: Place) -> list[Place]:
    """The places an instance passes on its way to its last; a replica on an offline node is no stop on the way."""
    held = state.instances
    here = (int(held.primary[instance]), int(held.secondary[instance]))
    if here == place:
        return []
    if not held.mirrored[instance]:
        return [place]
    (old, replica), (primary, secondary) = here, place
    if state.nodes.offline[old] and primary not in here:
        # Nothing can be copied from there: the instance starts on its replica first.
        return [(replica, old), *_way((replica, old), place)]
    return _way((old, replica), (primary, secondary))


def _way(here: Place, place: Place) -> list[Place]:
    (old, replica), (primary, secondary) = here, place
    if here == place:
        return []
    if primary == old:
        return [place]
    swapped = (replica, old)
    if primary == replica:
        return [swapped] if secondary == old else [swapped, place]
    if secondary == replica:
        return [swapped, (replica, primary), place]
    moved = [(old, primary), (primary, old)]
    return moved if secondary == old else [*moved, place]


def steps(state: State, instance: int, place: Place) -> tuple[Step, ...]:
    """The steps by which an instance gets to a place."""
    return _steps(state, instance, path(state, instance, place))


def walk(state: State, instance: int, places: Iterable[Place]) -> str:
    """Move an instance from place to place; at the first that breaks a limit it goes back, and the limit is told."""
    done: list[Undo] = []
    for place in places:
        held = state.instances
        nodes = {int(held.primary[instance]), int(held.secondary[instance]), *place} - {NOWHERE}
        before = [(node, limits.lacks(state, node)) for node in sorted(nodes)]
        done.append(state.move(instance, primary=place[0], secondary=place[1]))
        if why := limits.worsened(state, before):
            for undo in reversed(done):
                state.undo(undo)
            return why
    return ""


def _steps(state: State, instance: int, places: Iterable[Place]) -> tuple[Step, ...]:
    """The steps that lead through these places; `state` has the instance where it is before them."""
    held, names = state.instances, [*state.nodes.names, ""]
    here = (int(held.primary[instance]), int(held.secondary[instance]))
    found = []
    for place in places:
        primary, secondary = (names[node] for node in place)
        if not held.mirrored[instance]:
            found.append(Step(f"f:{primary}", primary, secondary, float(held.started[instance])))
        elif place[0] == here[0]:
            found.append(Step(f"r:{secondary}", primary, secondary, float(held.disk[instance])))
        else:
            found.append(Step("f", primary, secondary, float(held.started[instance])))
        here = place
    return tuple(found)


@dataclass(frozen=True)
class _Change:
    """What is to happen to one instance, and every node (index) that has a part in it."""

    instance: int
    places: list[Place]
    steps: tuple[Step, ...]
    nodes: frozenset[int]

    @property
    def seconds(self) -> float:
        return sum(step.mib / RATE + OVERHEAD for step in self.steps)


def _change(state: State, instance: int, places: list[Place]) -> _Change:
    held = state.instances
    nodes = {int(held.primary[instance]), int(held.secondary[instance]), *(node for place in places for node in place)}
    return _Change(instance, places, _steps(state, instance, places), frozenset(nodes - {NOWHERE}))


class Order:
    """The changes that are left, by the time when their nodes are free; more may be added to a plan that was made."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._free_at: dict[int, float] = {}
        self._last: dict[int, Turn] = {}
        self._queue: list[tuple[float, float, int, _Change]] = []
        self._stuck: list[tuple[_Change, str]] = []
        self.turns: list[Turn] = []

    def add(self, wanted: Mapping[int, Place]) -> None:
        """Instances (index) are to get to these places; what was possible at no time before is given up for them."""
        self._stuck = []
        for instance, place in wanted.items():
            if places := path(self._state, instance, place):
                self._enqueue(_change(self._state, instance, places))

    def run(self, most: int | None = None) -> Schedule:
        """Take change after change, as early as its nodes allow; of all so far together `most` at the most."""
        while self._queue and (most is None or len(self.turns) < most):
            start, _, _, change = heapq.heappop(self._queue)
            if self._start(change) > start:
                self._enqueue(change)
            elif why := walk(self._state, change.instance, change.places):
                self._stuck.append((change, why))
            else:
                self.note(change)
                self._free(change.nodes)
        names = self._state.instances.names
        kept = sorted((change.instance, why) for change, why in self._stuck)
        return Schedule(tuple(self.turns), tuple(Refusal(names[instance], why) for instance, why in kept))

    def _enqueue(self, change: _Change) -> None:
        heapq.heappush(self._queue, (self._start(change), -change.seconds, change.instance, change))

    def _start(self, change: _Change) -> float:
        return max(self._free_at.get(node, 0.0) for node in change.nodes)

    def note(self, change: _Change) -> None:
        """Put a change that is done behind all others at its nodes."""
        before = {self._last[node].move.instance: self._last[node] for node in change.nodes if node in self._last}
        steps = change.steps
        turn = Turn(
            move=Move(
                self._state.instances.names[change.instance],
                tuple(step.action for step in steps),
                after=tuple(sorted(before)),
            ),
            primary=steps[-1].primary,
            secondary=steps[-1].secondary,
            mib=sum(step.mib for step in steps),
            wave=max((earlier.wave + 1 for earlier in before.values()), default=0),
            start=self._start(change),
            seconds=change.seconds,
        )
        self.turns.append(turn)
        for node in change.nodes:
            self._free_at[node], self._last[node] = turn.start + turn.seconds, turn

    def _free(self, nodes: frozenset[int]) -> None:
        """Whatever waits for room at these nodes is tried again."""
        waiting, self._stuck = self._stuck, []
        for change, why in waiting:
            if nodes.isdisjoint(change.nodes):
                self._stuck.append((change, why))
            else:
                self._enqueue(change)
