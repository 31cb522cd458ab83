"""The search of a balancer: moves of one instance, or of two, that lower the score plus the price of what is copied.

An instance is charged for the way from where it was at first to where it is, so a move back is paid back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..score import columns, scoring
from . import actions, candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..score import state as states
    from . import scan, turns

LEAST_GAIN = 1e-7
AT_ONCE = 64
"""Instances that are looked at again before all are."""
SAMPLE = 16
"""Instances of which the first of a pair is the best."""
ENOUGH = 0.5
"""A move is taken when it gains this part of the best that is known."""


@dataclass(frozen=True)
class Gain:
    """What one move gains, and where the instance (index) is then."""

    gain: float
    instance: int
    place: turns.Place


NO_GAIN = Gain(-np.inf, -1, (columns.NOWHERE, columns.NOWHERE))
SWAP = -1
NOBODY, NOTHING = np.empty(0, dtype=np.int64), np.empty(0)


@dataclass(frozen=True, eq=False)
class _Best:
    """For some instances (`rows`) what the best move of each gains, and its number: SWAP, or that of action and target.

    The four actions follow each other, each with all its targets.
    """

    rows: columns.Indices
    gains: columns.Numbers
    numbers: columns.Indices


@dataclass(frozen=True)
class Ends:
    """When a search ends: so many instances are elsewhere, the score is not above `score`, moves gain less than `gain`.

    With several moves at once, or a pair, `gain` is that of each alone or of the pair. None is no limit.
    """

    moved: int | None = None
    score: float = 0.0
    gain: float = LEAST_GAIN


class Search:
    """One scope of a state, and what it costs to have come from where everything was: the `price` of each MiB."""

    def __init__(
        self,
        state: states.State,
        where: scoring.Scope,
        *,
        seed: int = 1,
        allowed: candidates.Allowed = candidates.ANY,
        ends: Ends = Ends(),
    ) -> None:
        self.price = 0.0
        self._state = state
        self.where = where
        self._chance = np.random.default_rng(seed)
        self.ends = ends
        self._least = max(LEAST_GAIN, ends.gain)
        self._candidates = candidates.in_scope(state, where, allowed=allowed)
        self._first = (state.instances.primary.copy(), state.instances.secondary.copy())
        self.rows = self._candidates.movable()
        self.score = scoring.score(state, where)

    @property
    def moved(self) -> dict[int, turns.Place]:
        """The instances (index) that are elsewhere than at first, and where."""
        held = self._state.instances
        changed = (held.primary != self._first[0]) | (held.secondary != self._first[1])
        return {
            int(instance): (int(held.primary[instance]), int(held.secondary[instance]))
            for instance in np.flatnonzero(changed)
        }

    @property
    def is_enough(self) -> bool:
        """Whether no more moves are looked for."""
        reached = self.ends.moved is not None and len(self.moved) >= self.ends.moved
        return reached or self.score <= self.ends.score

    def back(self) -> dict[int, turns.Place]:
        """Put every instance back where it was; returns what was found until then."""
        found = self.moved
        for instance in found:
            self._state.move(instance, primary=int(self._first[0][instance]), secondary=int(self._first[1][instance]))
        self.score = scoring.score(self._state, self.where)
        return found

    def descend(self) -> None:
        """Take single moves until none gains any more; those of the best gain before others."""
        while not self.is_enough:
            best = self._best(self.rows)
            if not len(best.rows) or best.gains.max() < self._least:
                return
            known = np.empty(len(self.rows))
            known[np.searchsorted(self.rows, best.rows)] = best.gains
            while self._take_some(known) and not self.is_enough:
                pass

    def _take_some(self, known: columns.Numbers) -> bool:
        """Look again at the most promising instances; take what is good and shares no node; whether any was."""
        count = min(AT_ONCE, len(known))
        top = np.argpartition(-known, count - 1)[:count]
        found = self._best(self.rows[top])
        known[np.searchsorted(self.rows, found.rows)] = found.gains
        least = max(self._least, ENOUGH * float(known.max()))
        busy: set[int] = set()
        taken = []
        for place in np.lexsort((found.rows, -found.gains)):
            if found.gains[place] < least:
                break
            move = self._at(found, int(place))
            nodes = self._nodes(move)
            if busy.isdisjoint(nodes):
                busy |= nodes
                taken.append(move)
        self._take(taken)
        return bool(taken)

    def _take(self, moves: Sequence[Gain]) -> None:
        """Do several moves; should they get in each other's way, the best alone."""
        before = self._objective()
        undone = [self._move(move) for move in moves]
        if len(moves) > 1 and self._objective() > before - moves[0].gain:
            for undo in reversed(undone[1:]):
                self._state.undo(undo)
        self.score = scoring.score(self._state, self.where)

    def pairs(self, tries: int) -> int:
        """Try pairs of moves, the second for what the first spoils; returns how many were taken."""
        taken = 0
        for _ in range(tries if len(self.rows) else 0):
            if self.is_enough:
                break
            if self._take_pair():
                taken += 1
                self.score = scoring.score(self._state, self.where)
        return taken

    def _take_pair(self) -> bool:
        """The best move of a few instances, and the best after it at the nodes it touched: both, unless they cost."""
        rows = self._chance.choice(self.rows, size=min(SAMPLE, len(self.rows)), replace=False)
        first = self._best_of(rows)
        if not np.isfinite(first.gain):
            return False
        nodes = self._nodes(first)
        undo = self._move(first)
        second = self._best_of(self._beside(nodes, first.instance))
        if first.gain + max(0.0, second.gain) < self._least:
            self._state.undo(undo)
            return False
        if second.gain > 0.0:
            self._move(second)
        return True

    def _move(self, move: Gain) -> states.Undo:
        return self._state.move(move.instance, primary=move.place[0], secondary=move.place[1])

    def _beside(self, nodes: set[int], instance: int) -> columns.Indices:
        """The other instances that have one of these nodes."""
        held = self._state.instances
        there = np.isin(held.primary[self.rows], list(nodes)) | np.isin(held.secondary[self.rows], list(nodes))
        return np.asarray(self.rows[there & (self.rows != instance)])

    def _nodes(self, move: Gain) -> set[int]:
        held = self._state.instances
        mine = (int(held.primary[move.instance]), int(held.secondary[move.instance]))
        return {*mine, *move.place} - {columns.NOWHERE}

    def _objective(self) -> float:
        held = self._state.instances
        paid = self._data(np.arange(len(held.names)), held.primary[:, None], held.secondary[:, None]).sum()
        return scoring.score(self._state, self.where) + self.price * float(paid)

    def _best_of(self, rows: columns.Indices) -> Gain:
        """The best move of these instances, whether it gains or not."""
        best = self._best(rows)
        return self._at(best, int(best.gains.argmax())) if len(best.rows) else NO_GAIN

    def _best(self, rows: columns.Indices) -> _Best:
        """For each of these instances its best move, whether it gains or not; in an order of its own."""
        now = scoring.score(self._state, self.where)
        there, gains, numbers = [NOBODY], [NOTHING], [NOBODY]
        for block in self._candidates.blocks(rows, score=now):
            costs = self._costs(block)
            best = costs.argmin(axis=1)
            there.append(block.rows)
            gains.append(now - costs[np.arange(len(best)), best])
            numbers.append(np.where(best == costs.shape[1] - 1, SWAP, best))
        return _Best(np.concatenate(there), np.concatenate(gains), np.concatenate(numbers))

    def _costs(self, block: scan.Block) -> columns.Numbers:
        """Score and price after each move of a block, less the price paid so far: a row for each instance.

        The four actions follow each other, each with all its targets, then comes the change of roles.
        """
        held, mine, targets = self._state.instances, block.rows, block.targets[None]
        primary, secondary = held.primary[mine][:, None], held.secondary[mine][:, None]
        paid = self._data(mine, primary, secondary)
        moved = [
            block.moved[number] + self.price * (self._data(mine, *action.placed(primary, secondary, targets)) - paid)
            for number, action in enumerate(actions.TO_TARGET)
        ]
        swapped = block.failover[:, None] + self.price * (self._data(mine, secondary, primary) - paid)
        return np.concatenate((*moved, swapped), axis=1)

    def _at(self, best: _Best, place: int) -> Gain:
        held, instance = self._state.instances, int(best.rows[place])
        number, count = int(best.numbers[place]), len(self.where.online)
        here = (int(held.primary[instance]), int(held.secondary[instance]))
        if number == SWAP:
            return Gain(float(best.gains[place]), instance, (here[1], here[0]))
        target = int(self.where.online[number % count])
        return Gain(float(best.gains[place]), instance, actions.TO_TARGET[number // count].placed(*here, target))

    def _data(self, rows: columns.Indices, primary: columns.Indices, secondary: columns.Indices) -> columns.Numbers:
        """MiB that are copied on the way from the first nodes to these: disks, and memory for each live migration."""
        held = self._state.instances
        first, copy = self._first[0][rows][:, None], self._first[1][rows][:, None]
        new_primary = (primary != first) & (primary != copy)
        new_secondary = (secondary != first) & (secondary != copy)
        migrations = (primary != first) * 1.0 + (new_primary & (secondary == copy) & (copy != columns.NOWHERE))
        disks = new_primary * 1.0 + new_secondary
        return np.asarray(held.disk[rows][:, None] * disks + held.started[rows][:, None] * migrations)
