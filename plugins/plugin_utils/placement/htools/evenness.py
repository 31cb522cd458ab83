"""How even a cluster is once an instance without a secondary is on a node: what of the score that place decides.

For a cluster without locations, after a failure, when whole nodes are placed anew: the order of places is that of
`placed_scores`, their scores are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..allocation import placed_scores, placed_values

if TYPE_CHECKING:
    from ..allocation.newcomers import Newcomer
    from ..allocation.openings import Openings
    from ..score import columns

ROWS = slice(len(placed_values.ROWS) - 1)
WEIGHTS = placed_scores.WEIGHTS[ROWS]
"""Without what is reserved, the last row: no such instance reserves anything."""
Steps = dict["Newcomer", "columns.Numbers"]


class Evenness:
    """The values of all nodes, kind by kind; told of each instance that is taken in or given away.

    steps: what an instance adds to the values of each node, known for all openings of the same nodes.
    """

    def __init__(self, openings: Openings, newcomer: Newcomer, steps: Steps) -> None:
        found = placed_values.PlacedValues(openings, newcomer)
        self._openings, self._steps = openings, steps
        self._values = found.values_of(found.parts())[ROWS].copy()

    def best(
        self, newcomer: Newcomer, nodes: columns.Indices, *, among: columns.Indices, extra: columns.Numbers
    ) -> int:
        """The best of some nodes, the last of equal ones; `among` are those that count, `extra` is added."""
        step, values = self._of(newcomer)[:, nodes], self._values[:, among]
        count = len(among)
        mean = values.sum(axis=1, keepdims=True) / count
        centred = values - mean
        variance = (centred * centred).sum(axis=1, keepdims=True) / count
        part = step / count
        after = variance + part * (2 * (self._values[:, nodes] - mean) + step - part)
        scores = WEIGHTS @ np.sqrt(np.maximum(after, 0.0)) + extra
        least = scores.min()
        last = np.flatnonzero(scores <= least + placed_scores.MARGIN * 1e-6 * max(1.0, abs(float(least))))[-1]
        return int(nodes[last])

    def take(self, newcomer: Newcomer, node: int) -> None:
        """Know that an instance is on a node now."""
        self._values[:, node] += self._of(newcomer)[:, node]

    def give(self, newcomer: Newcomer, node: int) -> None:
        """Know that an instance is on a node no more."""
        self._values[:, node] -= self._of(newcomer)[:, node]

    def _of(self, newcomer: Newcomer) -> columns.Numbers:
        if newcomer not in self._steps:
            found = placed_values.PlacedValues(self._openings, newcomer)
            self._steps[newcomer] = found.values_of(found.first)[ROWS].copy()
        return self._steps[newcomer]
