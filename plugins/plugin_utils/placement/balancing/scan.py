"""One look at a state: the scores after many moves, and which of them the checks refuse.

Written for a block of instances (rows) and all targets at once. A move's score is the sum of four parts: spreads where
only primaries count, spreads where both nodes count, reserved memory, and counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..score import counted, reserving, scoring, spreads, tallies, views
from . import fitting, refusals

if TYPE_CHECKING:
    from ..score import columns
    from ..score import state as states

REFUSED = np.inf
SECONDARY, SWAPPED, PRIMARY, ONWARD = range(4)
"""The places of `actions.TO_TARGET`."""


@dataclass(frozen=True, eq=False)
class Block:
    """Scores after the moves of some instances (`rows`); REFUSED where a move is refused or is none.

    failover: one for each row; moved: 4 x rows x targets, in the order of `actions.TO_TARGET`; targets: the online
    nodes of the scope.
    """

    rows: columns.Indices
    targets: columns.Indices
    failover: columns.Numbers
    moved: columns.Numbers


@dataclass(frozen=True, eq=False)
class Look:
    """A state as it is now, ready for blocks of moves.

    single, both: the spreads where the primary counts, and where both nodes count; base: the score without these and
    without reserved memory, before what a move adds to it.
    """

    state: states.State
    online: columns.Indices
    single: list[spreads.Spread]
    both: list[spreads.Spread]
    reserved: reserving.Reserving
    counts: counted.Counted
    tallies: tallies.Tallies
    checks: refusals.Checks
    ignore_soft: bool
    base: float

    def block(self, rows: columns.Indices) -> Block:
        """Every move of these instances."""
        view = self._view(rows)
        left = self._spread(self.both, view, view.secondary)
        gone = self._spread(self.both, view, view.primary)
        there = self._spread(self.single, view, view.primary)
        there += self.base
        moved = np.empty((4, len(rows), len(self.online)))
        to_secondary = self._to_secondary(view)
        np.add(left, self.base + _total(self.single), out=moved[SECONDARY])
        np.add(left, there, out=moved[SWAPPED])
        np.add(gone, there, out=moved[PRIMARY])
        np.add(gone, to_secondary[:, None], out=moved[ONWARD])
        to_any = moved[PRIMARY][view.alone]
        self._replace_secondary(view, moved[SECONDARY])
        self._replace_and_failover(view, moved[SWAPPED])
        self._replace_primary(view, moved[PRIMARY])
        self._failover_and_replace(view, moved[ONWARD])
        if view.alone.any():
            self._failover_to_any(self._view(rows[view.alone]), to_any)
            moved[PRIMARY][view.alone] = to_any
        return Block(rows, self.online, self._failover(view, to_secondary + _total(self.both)), moved)

    def swaps(self, rows: columns.Indices) -> Block:
        """Only the changes of roles of these instances, each of which has a secondary."""
        view = self._view(rows)
        score = self._failover(view, self._to_secondary(view) + _total(self.both))
        return Block(rows, self.online[:0], score, np.empty((4, len(rows), 0)))

    def _view(self, rows: columns.Indices) -> views.View:
        return views.view_rows(
            self.state, rows, reserved=self.reserved, counts=self.counts, ignore_soft=self.ignore_soft
        )

    def _to_secondary(self, view: views.View) -> columns.Numbers:
        total = np.full(len(view.rows), self.base)
        for spread in self.single:
            total += spread.moved_to(view.rows, view.primary, view.secondary)
        return total

    def _spread(self, found: list[spreads.Spread], view: views.View, source: columns.Indices) -> columns.Numbers:
        total = np.zeros((len(view.rows), len(self.online)))
        for spread in found:
            total += spread.moved(view.rows, source)
        return total

    def _failover(self, view: views.View, score: columns.Numbers) -> columns.Numbers:
        needed = self.reserved.for_swap(view.rows)
        score += self.reserved.scored(view.rows, needed, at=view.primary, left=view.freed)
        self.tallies.failover(view, needed, score)
        score[~self.checks.failover(view, needed)] = REFUSED
        return score

    def _replace_secondary(self, view: views.View, score: columns.Numbers) -> None:
        needed = self.reserved.at_targets(view.rows, for_=view.primary)
        score += self.reserved.scored(view.rows, needed, at=self.online, left=view.freed)
        self.tallies.replace_secondary(view, needed, score)
        np.putmask(score, ~self.checks.replace_secondary(view, needed), REFUSED)

    def _replace_and_failover(self, view: views.View, score: columns.Numbers) -> None:
        needed = self.reserved.for_targets(view.rows, at=view.primary)
        score += self.reserved.scored(view.rows, needed, at=view.primary[:, None], left=view.freed)
        self.tallies.replace_and_failover(view, needed, score)
        np.putmask(score, ~self.checks.replace_and_failover(view, needed), REFUSED)

    def _replace_primary(self, view: views.View, score: columns.Numbers) -> None:
        needed = self.reserved.for_targets(view.rows, at=view.secondary)
        np.maximum(needed, view.freed[:, None], out=needed)
        score += self.reserved.scored(view.rows, needed, at=view.secondary[:, None], left=None)
        self.tallies.replace_primary(view, needed, score)
        np.putmask(score, ~self.checks.replace_primary(view, needed), REFUSED)

    def _failover_and_replace(self, view: views.View, score: columns.Numbers) -> None:
        needed = self.reserved.at_targets(view.rows, for_=view.secondary)
        score += self.reserved.scored(view.rows, needed, at=self.online, left=view.freed)
        self.tallies.failover_and_replace(view, needed, score)
        np.putmask(score, ~self.checks.failover_and_replace(view, needed), REFUSED)

    def _failover_to_any(self, view: views.View, score: columns.Numbers) -> None:
        score += self.reserved.now
        self.tallies.failover_to_any(view, score)
        np.putmask(score, ~self.checks.failover_to_any(view), REFUSED)


@dataclass(frozen=True, eq=False)
class Fixed:
    """What moves within a scope never change: the columns of spreads and the needs of instances."""

    spreads: list[spreads.Column]
    needs: fitting.Needs


def fixed(state: states.State, where: scoring.Scope) -> Fixed:
    """For all looks at a state and scope; O(instances)."""
    return Fixed(spreads.changing_columns(state, where), fitting.needs(state))


def look(
    state: states.State,
    where: scoring.Scope,
    always: Fixed,
    *,
    ignore_soft: bool = False,
    score: float | None = None,
) -> Look:
    """The state as it is now, with its score if that is known; O(nodes^2 + instances)."""
    now = spreads.now(always.spreads, state.nodes, where)
    counts = counted.now(state, where)
    reserved = reserving.now(state, where)
    known = reserved.now + _total(now)
    return Look(
        state,
        where.online,
        [spread for spread in now if not spread.column.both],
        [spread for spread in now if spread.column.both],
        reserved,
        counts,
        tallies.tally(counts, ignore_soft=ignore_soft),
        refusals.Checks(state, where.online, fitting.checks(state, always.needs), ignore_soft),
        ignore_soft,
        base=(scoring.score(state, where) if score is None else score) - known,
    )


def _total(found: list[spreads.Spread]) -> float:
    return sum(spread.now for spread in found)
