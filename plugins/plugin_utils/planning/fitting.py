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

    from . import columns
    from . import state as states

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


def of(state: states.State) -> Fitting:
    """The checks as the state is now; O(nodes + instances)."""
    nodes, held = state.nodes, state.instances
    failing = nodes.memory <= nodes.reserved
    memory, expected = nodes.memory - 1, nodes.memory_expected - 1
    started, kept = _when(held.real, held.started), _when(held.real, held.kept)
    hard, soft = _disks(state)
    free = Limit(started, started, memory)
    unharmed = Limit(started, started, np.where(failing, memory, memory - nodes.reserved))
    run = [Limit(held.memory, held.memory, expected), *_vcpus(state), *soft]
    freed = [Limit(kept, kept - held.started, memory), Limit(held.kept, held.kept - held.memory, expected)]
    still = [Limit(kept, kept, memory), Limit(held.kept, held.kept, expected)]
    secondary = Role(hard, _merged([*still, *soft]))
    return Fitting(
        failing,
        primary=Role([free, *hard], _merged([unharmed, *run])),
        secondary=secondary,
        promoted=Role([free, *hard], _merged([free, *run])),
        demoted=Role(hard, _merged([*freed, *soft])),
        stays=secondary,
    )


def _disks(state: states.State) -> tuple[list[Limit], list[Limit]]:
    """Volumes, spindles of exclusive storage, and how busy shared spindles may be; hard ones, and soft ones."""
    nodes, held = state.nodes, state.instances
    hard: list[Limit] = []
    soft: list[Limit] = []
    for real, disk, free, used in (
        (held.real, nodes.disk, nodes.free_spindles, nodes.spindles),
        (np.ones_like(held.real), nodes.disk_expected, nodes.free_spindles_expected, nodes.spindles_expected),
    ):
        counted = held.on_volumes & real
        limits = [_on_disks(_when(counted, held.disk), disk - 1)]
        if nodes.exclusive.any():
            own = np.where(np.isnan(held.spindles), NEVER, held.spindles)
            limits.append(_on_disks(_when(counted, own), np.where(nodes.exclusive, free, NEVER)))
        hard = hard or limits
        room = np.where(nodes.exclusive, NEVER, nodes.spindle_limit - used)
        soft += [*limits, _on_disks(_when(counted, held.spindle_use), room)]
    return hard, soft


def _vcpus(state: states.State) -> list[Limit]:
    """A node's CPUs times the ratio of its policy are the most vcpus that it may run."""
    nodes, held = state.nodes, state.instances
    most = np.floor(nodes.vcpu_ratio * nodes.pcpus) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        most -= most / nodes.pcpus > nodes.vcpu_ratio
        most -= most / nodes.pcpus > nodes.vcpu_ratio
    real = _when(held.real, held.vcpus)
    return [Limit(real, real, most - nodes.vcpus), Limit(held.vcpus, held.vcpus, most - nodes.vcpus_expected)]


def _on_disks(need: columns.Numbers, room: columns.Numbers) -> Limit:
    return Limit(need, np.where(np.isfinite(need), 0.0, need), room)


def _when(counted: columns.Flags, need: columns.Numbers) -> columns.Numbers:
    return np.where(counted, need, NOTHING)


def _merged(limits: Iterable[Limit]) -> list[Limit]:
    """Limits of the same need are one: the smaller room."""
    found: list[Limit] = []
    for limit in limits:
        for number, one in enumerate(found):
            if np.array_equal(one.need, limit.need) and np.array_equal(one.again, limit.again):
                found[number] = Limit(one.need, one.again, np.minimum(one.room, limit.room))
                break
        else:
            found.append(limit)
    return found
