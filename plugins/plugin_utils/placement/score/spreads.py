"""How even the nodes are after a move: standard deviations of many moves at once, each in O(1).

Every spread of the score is of one of two kinds: only the primary counts (memory, vcpus, most loads), or both nodes
count alike (disk, disk load, spindles). With centred values x of n nodes and V their variance, taking an instance off
one node and onto another adds d to two values, so that V' = V + sum(d(2x + d))/n - (sum(d)/n)^2. For one instance and
all targets that is a product of four numbers of the instance and four of the target.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from . import columns, oracle, scoring

if TYPE_CHECKING:
    from . import state as states

BLOCK = 1_000_000
TINY = 4e-6
"""Below this part of a column's own size a deviation loses its last digits to cancellation, and is computed anew."""


@dataclass(frozen=True, eq=False)
class Column:
    """One spread, or several that are always alike: their weight, and what an instance adds to a node.

    amounts: kinds of node x I; kind: of each node; scale: what one unit of amount adds to the node's value, 0 when the
    node does not count.
    """

    names: tuple[str, ...]
    weight: float
    both: bool
    amounts: columns.Numbers
    kind: columns.Indices
    scale: columns.Numbers

    @functools.cached_property
    def largest(self) -> float:
        """The most that one instance can change a node's value."""
        return float(np.abs(self.amounts).max(initial=0.0) * self.scale.max(initial=0.0))


def changing_columns(state: states.State, where: scoring.Scope) -> list[Column]:
    """The spreads that moves can change, equal ones merged."""
    values = dict(zip(scoring.SPREADS, scoring.spreads(state.nodes), strict=True))
    found: list[Column] = []
    for column in _all(state, where):
        if not column.amounts.any() or not column.scale.any():
            continue
        twin = next((known for known in found if _alike(known, column, values, where.online)), None)
        if twin is None:
            found.append(column)
        else:
            merged = replace(twin, names=twin.names + column.names, weight=twin.weight + column.weight)
            found[found.index(twin)] = merged
    return found


def _alike(column: Column, other: Column, values: dict[str, columns.Numbers], online: columns.Indices) -> bool:
    return (
        column.both is other.both
        and np.array_equal(column.amounts, other.amounts)
        and np.array_equal(column.scale, other.scale)
        and np.array_equal(values[column.names[0]][online], values[other.names[0]][online])
    )


def _all(state: states.State, where: scoring.Scope) -> list[Column]:
    nodes, held = state.nodes, state.instances
    counts = np.zeros(len(nodes.names))
    counts[where.online] = 1.0
    memory = _per(nodes.t_mem) * counts
    vcpus = _per(nodes.pcpus) * _per(nodes.cpu_speed) * counts
    spindles = _per(nodes.spindle_limit) * ~nodes.exclusive * counts
    disk = np.where(nodes.exclusive, _per(nodes.t_spindles), _per(nodes.t_disk)) * counts
    on_disk = -np.stack((held.disk, held.own_spindles))
    kind = nodes.exclusive.astype(np.int64)
    real = held.real
    single = np.zeros(len(nodes.names), dtype=np.int64)

    def column(name: str, amounts: columns.Numbers, scale: columns.Numbers, *, both: bool) -> Column:
        return Column((name,), oracle.WEIGHTS[name], both, amounts[None], single, scale)

    return [
        column("free_mem_cv", -held.started, memory, both=False),
        column("free_mem_cv_forth", -held.memory, memory, both=False),
        column("vcpu_ratio_cv", held.vcpus * real, vcpus, both=False),
        column("vcpu_ratio_cv_forth", held.vcpus, vcpus, both=False),
        column("cpu_load_cv", held.load[scoring.CPU] * real, counts, both=False),
        column("mem_load_cv", held.load[scoring.MEMORY] * real, counts, both=False),
        column("net_load_cv", held.load[scoring.NET] * real, counts, both=False),
        column("disk_load_cv", held.load[scoring.DISK] * real, counts, both=True),
        column("spindles_cv", held.spindle_use * real, spindles, both=True),
        column("spindles_cv_forth", held.spindle_use, spindles, both=True),
        Column(("free_disk_cv",), oracle.WEIGHTS["free_disk_cv"], True, on_disk * real, kind, disk),  # noqa: FBT003
        Column(("free_disk_cv_forth",), oracle.WEIGHTS["free_disk_cv_forth"], True, on_disk, kind, disk),  # noqa: FBT003
    ]


def _per(whole: columns.Numbers) -> columns.Numbers:
    return scoring.ratio_of(np.ones(len(whole)), whole)


@dataclass(frozen=True, eq=False)
class Spread:
    """A column as its values are now: centred `values` (N, 0 where a node does not count), their variance, its limit.

    A variance below `least` is computed anew.
    """

    column: Column
    online: columns.Indices
    values: columns.Numbers
    variance: float
    least: float

    @property
    def now(self) -> float:
        """The weighted deviation as it is."""
        return self.column.weight * float(np.sqrt(self.variance))

    def moved(self, rows: columns.Indices, source: columns.Indices) -> columns.Numbers:
        """Weighted deviations, rows x online nodes, when each instance of `rows` leaves its `source` for that node."""
        column, online, count = self.column, self.online, len(self.online)
        leaving = self._added(rows, source, -1.0)
        fixed = self.variance + leaving * (2 * self.values[source] + leaving) / count - (leaving / count) ** 2
        scale = column.scale[online]
        targets = np.empty((4, count))
        targets[0] = 1.0
        targets[1] = scale * scale * (1 / count - 1 / count**2)
        targets[2] = 2 / count * scale * self.values[online]
        targets[3] = -2 / count**2 * scale
        found = np.empty((len(rows), count))
        for kind in range(len(column.amounts)):
            there = column.kind[online] == kind
            amounts = column.amounts[kind, rows]
            own = np.empty((len(rows), 4))
            own[:, 0], own[:, 1], own[:, 2], own[:, 3] = fixed, amounts * amounts, amounts, amounts * leaving
            if there.all():
                np.matmul(own, targets, out=found)
            elif there.any():
                found[:, there] = own @ targets[:, there]
        self._repair(found, rows[:, None], source[:, None], online[None])
        np.sqrt(found, out=found)
        found *= column.weight
        return found

    def moved_to(self, rows: columns.Indices, source: columns.Indices, target: columns.Indices) -> columns.Numbers:
        """Weighted deviations, one for each of `rows`, when the instance leaves its `source` for its `target`."""
        count = len(self.online)
        leaving, coming = self._added(rows, source, -1.0), self._added(rows, target, 1.0)
        change = leaving * (2 * self.values[source] + leaving) + coming * (2 * self.values[target] + coming)
        found = self.variance + change / count - ((leaving + coming) / count) ** 2
        self._repair(found, rows, source, target)
        return np.asarray(self.column.weight * np.sqrt(found))

    def _added(self, rows: columns.Indices, where: columns.Indices, sign: float) -> columns.Numbers:
        column = self.column
        return np.asarray(sign * column.amounts[column.kind[where], rows] * column.scale[where])

    def _repair(
        self, found: columns.Numbers, rows: columns.Indices, source: columns.Indices, target: columns.Indices
    ) -> None:
        """Compute anew what is so small that cancellation shows."""
        if found.size == 0 or found.min() >= self.least:
            return
        small = np.nonzero(found < self.least)
        picked = [np.broadcast_to(indices, found.shape)[small] for indices in (rows, source, target)]
        fresh = np.empty(len(picked[0]))
        step = max(1, BLOCK // len(self.values))
        for start in range(0, len(fresh), step):
            part = slice(start, start + step)
            fresh[part] = self._anew(picked[0][part], picked[1][part], picked[2][part])
        found[small] = fresh

    def _anew(self, rows: columns.Indices, source: columns.Indices, target: columns.Indices) -> columns.Numbers:
        values = np.repeat(self.values[None], len(rows), axis=0)
        each = np.arange(len(rows))
        np.add.at(values, (each, source), self._added(rows, source, -1.0))
        np.add.at(values, (each, target), self._added(rows, target, 1.0))
        return variance(values[:, self.online])


def variance(values: columns.Numbers) -> columns.Numbers:
    """Along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    return np.asarray((centred * centred).mean(axis=-1))


def now(found: list[Column], nodes: columns.Nodes, where: scoring.Scope) -> list[Spread]:
    """The columns with the values that nodes have now."""
    values = scoring.spreads(nodes)[[scoring.SPREADS.index(column.names[0]) for column in found]]
    online = where.online
    counted = values[:, online]
    counted -= np.add.reduce(counted, axis=1, keepdims=True) / len(online)
    counted -= np.add.reduce(counted, axis=1, keepdims=True) / len(online)
    centred = np.zeros_like(values)
    centred[:, online] = counted
    least = (TINY * (np.abs(counted).max(axis=1) + [column.largest for column in found])) ** 2
    squares = np.add.reduce(counted * counted, axis=1) / len(online)
    return [
        Spread(column, online, mine, float(variance), float(limit))
        for column, mine, variance, limit in zip(found, centred, squares, least, strict=True)
    ]
