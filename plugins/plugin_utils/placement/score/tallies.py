"""What each kind of move adds to the counts of the score; put onto `score` in place, and only where a count can change.

Nodes that fail N+1 can change only where one fails already or soft checks are waived: otherwise such a move is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from . import columns, counted, views

NOBODY = -1


@dataclass(frozen=True, eq=False)
class Tallies:
    """The counts as they are, and which of them are worth a look."""

    counts: counted.Counted
    watch_failing: bool
    watch_offline: bool

    def failover(self, view: views.View, needed: columns.Numbers, score: columns.Numbers) -> None:
        """`f`, for each row."""
        nodes = self.counts.state.nodes
        if self.watch_failing:
            kept = np.maximum(nodes.reserved[view.primary], needed)
            score += self._secondary_runs(view)
            score += self._failing(view, view.primary, view.started, kept, 0.0)
        self._offline(view, score, view.secondary, view.primary)
        self._at(view, score, view.secondary, view.primary)

    def replace_secondary(self, view: views.View, needed: columns.Numbers, score: columns.Numbers) -> None:
        """`r:t`."""
        if self.watch_failing:
            score += self._failing(view, view.secondary, 0.0, view.freed, -1.0)[:, None]
            score += self._new_secondary(view, needed)
        self._offline(view, score, view.primary, NOBODY)
        if view.lacking is not None:
            lacking = view.lacking[view.each, view.primary][:, None]
            self._placed(view, score, lacking, view.primary[:, None], self.counts.online)

    def replace_and_failover(self, view: views.View, needed: columns.Numbers, score: columns.Numbers) -> None:
        """`r:t f`."""
        primary = view.primary[:, None]
        if self.watch_failing:
            kept = np.maximum(self.counts.state.nodes.reserved[primary], needed)
            score += self._failing(view, view.secondary, 0.0, view.freed, -1.0)[:, None]
            score += self._failing(view, primary, view.started[:, None], kept, 0.0)
            score += self._new_primary(view)
        self._offline(view, score, NOBODY, view.primary)
        self._at_targets(view, score, primary)

    def replace_primary(self, view: views.View, needed: columns.Numbers, score: columns.Numbers) -> None:
        """`f r:t f`; `needed` is all that the secondary keeps then."""
        secondary = view.secondary[:, None]
        if self.watch_failing:
            score += self._left(view)[:, None]
            score += self._failing(view, secondary, 0.0, needed, 0.0)
            score += self._new_primary(view)
        self._offline(view, score, NOBODY, view.secondary)
        self._at_targets(view, score, secondary)

    def failover_and_replace(self, view: views.View, needed: columns.Numbers, score: columns.Numbers) -> None:
        """`f r:t`."""
        if self.watch_failing:
            score += (self._left(view) + self._secondary_runs(view))[:, None]
            score += self._new_secondary(view, needed)
        self._offline(view, score, view.secondary, NOBODY)
        self._at(view, score, view.secondary, self.counts.online)

    def failover_to_any(self, view: views.View, score: columns.Numbers) -> None:
        """`fa:t`."""
        if self.watch_failing:
            score += self._left(view)[:, None]
            score += self._new_primary(view)
        self._offline(view, score, NOBODY, NOBODY)
        self._at_targets(view, score, None)

    def _failing(
        self,
        view: views.View,
        node: columns.Indices,
        freed: columns.Numbers | float,
        kept: columns.Numbers,
        change: float,
    ) -> columns.Numbers:
        """With `freed` more memory, `kept` reserved and so many instances more on the node."""
        memory = self.counts.state.nodes.memory[node] + freed
        real = np.asarray(change * view.real.reshape(-1, *[1] * (max(memory.ndim, kept.ndim) - 1)), dtype=float)
        return self.counts.failing(node, memory=memory, reserved=kept, change=real)

    def _left(self, view: views.View) -> columns.Numbers:
        return self._failing(view, view.primary, view.started, self.counts.state.nodes.reserved[view.primary], -1.0)

    def _secondary_runs(self, view: views.View) -> columns.Numbers:
        return self._failing(view, view.secondary, -view.started, view.freed, 0.0)

    def _new_secondary(self, view: views.View, needed: columns.Numbers) -> columns.Numbers:
        online = self.counts.online
        kept = np.maximum(self.counts.state.nodes.reserved[online], needed)
        return self._failing(view, online, 0.0, kept, 1.0)

    def _new_primary(self, view: views.View) -> columns.Numbers:
        online = self.counts.online
        return self._failing(view, online, -view.started[:, None], self.counts.state.nodes.reserved[online], 1.0)

    def _offline(
        self, view: views.View, score: columns.Numbers, primary: columns.Indices | int, secondary: columns.Indices | int
    ) -> None:
        if not self.watch_offline:
            return
        first, second = (np.broadcast_to(node, view.rows.shape) for node in (primary, secondary))
        added = self.counts.offline(view.rows, primary=first, secondary=second)
        score += added.reshape(-1, *[1] * (score.ndim - 1))

    def _at(
        self, view: views.View, score: columns.Numbers, primary: columns.Indices, secondary: columns.Indices
    ) -> None:
        """The tags when each row's primary is the one given; `secondary` is of the rows, or all targets."""
        own = (view.each, primary)
        added = np.zeros(len(view.rows))
        if view.tagged is not None:
            added += self.counts.tags_left(view.rows) + self.counts.tags_come(view.tagged[own])
        if view.pairs is not None:
            added += view.pairs[own]
        score += added.reshape(-1, *[1] * (score.ndim - 1))
        if view.lacking is not None:
            lacking = view.lacking[own].reshape(-1, *[1] * (score.ndim - 1))
            self._placed(view, score, lacking, primary.reshape(lacking.shape), secondary)

    def _at_targets(self, view: views.View, score: columns.Numbers, secondary: columns.Indices | None) -> None:
        """The tags when each target becomes primary, with a secondary of each row or none."""
        online = self.counts.online
        if view.tagged is not None:
            score += self.counts.tags_left(view.rows)[:, None]
            score += self.counts.tags_come(view.tagged[:, online])
        if view.pairs is not None:
            score += view.pairs[:, online]
        if view.lacking is not None:
            self._placed(view, score, view.lacking[:, online], online, secondary)

    def _placed(
        self,
        view: views.View,
        score: columns.Numbers,
        lacking: columns.Numbers,
        primary: columns.Indices,
        secondary: columns.Indices | None,
    ) -> None:
        assert view.lacking is not None
        now = view.lacking[view.each, view.primary]
        before = self.counts.placed(view.rows, now, primary=view.primary, secondary=view.known_secondary)
        score -= before.reshape(-1, *[1] * (score.ndim - 1))
        score += self.counts.placed(view.rows, lacking, primary=primary, secondary=secondary)


def tally(counts: counted.Counted, *, ignore_soft: bool) -> Tallies:
    """The counts as they are, and which of them are worth a look."""
    nodes, online = counts.state.nodes, counts.online
    failing = bool((nodes.memory[online] <= nodes.reserved[online]).any())
    return Tallies(
        counts,
        watch_failing=failing or ignore_soft or bool(nodes.offline.any()),
        watch_offline=bool(counts.away.any()),
    )
