"""Which nodes may take which instances: hbal's checks, for many instances and nodes at once.

A check is hard (memory and disk, always), or soft: waived when the node that is left is offline, or when soft checks
are ignored. N+1 refuses only what makes a node fail that did not. Amounts are whole, so "more than" is "at least one
more". Source: the checks of Ganeti's htools when a node takes a primary or a secondary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..score import columns
    from ..score import state as states

NEVER, NOTHING = np.inf, -np.inf


@dataclass(frozen=True, eq=False)
class Limit:
    """What instances need (I; NEVER, or NOTHING), and what nodes have room for (N).

    `again` is the need at a node which held the instance in its other role and has freed that.
    """

    need: columns.Numbers
    again: columns.Numbers
    room: columns.Numbers

    def fits(self, rows: columns.Indices, nodes: columns.Indices) -> columns.Flags:
        """Rows x nodes."""
        return np.less_equal(self.need[rows][:, None], self.room[nodes][None])

    def fits_again(self, rows: columns.Indices, nodes: columns.Indices) -> columns.Flags:
        """For each of `rows` one node."""
        return np.less_equal(self.again[rows], self.room[nodes])


@dataclass(frozen=True, eq=False)
class Role:
    """The checks of a node that becomes primary or secondary: hard ones, and all of them."""

    hard: list[Limit]
    soft: list[Limit]

    def fits(self, rows: columns.Indices, nodes: columns.Indices, *, forced: columns.Flags) -> columns.Flags:
        """Rows x nodes; only the hard checks where the row is forced."""
        if not forced.any():
            return _all(limit.fits(rows, nodes) for limit in self.soft)
        hard = _all(limit.fits(rows, nodes) for limit in self.hard)
        if forced.all():
            return hard
        return hard & (forced[:, None] | _all(limit.fits(rows, nodes) for limit in self.soft))

    def fits_again(self, rows: columns.Indices, nodes: columns.Indices, *, forced: columns.Flags) -> columns.Flags:
        """For each of `rows` one node."""
        hard = _all(limit.fits_again(rows, nodes) for limit in self.hard)
        return hard & (forced | _all(limit.fits_again(rows, nodes) for limit in self.soft))


def _all(checks: Iterable[columns.Flags]) -> columns.Flags:
    first, *others = checks
    for check in others:
        first &= check
    return first


@dataclass(frozen=True, eq=False)
class Fitting:
    """The checks as nodes and instances are now.

    failing: N, nodes that fail N+1. A node becomes primary (`primary`) or secondary (`secondary`), or it held the
    instance and changes its role: `promoted` from secondary, `demoted` from primary; `stays` is a secondary that was
    primary for a moment. Of these `primary` alone has N+1 in it: for the others it depends on both nodes.
    """

    failing: columns.Flags
    primary: Role
    secondary: Role
    promoted: Role
    demoted: Role
    stays: Role


@dataclass(frozen=True, eq=False)
class _Need:
    """A limit without its room: the least of the rooms that are named."""

    need: columns.Numbers
    again: columns.Numbers
    rooms: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Needs:
    """What the instances need in each role, which no move changes; hard limits, and all that are soft."""

    free: _Need
    hard: list[_Need]
    primary: list[_Need]
    promoted: list[_Need]
    secondary: list[_Need]
    demoted: list[_Need]


def needs(state: states.State) -> Needs:
    """What the instances of a state need; limits of the same need are one."""
    held = state.instances
    started, kept = _when(held.real, held.started), _when(held.real, held.kept)
    hard, soft = _disks(state)
    free = _Need(started, started, ("memory",))
    run = [
        _Need(held.memory, held.memory, ("memory_expected",)),
        _Need(held.vcpus, held.vcpus, ("vcpus_expected",)),
        *soft,
    ]
    freed = [
        _Need(kept, kept - held.started, ("memory",)),
        _Need(held.kept, held.kept - held.memory, ("memory_expected",)),
    ]
    still = [_Need(kept, kept, ("memory",)), _Need(held.kept, held.kept, ("memory_expected",))]
    return Needs(
        free,
        hard,
        primary=_merged([_Need(started, started, ("unharmed",)), *run]),
        promoted=_merged([free, *run]),
        secondary=_merged([*still, *soft]),
        demoted=_merged([*freed, *soft]),
    )


def checks(state: states.State, wanted: Needs) -> Fitting:
    """The checks as the state is now; O(nodes + instances)."""
    rooms = _rooms(state)

    def limits(found: Iterable[_Need]) -> list[Limit]:
        return [Limit(need.need, need.again, np.minimum.reduce([rooms[name] for name in need.rooms])) for need in found]

    hard = limits(wanted.hard)
    secondary = Role(hard, limits(wanted.secondary))
    free = limits([wanted.free])
    return Fitting(
        state.nodes.memory <= state.nodes.reserved,
        primary=Role(free + hard, limits(wanted.primary)),
        secondary=secondary,
        promoted=Role(free + hard, limits(wanted.promoted)),
        demoted=Role(hard, limits(wanted.demoted)),
        stays=secondary,
    )


def _rooms(state: states.State) -> dict[str, columns.Numbers]:
    """What the nodes have room for now."""
    nodes = state.nodes
    memory = nodes.memory - 1
    return {
        "memory": memory,
        "unharmed": np.where(nodes.memory <= nodes.reserved, memory, memory - nodes.reserved),
        "memory_expected": nodes.memory_expected - 1,
        "vcpus_expected": most_vcpus(nodes) - nodes.vcpus_expected,
        "disk": nodes.disk - 1,
        "disk_expected": nodes.disk_expected - 1,
        "spindles": np.where(nodes.exclusive, nodes.free_spindles, NEVER),
        "spindles_expected": np.where(nodes.exclusive, nodes.free_spindles_expected, NEVER),
        "use_expected": np.where(nodes.exclusive, NEVER, nodes.spindle_limit - nodes.spindles_expected),
    }


def _disks(state: states.State) -> tuple[list[_Need], list[_Need]]:
    """Volumes, spindles of exclusive storage, and how busy shared spindles may be; hard ones, and soft ones.

    Soft ones look at what is expected alone: never more room than there is now.
    """
    held = state.instances
    own = np.where(np.isnan(held.spindles), NEVER, held.spindles)
    counted = held.on_volumes & held.real
    hard = [_on_disks(_when(counted, held.disk), "disk")]
    soft = [_on_disks(_when(held.on_volumes, held.disk), "disk_expected")]
    if state.nodes.exclusive.any():
        hard.append(_on_disks(_when(counted, own), "spindles"))
        soft.append(_on_disks(_when(held.on_volumes, own), "spindles_expected"))
    soft.append(_on_disks(_when(held.on_volumes, held.spindle_use), "use_expected"))
    return hard, soft


def most_vcpus(nodes: columns.Nodes) -> columns.Numbers:
    """The most vcpus that each node may run: its CPUs times the ratio of its policy, rounded as the peer compares."""
    most = np.floor(nodes.vcpu_ratio * nodes.pcpus) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        most -= most / nodes.pcpus > nodes.vcpu_ratio
        most -= most / nodes.pcpus > nodes.vcpu_ratio
    return most


def _on_disks(need: columns.Numbers, room: str) -> _Need:
    return _Need(need, np.where(np.isfinite(need), 0.0, need), (room,))


def _when(counted: columns.Flags, need: columns.Numbers) -> columns.Numbers:
    return np.where(counted, need, NOTHING)


def _merged(found: Iterable[_Need]) -> list[_Need]:
    merged: list[_Need] = []
    for limit in found:
        for number, known in enumerate(merged):
            if np.array_equal(known.need, limit.need) and np.array_equal(known.again, limit.again):
                merged[number] = _Need(known.need, known.again, known.rooms + limit.rooms)
                break
        else:
            merged.append(limit)
    return merged
