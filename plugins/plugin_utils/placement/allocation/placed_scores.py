"""Ganeti's score of a cluster after a new instance is placed, for many places at once.

The sums are made in the order and with the roundings of htools, so that of equal places the same one is the best.
Deviations are over online nodes; of each kind of value sum and variance are known, and a place changes them by the
one or two nodes it touches: O(1) a place. Most places are never looked at: what a node costs at the least, wherever
the other half is, is already more than the best place. Source: Ganeti's htools.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..score import columns
from .placed_values import ALONE, BOTH, ROW, ROWS, TWINS, PlacedValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .newcomers import Newcomer
    from .obstacles import Places
    from .openings import Openings

WEIGHTS = np.array([1.0 if name.endswith("_load") or name == "reserved" else 0.5 for name in ROWS])
OF_BOTH, OF_ONE, RESERVED = slice(len(BOTH)), slice(len(BOTH), len(ROWS) - 1), ROW["reserved"]
RESERVED_TOTAL = 0.25
MARGIN = 1e-6
"""How much of a score roundings can be: the root of a variance that is nearly 0 shows the last bits of large sums."""
TRIED = 16
"""How many of the most promising primaries are looked at first; mostly no other is."""


@dataclass(frozen=True)
class Place:
    """Where an instance would go, -1 for no secondary, and the score of the cluster after it."""

    primary: int
    secondary: int
    score: float


@dataclass(frozen=True, eq=False)
class _Known:
    """Values by kind (`ROWS`) and node, their sums and variances; these again after each primary alone.

    step, squares: what a secondary adds to a value and, times the number of nodes, to its square; constants: parts of
    the score that no place changes; exclusion: by primary how often tags are at one location again, 0 without tags.
    """

    values: columns.Numbers
    sums: columns.Numbers
    variances: columns.Numbers
    sums_after: columns.Numbers
    variances_after: columns.Numbers
    step: columns.Numbers
    squares: columns.Numbers
    constants: tuple[float, ...]
    exclusion: columns.Numbers | float


class PlacedScores:
    """The scores of places for new instances of one size as the nodes are now; told of each that is taken in."""

    def __init__(self, openings: Openings, newcomer: Newcomer) -> None:
        self._openings, self._newcomer = openings, newcomer
        self._count = float(len(openings.numbers))
        self._reserves = newcomer.size.memory * newcomer.reserves
        self._smallest = float(openings.nodes.t_mem.min(initial=np.inf))
        self._values = PlacedValues(openings, newcomer)
        self._together: columns.Numbers | None = None
        self._missed = openings.missed(newcomer)
        self._located = bool(openings.locations or newcomer.desired)
        self._now = self._values.parts()
        self._twins = {
            name: all(
                np.array_equal(values[ROW[name]], values[ROW[twin]])
                for values in (self._now, self._values.first, self._values.whole)
            )
            for name, twin in TWINS.items()
        }

    def best(self, places: Places) -> Place:
        """The place with the lowest score, of equal ones the last."""
        if not self._newcomer.template.is_mirrored:
            scores = self.singles(places.primaries)
            last = _last_least(scores)
            return Place(int(places.primaries[last]), columns.NOWHERE, float(scores[last]))
        known, rows = self._known(), places.primaries
        bounds = self._bounds(known).take(rows)
        order = np.argpartition(bounds, TRIED) if len(rows) > TRIED else np.arange(len(rows))
        found = self._best_of(known, places, np.sort(order[:TRIED]))
        ceiling = found.score + MARGIN * max(1.0, found.score)
        if len(rows) <= TRIED or bounds[order[TRIED]] > ceiling:
            return found
        return self._best_of(known, places, np.flatnonzero(bounds <= ceiling))

    def taken(self, place: Place) -> None:
        """Know that the openings have taken the instance in at a place."""
        self._now[:, place.primary] += self._values.first[:, place.primary]
        if place.secondary != columns.NOWHERE:
            self._now[:, place.secondary] += self._values.second[:, place.secondary]
            self._now[RESERVED, place.secondary] = self._openings.nodes.reserved[place.secondary]

    def pairs(self, primaries: columns.Indices) -> columns.Numbers:
        """The score after placing on each pair of one of the primaries (rows) and any node (columns)."""
        return self._of_pairs(self._known(), primaries)

    def _best_of(self, known: _Known, places: Places, rows: columns.Indices) -> Place:
        primaries = places.primaries[rows]
        scores = np.where(places.pairs[rows], self._of_pairs(known, primaries), np.inf).ravel()
        last = _last_least(scores)
        row, column = divmod(last, len(self._openings.numbers))
        return Place(int(primaries[row]), column, float(scores[last]))

    def singles(self, nodes: columns.Indices) -> columns.Numbers:
        """The score after placing on each of these nodes, without a secondary; O(nodes x online nodes)."""
        known = self._known()
        after = self._values.values_of(self._now + self._values.first)
        spread = {}
        for name, row in ROW.items():
            tried = np.repeat(known.values[row][None, :], len(nodes), axis=0)
            tried[np.arange(len(nodes)), nodes] = after[row][nodes]
            spread[name] = np.sqrt(measured(tried)[1])
        return self._total(
            spread,
            known,
            failing=self._openings.failing[nodes].astype(float) if known.constants[0] else 0.0,
            location=self._missed[nodes] if self._located else 0.0,
            exclusion=known.exclusion if isinstance(known.exclusion, float) else known.exclusion[nodes],
            reserved=known.sums[RESERVED],
        )

    def _known(self) -> _Known:
        parts, count = self._now, self._count
        values = self._values.values_of(parts)
        sums, variances = measured(values)
        new = self._values.values_of(parts + self._values.first)
        step = new - values
        change = (count * (new * new - values * values) - (2 * sums)[:, None] * step) - step * step
        second = (parts[OF_BOTH] + self._values.second[OF_BOTH]) / self._values.whole[OF_BOTH]
        old = values[OF_BOTH]
        return _Known(
            values,
            sums,
            variances,
            sums_after=sums[:, None] + step,
            variances_after=np.maximum(0.0, variances[:, None] + change / (count * count)),
            step=second - old,
            squares=count * (second * second - old * old),
            constants=self._constants(),
            exclusion=self._exclusion(),
        )

    def _bounds(self, known: _Known) -> columns.Numbers:
        """What the score is at the least with each of the primaries, whatever the secondary.

        A pair changes a variance by what each node does alone and by a product of their steps, which is small.
        """
        sums = known.sums[OF_BOTH, None]
        if self._together is None:
            near = np.abs(known.step).max(axis=1, keepdims=True)
            self._together = 2 * near * np.abs(known.sums_after[OF_BOTH] - sums)
        alone = (known.squares - (2 * sums + known.step) * known.step).min(axis=1, keepdims=True)
        variances = known.variances_after[:-1].copy()
        variances[OF_BOTH] += (alone - self._together) / (self._count * self._count)
        found: columns.Numbers = WEIGHTS[:-1] @ np.sqrt(np.maximum(0.0, variances))
        found += self._least_reserved(known) + sum(known.constants)
        if self._located:
            found += self._missed + known.exclusion
        return found

    def _least_reserved(self, known: _Known) -> float:
        """What reserved memory costs at the least: as if the node with the smallest share took as much as is best."""
        total, others = float(known.sums[RESERVED]), self._count - 1
        gap = max(0.0, total - self._count * float(known.values[RESERVED].min()))
        step = min(gap / others, self._reserves / self._smallest)
        change = (others * step - 2 * gap) * step
        variance = float(known.variances[RESERVED]) + change / (self._count * self._count)
        return math.sqrt(max(0.0, variance)) + RESERVED_TOTAL * total

    def _of_pairs(self, known: _Known, primaries: columns.Indices) -> columns.Numbers:
        after = known.variances_after.take(primaries, axis=1)[:, :, None]
        spread: dict[str, columns.Numbers] = dict(zip(ALONE, np.sqrt(after[OF_ONE]), strict=True))
        rows = slice(3 if all(self._twins.values()) else len(BOTH))
        spread |= dict(zip(BOTH, self._of_both(known, primaries, after[rows], rows), strict=False))
        spread |= {name: spread[twin] for name, twin in TWINS.items() if self._twins[name]}
        failing, shared = self._openings.failing, self._openings.shared
        spread["reserved"], reserved = self._of_reserved(known, primaries)
        first = primaries[:, None]
        return self._total(
            spread,
            known,
            failing=failing[first].astype(float) + failing if known.constants[0] else 0.0,
            location=self._missed[first] + shared[primaries] if self._located else 0.0,
            exclusion=known.exclusion if isinstance(known.exclusion, float) else known.exclusion[first],
            reserved=reserved,
        )

    def _of_both(
        self, known: _Known, primaries: columns.Indices, after: columns.Numbers, rows: slice
    ) -> columns.Numbers:
        """Deviations of kinds that both nodes take, from sums and variances after the primary alone."""
        step = known.step[rows]
        change = (2 * known.sums_after[rows].take(primaries, axis=1))[:, :, None] * step[:, None, :]
        np.subtract(known.squares[rows][:, None, :], change, out=change)
        change -= (step * step)[:, None, :]
        change /= self._count * self._count
        change += after
        np.maximum(0.0, change, out=change)
        return np.sqrt(change, out=change)

    def _of_reserved(self, known: _Known, primaries: columns.Indices) -> tuple[columns.Numbers, columns.Numbers]:
        """Deviation and sum of what is reserved; the only part that depends on the pair and not on its two nodes."""
        nodes, total = self._openings.nodes, known.sums[RESERVED]
        old = known.values[RESERVED]
        new = nodes.peers.take(primaries, axis=1).T + self._reserves
        np.maximum(new, nodes.reserved, out=new)
        new /= nodes.t_mem
        step = new - old
        change = new * new
        change -= old * old
        change *= self._count
        change -= (2 * total) * step
        change -= step * step
        change /= self._count * self._count
        change += known.variances[RESERVED]
        np.maximum(0.0, change, out=change)
        return np.sqrt(change, out=change), total + step

    def _constants(self) -> tuple[float, ...]:
        """The parts of the score that no place changes: failing nodes, the offline ones (2), tags, locations."""
        openings, nodes = self._openings, self._openings.nodes
        return (
            float((nodes.primaries + nodes.secondaries)[openings.failing].sum()) if openings.failing.any() else 0.0,
            4 * openings.offline_all,
            16 * openings.offline_primaries,
            2 * float(np.maximum(nodes.tags - 1, 0).sum()) if nodes.tags.size else 0.0,
            float(nodes.location_score.sum()) if self._located else 0.0,
        )

    def _exclusion(self) -> columns.Numbers | float:
        """By primary how often an exclusion tag would be at a location again, all instances together."""
        openings, nodes = self._openings, self._openings.nodes
        if not nodes.tags.size or not self._located:
            return 0.0
        together = nodes.locations.T.astype(float) @ nodes.real_tags
        known = [openings.tags[tag] for tag in self._newcomer.tags if tag in openings.tags]
        again = nodes.locations @ (together[:, known] > 0).sum(axis=1, dtype=float)
        found: columns.Numbers = np.maximum(together - 1, 0).sum() + again
        return found

    def _total(
        self,
        spread: Mapping[str, columns.Numbers],
        known: _Known,
        *,
        failing: columns.Numbers | float,
        location: columns.Numbers | float,
        exclusion: columns.Numbers | float,
        reserved: columns.Numbers,
    ) -> columns.Numbers:
        """The weighted sum, its parts in the order of htools; what is nothing for all places is left out."""
        failed, offline, offline_primaries, tags, located = known.constants
        halves = {name: 0.5 * spread[name] for name in ("memory", "disk", "vcpus", "spindles")}
        total = halves["memory"] + halves["disk"]
        for part in (
            failed + failing,
            spread["reserved"],
            offline,
            offline_primaries,
            halves["vcpus"],
            *(spread[f"{name}_load"] for name in columns.LOADS),
            tags,
            halves["spindles"],
            *(halves[twin] if self._twins[name] else 0.5 * spread[name] for name, twin in TWINS.items()),
            located + location,
            exclusion,
            RESERVED_TOTAL * reserved,
        ):
            if not isinstance(part, float) or part:
                total = total + part
        return total


def measured(values: columns.Numbers) -> tuple[columns.Numbers, columns.Numbers]:
    """Sums and variances over the last axis, added one after the other."""
    count = values.shape[-1]
    sums = np.cumsum(values, axis=-1)[..., -1]
    centred = values - (sums / count)[..., None]
    return sums, np.cumsum(centred * centred, axis=-1)[..., -1] / count


def _last_least(scores: columns.Numbers) -> int:
    return len(scores) - 1 - int(np.argmin(scores[::-1]))
