"""Ganeti's score of a cluster after a new instance is placed, for many places at once.

The sums are made in the order and with the roundings of htools, so that of equal places the same one is the best.
Deviations are over online nodes; of each kind of value sum and variance are known, and a place changes them by the
one or two nodes it touches: O(1) a place. Source: Ganeti's htools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import columns

if TYPE_CHECKING:
    from . import newcomers
    from .openings import Openings

DEVIATIONS = (
    *("memory", "disk", "reserved", "vcpus", "cpu_load", "memory_load", "disk_load", "net_load", "spindles"),
    *("memory_expected", "disk_expected", "vcpus_expected", "spindles_expected"),
)
ROW = {name: number for number, name in enumerate(DEVIATIONS)}
RESERVED_TOTAL = 0.25


@dataclass(frozen=True)
class Measures:
    """The values of each online node by kind (rows as in `DEVIATIONS`) with their sums and variances."""

    values: columns.Numbers
    sums: columns.Numbers
    variances: columns.Numbers


def of_pairs(
    openings: Openings, newcomer: newcomers.Newcomer, primaries: columns.Indices, secondaries: columns.Indices
) -> columns.Numbers:
    """The score after placing on each pair; the indices are broadcast against each other."""
    return _Pairs(openings, newcomer, primaries, secondaries).total()


def of_singles(openings: Openings, newcomer: newcomers.Newcomer, nodes: columns.Indices) -> columns.Numbers:
    """The score after placing on each of these nodes, without a secondary; O(nodes x online nodes)."""
    before, after = values_of(openings), _as_primary(openings, newcomer)
    spread = {}
    for name, row in ROW.items():
        tried = np.repeat(before[row][None, :], len(nodes), axis=0)
        tried[np.arange(len(nodes)), nodes] = after[row][nodes]
        spread[name] = np.sqrt(measured(tried).variances)
    counted = _Counted(openings, newcomer)
    location = openings.nodes.location_score.sum() + openings.missed(newcomer)[nodes]
    total = _Total(counted.failing + openings.failing[nodes], openings)
    reserved = np.cumsum(before[ROW["reserved"]])[-1]
    return total.of(spread, location=location, exclusion=counted.exclusion[nodes], tags=counted.tags, reserved=reserved)


def values_of(openings: Openings) -> columns.Numbers:
    """What the deviations are taken of, by kind and online node."""
    nodes = openings.nodes
    values = np.empty((len(DEVIATIONS), len(openings.numbers)))
    values[ROW["memory"]] = nodes.memory / nodes.t_mem
    values[ROW["memory_expected"]] = nodes.memory_expected / nodes.t_mem
    values[ROW["reserved"]] = nodes.reserved / nodes.t_mem
    values[ROW["vcpus"]] = nodes.vcpus / nodes.pcpus / nodes.cpu_speed
    values[ROW["vcpus_expected"]] = nodes.vcpus_expected / nodes.pcpus / nodes.cpu_speed
    values[ROW["cpu_load"] : ROW["net_load"] + 1] = nodes.load
    values[ROW["disk"]] = free_share(openings, nodes.disk, nodes.free_spindles)
    values[ROW["disk_expected"]] = free_share(openings, nodes.disk_expected, nodes.free_spindles_expected)
    values[ROW["spindles"]] = _ratio(nodes.spindles, nodes.spindle_limit, 0.0)
    values[ROW["spindles_expected"]] = _ratio(nodes.spindles_expected, nodes.spindle_limit, 0.0)
    return values


def measured(values: columns.Numbers) -> Measures:
    """Sums and variances over the last axis, added one after the other."""
    count = values.shape[-1]
    sums = np.cumsum(values, axis=-1)[..., -1]
    centred = values - (sums / count)[..., None]
    return Measures(values, sums, np.cumsum(centred * centred, axis=-1)[..., -1] / count)


def free_share(openings: Openings, disk: columns.Numbers, spindles: columns.Numbers) -> columns.Numbers:
    """The free part of each node's disk, of its spindles with exclusive storage; 1 where there is none at all."""
    nodes = openings.nodes
    shares = _ratio(disk, nodes.t_disk, 1.0)
    return np.where(nodes.exclusive, _ratio(spindles, nodes.t_spindles, 1.0), shares) if nodes.exclusive.any() else shares


def _ratio(part: columns.Numbers, whole: columns.Numbers, otherwise: float) -> columns.Numbers:
    found: columns.Numbers = np.divide(part, whole, out=np.full(len(part), otherwise), where=whole != 0)
    return found


def _as_primary(openings: Openings, newcomer: newcomers.Newcomer) -> columns.Numbers:
    """The values of each node as if the instance were there as primary."""
    nodes, size = openings.nodes, newcomer.size
    values = _with_disks(openings, newcomer)
    values[ROW["memory"]] = (nodes.memory - size.memory) / nodes.t_mem
    values[ROW["memory_expected"]] = (nodes.memory_expected - size.memory) / nodes.t_mem
    values[ROW["reserved"]] = nodes.reserved / nodes.t_mem
    values[ROW["vcpus"]] = (nodes.vcpus + size.vcpus) / nodes.pcpus / nodes.cpu_speed
    values[ROW["vcpus_expected"]] = (nodes.vcpus_expected + size.vcpus) / nodes.pcpus / nodes.cpu_speed
    for row, load in enumerate(newcomer.load, start=ROW["cpu_load"]):
        values[row] = nodes.load[row - ROW["cpu_load"]] + load
    return values


def _with_disks(openings: Openings, newcomer: newcomers.Newcomer) -> columns.Numbers:
    """The values of each node as if the instance's disks were there; only the rows of disks are filled."""
    nodes, size = openings.nodes, newcomer.size
    disk = size.disk * newcomer.on_volumes
    spindles = (size.spindles or 0) * newcomer.on_volumes
    use = newcomer.spindle_use * newcomer.on_volumes * ~nodes.exclusive
    values = np.empty((len(DEVIATIONS), len(openings.numbers)))
    values[ROW["disk"]] = free_share(openings, nodes.disk - disk, nodes.free_spindles - spindles)
    values[ROW["disk_expected"]] = free_share(
        openings, nodes.disk_expected - disk, nodes.free_spindles_expected - spindles
    )
    values[ROW["spindles"]] = _ratio(nodes.spindles + use, nodes.spindle_limit, 0.0)
    values[ROW["spindles_expected"]] = _ratio(nodes.spindles_expected + use, nodes.spindle_limit, 0.0)
    values[ROW["disk_load"]] = nodes.load[columns.DISK] + newcomer.load[columns.DISK]
    return values


class _Counted:
    """The parts of the score that are counts: of failing nodes' instances, of tags and of tags at one location."""

    def __init__(self, openings: Openings, newcomer: newcomers.Newcomer) -> None:
        nodes = openings.nodes
        self.failing = float((nodes.primaries + nodes.secondaries)[openings.failing].sum())
        self.tags = float(np.maximum(nodes.tags - 1, 0).sum())
        together = nodes.locations.T.astype(float) @ nodes.real_tags
        known = [openings.tags[tag] for tag in newcomer.tags if tag in openings.tags]
        again = nodes.locations @ (together[:, known] > 0).sum(axis=1, dtype=float)
        self.exclusion: columns.Numbers = np.maximum(together - 1, 0).sum() + again


class _Total:
    """The weighted sum, its parts in the order of htools."""

    def __init__(self, failing: columns.Numbers, openings: Openings) -> None:
        self._failing = failing
        self._openings = openings

    def of(
        self,
        spread: dict[str, columns.Numbers],
        *,
        location: columns.Numbers,
        exclusion: columns.Numbers,
        tags: float,
        reserved: columns.Numbers,
    ) -> columns.Numbers:
        total = 0.5 * spread["memory"] + 0.5 * spread["disk"]
        total = total + self._failing
        total += spread["reserved"]
        total += 4 * self._openings.offline_all
        total += 16 * self._openings.offline_primaries
        total += 0.5 * spread["vcpus"]
        for name in ("cpu_load", "memory_load", "disk_load", "net_load"):
            total += spread[name]
        total += 2 * tags
        for name in ("spindles", "memory_expected", "disk_expected", "vcpus_expected", "spindles_expected"):
            total += 0.5 * spread[name]
        total += location
        total += exclusion
        total += RESERVED_TOTAL * reserved
        return total


class _Pairs:
    """One question: the scores of pairs; what depends on one node alone is found once a node."""

    def __init__(
        self,
        openings: Openings,
        newcomer: newcomers.Newcomer,
        primaries: columns.Indices,
        secondaries: columns.Indices,
    ) -> None:
        self._openings, self._newcomer = openings, newcomer
        self._primaries, self._secondaries = primaries, secondaries
        self._before = measured(values_of(openings))
        self._count = float(len(openings.numbers))
        self._first = _as_primary(openings, newcomer)
        self._second = _with_disks(openings, newcomer)

    def total(self) -> columns.Numbers:
        openings, first, second = self._openings, self._primaries, self._secondaries
        counted = _Counted(openings, self._newcomer)
        spread = {name: self._of_primary(name) for name in ("memory", "vcpus", "cpu_load", "memory_load", "net_load")}
        spread |= {name: self._of_both(name) for name in ("disk", "disk_load", "spindles")}
        for name in ("memory", "disk", "vcpus", "spindles"):
            spread[f"{name}_expected"] = self._expected(name, spread[name])
        spread["reserved"], reserved = self._reserved()
        location = openings.missed(self._newcomer)[first] + openings.shared[first, second]
        total = _Total(counted.failing + openings.failing[first] + openings.failing[second], openings)
        location = openings.nodes.location_score.sum() + location
        return total.of(
            spread, location=location, exclusion=counted.exclusion[first], tags=counted.tags, reserved=reserved
        )

    def _expected(self, name: str, found: columns.Numbers) -> columns.Numbers:
        """As without forthcoming instances, unless there are some."""
        if np.array_equal(self._before.values[ROW[name]], self._before.values[ROW[f"{name}_expected"]]):
            return found
        name = f"{name}_expected"
        return self._of_primary(name) if name.startswith(("memory", "vcpus")) else self._of_both(name)

    def _changed(self, row: int) -> tuple[columns.Numbers, columns.Numbers]:
        """Sum and variance after the primary alone, by node."""
        old, new = self._before.values[row], self._first[row]
        total, variance = self._before.sums[row], self._before.variances[row]
        step = new - old
        change = (self._count * (new * new - old * old) - 2 * total * step) - step * step
        return total + step, np.maximum(0.0, variance + change / (self._count * self._count))

    def _of_primary(self, name: str) -> columns.Numbers:
        _, variance = self._changed(ROW[name])
        return np.sqrt(variance)[self._primaries]

    def _of_both(self, name: str) -> columns.Numbers:
        row = ROW[name]
        total, variance = self._changed(row)
        old, new = self._before.values[row], self._second[row]
        step, squares = new - old, self._count * (new * new - old * old)
        first, second = self._primaries, self._secondaries
        change = squares[second] - (2 * total)[first] * step[second]
        change -= (step * step)[second]
        change /= self._count * self._count
        change += variance[first]
        np.maximum(0.0, change, out=change)
        return np.sqrt(change, out=change)

    def _reserved(self) -> tuple[columns.Numbers, columns.Numbers]:
        """Deviation and sum of what is reserved; the only part that depends on the pair and not on its two nodes."""
        nodes, first, second = self._openings.nodes, self._primaries, self._secondaries
        row = ROW["reserved"]
        total, variance = self._before.sums[row], self._before.variances[row]
        old = self._before.values[row][second]
        new = nodes.peers[second, first] + self._newcomer.size.memory * self._newcomer.reserves
        np.maximum(new, nodes.reserved[second], out=new)
        new /= nodes.t_mem[second]
        step = new - old
        change = new * new - old * old
        change *= self._count
        change -= 2 * total * step
        change -= step * step
        change /= self._count * self._count
        change += variance
        np.maximum(0.0, change, out=change)
        return np.sqrt(change, out=change), total + step
