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
    from . import plans, scan

LEAST_GAIN = 1e-7
AT_ONCE = 64
"""Instances that are looked at again before all are."""
SAMPLE = 16
"""Instances of which the first of a pair is the best."""
ENOUGH = 0.5
"""A move is taken when it gains this part of the best that is known."""


@dataclass(frozen=True)
class Move:
    """What one move gains, and where the instance (index) is then."""

    gain: float
    instance: int
    place: plans.Place


NO_MOVE = Move(-np.inf, -1, (columns.NOWHERE, columns.NOWHERE))


class Search:
    """One scope of a state, and what it costs to have come from where everything was: the `price` of each MiB."""

    def __init__(self, state: states.State, where: scoring.Scope, *, seed: int) -> None:
        self.price = 0.0
        self._state = state
        self._where = where
        self._chance = np.random.default_rng(seed)
        self._candidates = candidates.of(state, where)
        self._first = (state.instances.primary.copy(), state.instances.secondary.copy())
        self.rows = self._candidates.movable()
        self.score = scoring.score(state, where)

    @property
    def moved(self) -> dict[int, plans.Place]:
        """The instances (index) that are elsewhere than at first, and where."""
        held = self._state.instances
        changed = (held.primary != self._first[0]) | (held.secondary != self._first[1])
        return {int(one): (int(held.primary[one]), int(held.secondary[one])) for one in np.flatnonzero(changed)}

    def reset(self) -> None:
        """Put every instance back where it was."""
        for one in self.moved:
            self._state.move(one, primary=int(self._first[0][one]), secondary=int(self._first[1][one]))
        self.score = scoring.score(self._state, self._where)

    def descend(self) -> None:
        """Take single moves until none gains any more; those of the best gain before others."""
        while True:
            known = np.array([move.gain for move in self._best(self.rows)])
            if not len(known) or known.max() < LEAST_GAIN:
                return
            while self._take_some(known):
                pass

    def _take_some(self, known: columns.Numbers) -> bool:
        """Look again at the most promising instances; take what is good and shares no node; whether any was."""
        count = min(AT_ONCE, len(known))
        top = np.argpartition(-known, count - 1)[:count]
        found = self._best(self.rows[top])
        known[top] = [move.gain for move in found]
        least = max(LEAST_GAIN, ENOUGH * float(known.max()))
        busy: set[int] = set()
        taken = []
        for move in sorted(found, key=lambda one: (-one.gain, one.instance)):
            nodes = self._nodes(move)
            if move.gain >= least and busy.isdisjoint(nodes):
                busy |= nodes
                taken.append(move)
        self._take(taken)
        return bool(taken)

    def _take(self, moves: Sequence[Move]) -> None:
        """Do several moves; should they get in each other's way, the best alone."""
        before = self._objective()
        undone = [self._move(one) for one in moves]
        if len(moves) > 1 and self._objective() > before - moves[0].gain:
            for undo in reversed(undone[1:]):
                self._state.undo(undo)
        self.score = scoring.score(self._state, self._where)

    def pairs(self, tries: int) -> int:
        """Try pairs of moves, the second for what the first spoils; returns how many were taken."""
        taken = sum(self._take_pair() for _ in range(tries if len(self.rows) else 0))
        self.score = scoring.score(self._state, self._where)
        return taken

    def _take_pair(self) -> bool:
        """The best move of a few instances, and the best after it at the nodes it touched: both, unless they cost."""
        rows = self._chance.choice(self.rows, size=min(SAMPLE, len(self.rows)), replace=False)
        first = max(self._best(rows), key=lambda one: one.gain, default=NO_MOVE)
        if not np.isfinite(first.gain):
            return False
        nodes = self._nodes(first)
        undo = self._move(first)
        second = max(self._best(self._beside(nodes, first.instance)), key=lambda one: one.gain, default=NO_MOVE)
        if first.gain + max(0.0, second.gain) < LEAST_GAIN:
            self._state.undo(undo)
            return False
        if second.gain > 0.0:
            self._move(second)
        return True

    def _move(self, move: Move) -> states.Undo:
        return self._state.move(move.instance, primary=move.place[0], secondary=move.place[1])

    def _beside(self, nodes: set[int], instance: int) -> columns.Indices:
        """The other instances that have one of these nodes."""
        held = self._state.instances
        there = np.isin(held.primary[self.rows], list(nodes)) | np.isin(held.secondary[self.rows], list(nodes))
        return np.asarray(self.rows[there & (self.rows != instance)])

    def _nodes(self, move: Move) -> set[int]:
        held = self._state.instances
        mine = (int(held.primary[move.instance]), int(held.secondary[move.instance]))
        return {*mine, *move.place} - {columns.NOWHERE}

    def _objective(self) -> float:
        held = self._state.instances
        paid = self._data(np.arange(len(held.names)), held.primary[:, None], held.secondary[:, None]).sum()
        return scoring.score(self._state, self._where) + self.price * float(paid)

    def _best(self, rows: columns.Indices) -> list[Move]:
        """For each of these instances its best move, whether it gains or not."""
        now = scoring.score(self._state, self._where)
        found: list[Move] = []
        for block in self._candidates.blocks(rows):
            costs = self._costs(block)
            best = costs.argmin(axis=1)
            gains = now - costs[np.arange(len(best)), best]
            for row, (gain, number) in enumerate(zip(gains.tolist(), best.tolist(), strict=True)):
                found.append(Move(gain, int(block.rows[row]), self._place(block, row, number)))
        return found

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

    def _place(self, block: scan.Block, row: int, number: int) -> plans.Place:
        held, instance, count = self._state.instances, int(block.rows[row]), len(block.targets)
        primary, secondary = int(held.primary[instance]), int(held.secondary[instance])
        if number == len(actions.TO_TARGET) * count:
            return secondary, primary
        action = actions.TO_TARGET[number // count]
        return action.placed(primary, secondary, int(block.targets[number % count]))

    def _data(self, rows: columns.Indices, primary: columns.Indices, secondary: columns.Indices) -> columns.Numbers:
        """MiB that are copied on the way from the first nodes to these: disks, and memory for each live migration."""
        held = self._state.instances
        first, copy = self._first[0][rows][:, None], self._first[1][rows][:, None]
        new_primary = (primary != first) & (primary != copy)
        new_secondary = (secondary != first) & (secondary != copy)
        migrations = (primary != first) * 1.0 + (new_primary & (secondary == copy) & (copy != columns.NOWHERE))
        disks = new_primary * 1.0 + new_secondary
        return np.asarray(held.disk[rows][:, None] * disks + held.started[rows][:, None] * migrations)
