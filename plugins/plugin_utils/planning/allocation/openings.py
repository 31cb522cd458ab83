"""The online nodes as a new instance finds them, and what is left of them once it is there.

Node indices here count online nodes only; `numbers` gives those of the state. A new instance runs and is real.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..score import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..score.state import State
    from . import newcomers

NOWHERE = columns.NOWHERE
KEPT_WHOLE = ("names", "index")
BY_PAIR = ("peers", "receives")


@dataclass(eq=False, slots=True)
class Openings:
    """The columns of the online nodes, a copy that changes with each instance taken in.

    failing: nodes that already have no more memory than what may start there; short: those that have less, and may get
    less still; spare: disk (MiB) that stays free;
    offline_all, offline_primaries: instances on offline nodes (both roles, primaries), which nothing here changes.
    """

    nodes: columns.Nodes
    numbers: columns.Indices
    shared: columns.Numbers
    tags: dict[str, int]
    locations: Mapping[str, int]
    failing: columns.Flags
    short: columns.Flags
    spare: columns.Numbers
    offline_all: float
    offline_primaries: float

    def know(self, tags: Iterable[str]) -> None:
        """Give exclusion tags that no instance had so far a column of their own."""
        for tag in tags:
            if tag not in self.tags:
                self.tags[tag] = len(self.tags)
                none = np.zeros(len(self.numbers))
                self.nodes.tags = np.column_stack((self.nodes.tags, none))
                self.nodes.real_tags = np.column_stack((self.nodes.real_tags, none))

    def take(self, newcomer: newcomers.Newcomer, *, primary: int, secondary: int = NOWHERE) -> None:
        """Count a new instance on these nodes; -1 is no secondary."""
        nodes, size = self.nodes, newcomer.size
        self.know(newcomer.tags)
        nodes.memory[primary] -= size.memory
        nodes.memory_expected[primary] -= size.memory
        nodes.vcpus[primary] += size.vcpus
        nodes.vcpus_expected[primary] += size.vcpus
        nodes.load[:, primary] += newcomer.load
        nodes.primaries[primary] += 1
        for tag in newcomer.tags:
            nodes.tags[primary, self.tags[tag]] += 1
            nodes.real_tags[primary, self.tags[tag]] += 1
        if newcomer.desired:
            nodes.location_score[primary] += self.missed(newcomer)[primary]
        self._take_disk(newcomer, primary)
        if secondary != NOWHERE:
            nodes.location_score[primary] += self.shared[primary, secondary]
            self._take_disk(newcomer, secondary)
            self._take_copy(newcomer, primary, secondary)

    def missed(self, newcomer: newcomers.Newcomer) -> columns.Numbers:
        """By node how many of the locations that an instance wants it is not in."""
        known = [self.locations[one] for one in newcomer.desired if one in self.locations]
        missed: columns.Numbers = len(newcomer.desired) - self.nodes.locations[:, known].sum(axis=1, dtype=float)
        return missed

    def _take_disk(self, newcomer: newcomers.Newcomer, node: int) -> None:
        if not newcomer.on_volumes:
            return
        nodes, size = self.nodes, newcomer.size
        nodes.disk[node] -= size.disk
        nodes.disk_expected[node] -= size.disk
        if nodes.exclusive[node]:
            nodes.free_spindles[node] -= size.spindles or 0
            nodes.free_spindles_expected[node] -= size.spindles or 0
        else:
            nodes.spindles[node] += newcomer.spindle_use
            nodes.spindles_expected[node] += newcomer.spindle_use

    def _take_copy(self, newcomer: newcomers.Newcomer, primary: int, node: int) -> None:
        nodes = self.nodes
        nodes.secondaries[node] += 1
        nodes.load[columns.DISK, node] += newcomer.load[columns.DISK]
        nodes.peers[node, primary] += newcomer.size.memory * newcomer.reserves
        nodes.reserved[node] = max(nodes.reserved[node], nodes.peers[node, primary])


def of(state: State) -> Openings:
    """The online nodes of a state, as a copy of their columns."""
    nodes = state.nodes
    online = np.flatnonzero(~nodes.offline)
    held = nodes.offline
    return Openings(
        nodes=replace(nodes, **{one.name: _only(nodes, one.name, online) for one in fields(nodes)}),
        numbers=online,
        shared=state.shared[np.ix_(online, online)],
        tags={tag: number for number, tag in enumerate(state.tags)},
        locations={tag: number for number, tag in enumerate(state.locations)},
        failing=(nodes.memory <= nodes.reserved)[online],
        short=(nodes.memory < nodes.reserved)[online],
        spare=np.zeros(len(online)),
        offline_all=float((nodes.primaries + nodes.secondaries)[held].sum()),
        offline_primaries=float(nodes.primaries[held].sum()),
    )


def _only(nodes: columns.Nodes, name: str, online: columns.Indices) -> Any:
    value = getattr(nodes, name)
    if name in KEPT_WHOLE:
        return value
    if name in BY_PAIR:
        return value[np.ix_(online, online)]
    return value[:, online] if name == "load" else value[online]
