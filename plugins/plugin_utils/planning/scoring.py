"""Ganeti's score of a state, exactly recomputed from its columns in O(nodes): what `oracle.py` says, to the last bit.

The score of a group is over its nodes; spreads are standard deviations over those that are online.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import columns, oracle

if TYPE_CHECKING:
    from . import state as states

CPU, MEMORY, DISK, NET = range(len(columns.LOADS))


@dataclass(frozen=True, eq=False)
class Scope:
    """The nodes that a score is about: `everyone` of a group, and those of them that are `online`."""

    everyone: columns.Indices
    online: columns.Indices


def scope(state: states.State, *, group: str | None = None) -> Scope:
    """The nodes of a group by its name, or all of them."""
    nodes = state.nodes
    wanted = np.ones(len(nodes.names), dtype=bool)
    if group is not None:
        wanted = nodes.group == [one.name for one in state.cluster.groups].index(group)
    return Scope(np.flatnonzero(wanted), np.flatnonzero(wanted & ~nodes.offline))


def score(state: states.State, where: Scope) -> float:
    """The sum of the weighted components; less is better."""
    return oracle.total(components(state, where))


def components(state: states.State, where: Scope) -> dict[str, float]:
    """By name the 20 components, in the oracle's order."""
    nodes, online = state.nodes, where.online
    offline = where.everyone[nodes.offline[where.everyone]]
    held = nodes.primaries + nodes.secondaries
    values = {name: _deviation(ratio[online]) for name, ratio in spreads(nodes).items()}
    values["n1_cnt"] = float(held[online[nodes.memory[online] <= nodes.reserved[online]]].sum())
    values["reserved_mem_rtotal"] = _sum(ratio_of(nodes.reserved, nodes.t_mem)[online])
    values["offline_all_cnt"] = float(held[offline].sum())
    values["offline_pri_cnt"] = float(nodes.primaries[offline].sum())
    values["pri_tags_score"] = repeated(nodes.tags[online])
    values["location_score"] = float(nodes.location_score[online].sum())
    values["location_exclusion_score"] = repeated(pairs(state, where))
    return {name: values[name] for name in oracle.WEIGHTS}


def spreads(nodes: columns.Nodes) -> dict[str, columns.Numbers]:
    """By component the value of each node, for those that are a standard deviation."""
    disk = ratio_of(nodes.disk, nodes.t_disk, without=1.0)
    disk_expected = ratio_of(nodes.disk_expected, nodes.t_disk, without=1.0)
    if nodes.exclusive.any():
        own = ratio_of(nodes.free_spindles, nodes.t_spindles, without=1.0)
        own_expected = ratio_of(nodes.free_spindles_expected, nodes.t_spindles, without=1.0)
        disk, disk_expected = (
            np.where(nodes.exclusive, own, disk),
            np.where(nodes.exclusive, own_expected, disk_expected),
        )
    return {
        "free_mem_cv": ratio_of(nodes.memory, nodes.t_mem),
        "free_disk_cv": disk,
        "reserved_mem_cv": ratio_of(nodes.reserved, nodes.t_mem),
        "vcpu_ratio_cv": ratio_of(ratio_of(nodes.vcpus, nodes.pcpus), nodes.cpu_speed),
        "cpu_load_cv": nodes.load[CPU],
        "mem_load_cv": nodes.load[MEMORY],
        "disk_load_cv": nodes.load[DISK],
        "net_load_cv": nodes.load[NET],
        "spindles_cv": ratio_of(nodes.spindles, nodes.spindle_limit),
        "free_mem_cv_forth": ratio_of(nodes.memory_expected, nodes.t_mem),
        "free_disk_cv_forth": disk_expected,
        "vcpu_ratio_cv_forth": ratio_of(ratio_of(nodes.vcpus_expected, nodes.pcpus), nodes.cpu_speed),
        "spindles_cv_forth": ratio_of(nodes.spindles_expected, nodes.spindle_limit),
    }


def pairs(state: states.State, where: Scope) -> columns.Numbers:
    """Locations x exclusion tags: how many primaries with the tag are on online nodes of the location."""
    nodes, online = state.nodes, where.online
    return np.asarray(nodes.locations[online].T.astype(float) @ nodes.real_tags[online])


def repeated(counts: columns.Numbers) -> float:
    """How many there are beyond the first of each."""
    return float(np.maximum(counts - 1, 0).sum())


def ratio_of(part: columns.Numbers, whole: columns.Numbers, *, without: float = 0.0) -> columns.Numbers:
    """Part by whole, `without` where there is no whole."""
    return np.asarray(np.divide(part, whole, out=np.full(len(part), without), where=whole != 0))


def _deviation(values: columns.Numbers) -> float:
    if not len(values):
        return 0.0
    centred = values - _sum(values) / len(values)
    return math.sqrt(_sum(centred * centred) / len(values))


def _sum(values: columns.Numbers) -> float:
    """Added one after the other, as the oracle does: NumPy's own sum adds in pairs."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0
