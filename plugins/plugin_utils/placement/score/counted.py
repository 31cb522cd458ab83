"""The parts of the score that are counts: nodes that fail N+1, what offline nodes hold, tags and locations.

Each function gives what a set of moves adds; most clusters need few of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import columns, oracle, scoring

if TYPE_CHECKING:
    from . import state as states

FAILING = oracle.WEIGHTS["n1_cnt"]
ANYONE = oracle.WEIGHTS["offline_all_cnt"]
PRIMARY = oracle.WEIGHTS["offline_pri_cnt"]
CONFLICT = oracle.WEIGHTS["pri_tags_score"]
PLACED = oracle.WEIGHTS["location_score"]
PAIRED = oracle.WEIGHTS["location_exclusion_score"]


@dataclass(frozen=True, eq=False)
class Counted:
    """What the counts depend on, as it is now.

    counts: N, whether a node is online and of the scope; away: whether it is of the scope and offline; both are false
    at -1, for no node.
    """

    state: states.State
    online: columns.Indices
    counts: columns.Flags
    away: columns.Flags
    pairs: columns.Numbers

    def failing(
        self,
        nodes: columns.Indices,
        *,
        memory: columns.Numbers,
        reserved: columns.Numbers,
        change: columns.Numbers,
    ) -> columns.Numbers:
        """For nodes that would have this memory free and this reserved, and `change` more instances."""
        held = self.state.nodes
        number = held.primaries[nodes] + held.secondaries[nodes]
        before = np.where(held.memory[nodes] <= held.reserved[nodes], number, 0.0)
        after = np.where(memory <= reserved, number + change, 0.0)
        return FAILING * np.where(self.counts[nodes], after - before, 0.0)

    def offline(
        self, rows: columns.Indices, *, primary: columns.Indices, secondary: columns.Indices
    ) -> columns.Numbers:
        """For instances that would be there and no more where they are; -1 is any node that is online, or none."""
        held = self.state.instances
        before = self._offline(held.primary[rows], held.secondary[rows])
        return np.where(held.real[rows], self._offline(primary, secondary) - before, 0.0)

    def _offline(self, primary: columns.Indices, secondary: columns.Indices) -> columns.Numbers:
        return (PRIMARY + ANYONE) * self.away[primary] + ANYONE * self.away[secondary]

    def tags_at_nodes(self, rows: columns.Indices) -> columns.Numbers:
        """How many of its exclusion tags primaries of each node have already; rows x N."""
        return self._tagged(rows, (self.state.nodes.tags > 0).T.astype(float))

    def tags_left(self, rows: columns.Indices) -> columns.Numbers:
        """For instances that leave their primary."""
        primary = self.state.instances.primary[rows]
        shared = self._tagged(rows, (self.state.nodes.tags > 1).T.astype(float))[np.arange(len(rows)), primary]
        return -CONFLICT * shared * self.counts[primary]

    def tags_come(self, tagged: columns.Numbers) -> columns.Numbers:
        """For primaries that come where so many have their tags already."""
        return CONFLICT * tagged

    def _tagged(self, rows: columns.Indices, values: columns.Numbers) -> columns.Numbers:
        """The sum of `values` (tags x anything) over the tags of each of `rows`."""
        mine = [self.state.instances.tags[row] for row in rows]
        found = np.zeros((len(rows), values.shape[1]))
        lengths = np.array([len(tags) for tags in mine], dtype=np.int64)
        some = np.flatnonzero(lengths)
        if len(some):
            starts = (np.cumsum(lengths) - lengths)[some]
            found[some] = np.add.reduceat(values[np.concatenate(mine)], starts, axis=0)
        return found

    def pairs_at_nodes(self, rows: columns.Indices) -> columns.Numbers:
        """For primaries that would be at each node, of pairs of location and exclusion tag; rows x N."""
        nodes, held = self.state.nodes, self.state.instances
        primary = held.primary[rows]
        locations = nodes.locations.astype(float)
        mine = locations[primary] * self.counts[primary][:, None]
        come = self._tagged(rows, (self.pairs > 0).T.astype(float)) * (1 - mine)
        go = self._tagged(rows, (self.pairs > 1).T.astype(float)) * mine
        found = (come + go) @ locations.T - go.sum(axis=1, keepdims=True)
        return np.asarray(PAIRED * found * held.real[rows][:, None])

    def unsatisfied(self, rows: columns.Indices) -> columns.Numbers:
        """How many desired locations each node lacks; rows x N."""
        held = self.state.instances
        has = held.desired[rows].astype(float) @ self.state.nodes.locations.T.astype(float)
        return np.asarray(held.wanted[rows][:, None] - has)

    def placed(
        self,
        rows: columns.Indices,
        lacking: columns.Numbers,
        *,
        primary: columns.Indices,
        secondary: columns.Indices | None,
    ) -> columns.Numbers:
        """The location score of instances on these nodes, None or -1 for no secondary; broadcast with `lacking`."""
        together = np.zeros(1)
        if secondary is not None:
            together = np.where(secondary >= 0, self.state.shared[primary, secondary], 0.0)
        found = np.where(self.counts[primary], together + lacking, 0.0)
        return PLACED * found * self.state.instances.real[rows].reshape(-1, *[1] * (found.ndim - 1))


def now(state: states.State, where: scoring.Scope) -> Counted:
    """What the counts depend on, as the state has it now."""
    counts = np.zeros(len(state.nodes.names) + 1, dtype=bool)
    away = counts.copy()
    counts[where.online] = True
    away[where.everyone] = ~counts[where.everyone]
    return Counted(state, where.online, counts, away, scoring.pairs(state, where))
