"""Ganeti's score of a state, exactly recomputed from its columns in O(nodes): what `oracle.py` says, to the last bit.

The score of a group is over its nodes; spreads are standard deviations over those that are online.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import columns, oracle

if TYPE_CHECKING:
    from collections.abc import Collection

    from . import state as states

CPU, MEMORY, DISK, NET = range(len(columns.LOADS))


@dataclass(frozen=True, eq=False)
class Scope:
    """The nodes that a score is about: `everyone` of a group, and those of them that are `online`."""

    everyone: columns.Indices
    online: columns.Indices


def scope(state: states.State, *, group: str | None = None, without: Collection[str] = ()) -> Scope:
    """The nodes of a group by its name, or all of them; `without` are names of nodes that are left out."""
    nodes = state.nodes
    wanted = np.ones(len(nodes.names), dtype=bool)
    if group is not None:
        wanted = nodes.group == [each.name for each in state.cluster.groups].index(group)
    if without:
        wanted &= [name not in without for name in nodes.names]
    return Scope(np.flatnonzero(wanted), np.flatnonzero(wanted & ~nodes.offline))


def score(state: states.State, where: Scope) -> float:
    """The sum of the weighted components; less is better."""
    return oracle.total(components(state, where))


def components(state: states.State, where: Scope) -> dict[str, float]:
    """By name the 20 components, in the oracle's order."""
    nodes, online = state.nodes, where.online
    offline = where.everyone[nodes.offline[where.everyone]]
    held = nodes.primaries + nodes.secondaries
    values = dict(zip(SPREADS, deviations(spreads(nodes)[:, online]).tolist(), strict=True))
    values["n1_cnt"] = float(held[online[nodes.memory[online] <= nodes.reserved[online]]].sum())
    values["reserved_mem_rtotal"] = _sum(ratio_of(nodes.reserved, nodes.t_mem)[online])
    values["offline_all_cnt"] = float(held[offline].sum())
    values["offline_pri_cnt"] = float(nodes.primaries[offline].sum())
    values["pri_tags_score"] = repeated(nodes.tags[online])
    values["location_score"] = float(nodes.location_score[online].sum())
    values["location_exclusion_score"] = repeated(pairs(state, where))
    return {name: values[name] for name in oracle.WEIGHTS}


SPREADS = (
    *("free_mem_cv", "reserved_mem_cv", "free_mem_cv_forth", "vcpu_ratio_cv", "vcpu_ratio_cv_forth"),
    *("spindles_cv", "spindles_cv_forth", "free_disk_cv", "free_disk_cv_forth"),
    *("cpu_load_cv", "mem_load_cv", "disk_load_cv", "net_load_cv"),
)
"""The components that are a standard deviation over nodes, as rows of `spreads`."""


def spreads(nodes: columns.Nodes) -> columns.Numbers:
    """The value of each node (columns) for the components of `SPREADS` (rows)."""
    own = nodes.exclusive
    disk = np.where(own, nodes.free_spindles, nodes.disk)
    expected = np.where(own, nodes.free_spindles_expected, nodes.disk_expected)
    there = np.where(own, nodes.t_spindles, nodes.t_disk)
    part = np.stack((
        *(nodes.memory, nodes.reserved, nodes.memory_expected, nodes.vcpus, nodes.vcpus_expected),
        *(nodes.spindles, nodes.spindles_expected, disk, expected, *nodes.load),
    ))  # fmt: skip
    whole = np.ones_like(part)
    whole[:3], whole[3:5], whole[5:7], whole[7:9] = nodes.t_mem, nodes.pcpus, nodes.spindle_limit, there
    found = np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
    found[3:5] /= np.where(nodes.cpu_speed == 0, 1.0, nodes.cpu_speed)
    found[7:9, there == 0] = 1.0
    return np.asarray(found)


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


def deviations(values: columns.Numbers) -> columns.Numbers:
    """The standard deviation of each row, 0 of no nodes."""
    count = values.shape[1]
    if not count:
        return np.zeros(len(values))
    centred = values - np.add.accumulate(values, axis=1)[:, -1:] / count
    return np.asarray(np.sqrt(np.add.accumulate(centred * centred, axis=1)[:, -1] / count))


def _sum(values: columns.Numbers) -> float:
    """Added one after the other, as the oracle does: NumPy's own sum adds in pairs."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0
