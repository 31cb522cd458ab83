"""What nodes keep free for their peers after a move, and how even that is.

A node keeps the largest sum that one other node's failure would start on it. A move takes an instance's memory out of
its secondary's row of `peers` and puts it into one row, so that each is known from the two largest of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import columns, oracle, scoring, spreads

if TYPE_CHECKING:
    from . import state as states

SPREAD = oracle.WEIGHTS["reserved_mem_cv"]
SUM = oracle.WEIGHTS["reserved_mem_rtotal"]


@dataclass(frozen=True, eq=False)
class Reserving:
    """Reserved memory as it is now, as a share of each node's memory (N, 0 where a node does not count).

    at_online[q, k]: what the k-th online node keeps for q; for_online[n, k]: what n keeps for the k-th online node.
    """

    state: states.State
    online: columns.Indices
    at_online: columns.Numbers
    for_online: columns.Numbers
    scale: columns.Numbers
    centred: columns.Numbers
    variance: float
    total: float
    least: float

    @property
    def now(self) -> float:
        """The weighted components as they are."""
        return SPREAD * float(np.sqrt(self.variance)) + SUM * self.total

    def freed(self, rows: columns.Indices) -> columns.Numbers:
        """What the secondary of each of `rows` keeps (MiB) once the instance has left it."""
        nodes, held = self.state.nodes, self.state.instances
        primary, secondary = held.primary[rows], held.secondary[rows]
        less = np.maximum(nodes.peers[secondary, primary] - held.reserved[rows], nodes.reserved_next[secondary])
        return np.where(nodes.reserved_for[secondary] == primary, less, nodes.reserved[secondary])

    def for_swap(self, rows: columns.Indices) -> columns.Numbers:
        """What the primary of each of `rows` must keep (MiB) for the secondary once they have changed roles."""
        nodes, held = self.state.nodes, self.state.instances
        return nodes.peers[held.primary[rows], held.secondary[rows]] + held.reserved[rows]

    def at_targets(self, rows: columns.Indices, *, for_: columns.Indices) -> columns.Numbers:
        """What every online node must keep (MiB) as the new secondary, for its primary `for_`; rows x online nodes."""
        return self.at_online[for_] + self.state.instances.reserved[rows][:, None]

    def for_targets(self, rows: columns.Indices, *, at: columns.Indices) -> columns.Numbers:
        """What the secondary `at` must keep (MiB) for every online node as the new primary; rows x online nodes."""
        return self.for_online[at] + self.state.instances.reserved[rows][:, None]

    def scored(
        self, rows: columns.Indices, needed: columns.Numbers, *, at: columns.Indices, left: columns.Numbers | None
    ) -> columns.Numbers:
        """The weighted components when `at` comes to keep `needed`, where that is more than it has.

        `left` is what the secondary keeps that the instance leaves; None where it stays the secondary: `needed` is then
        all that it keeps.
        """
        nodes, count = self.state.nodes, len(self.online)
        fixed, first, source = self._left(rows, left)
        if needed.ndim > 1:
            fixed, first = fixed[:, None], first[:, None]
        added = needed - nodes.reserved[at]
        if left is not None:
            np.maximum(added, 0.0, out=added)
        added *= self.scale[at]
        found = added * (1 / count - 1 / count**2)
        found += 2 / count * self.centred[at]
        found -= 2 / count**2 * first
        found *= added
        found += fixed
        if found.size and found.min() < self.least:
            self._repair(found, added, at, first, source.reshape(-1, *[1] * (found.ndim - 1)))
        np.sqrt(found, out=found)
        found *= SPREAD
        added += self.total + first
        added *= SUM
        found += added
        return found

    def _left(
        self, rows: columns.Indices, left: columns.Numbers | None
    ) -> tuple[columns.Numbers, columns.Numbers, columns.Indices]:
        secondary = self.state.instances.secondary[rows]
        if left is None:
            return np.full(len(rows), self.variance), np.zeros(len(rows)), secondary
        count = len(self.online)
        first = (left - self.state.nodes.reserved[secondary]) * self.scale[secondary]
        change = first * (2 * self.centred[secondary] + first)
        return self.variance + change / count - (first / count) ** 2, first, secondary

    def _repair(
        self,
        found: columns.Numbers,
        added: columns.Numbers,
        at: columns.Indices,
        first: columns.Numbers,
        source: columns.Indices,
    ) -> None:
        """Compute anew what is so small that cancellation shows."""
        small = np.nonzero(found < self.least)
        picked = [np.broadcast_to(amounts, found.shape)[small] for amounts in (added, first)]
        where = [np.broadcast_to(indices, found.shape)[small] for indices in (at, source)]
        values = np.repeat(self.centred[None], len(small[0]), axis=0)
        each = np.arange(len(values))
        np.add.at(values, (each, where[0]), picked[0])
        np.add.at(values, (each, where[1]), picked[1])
        found[small] = spreads.variance(values[:, self.online])


def now(state: states.State, where: scoring.Scope) -> Reserving:
    """Reserved memory as the state has it now."""
    nodes, online = state.nodes, where.online
    scale = np.zeros(len(nodes.names))
    scale[online] = scoring.ratio_of(np.ones(len(online)), nodes.t_mem[online])
    share = nodes.reserved * scale
    centred = np.zeros(len(share))
    centred[online] = share[online] - share[online].mean()
    size = share.max(initial=0.0) + state.instances.reserved.max(initial=0.0) * scale.max(initial=0.0)
    return Reserving(
        state,
        online,
        np.ascontiguousarray(nodes.peers[online].T),
        nodes.peers[:, online],
        scale,
        centred,
        variance=float(spreads.variance(centred[online])),
        total=float(share[online].sum()),
        least=float((spreads.TINY * size) ** 2),
    )
