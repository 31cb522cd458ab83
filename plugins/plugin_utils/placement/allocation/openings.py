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
    less still; spare: disk (MiB) that stays free; kept: memory (MiB) reserved for primaries on offline nodes;
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
    kept: columns.Numbers
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
        """Count an instance on these nodes; -1 is no node, or one that is offline."""
        self._count(newcomer, primary, secondary, 1)

    def give(self, newcomer: newcomers.Newcomer, *, primary: int, secondary: int = NOWHERE) -> None:
        """Count an instance that was taken no more."""
        self._count(newcomer, primary, secondary, -1)

    def copy(self) -> Openings:
        """The same once more, of which changes are its own."""
        names = [field.name for field in fields(self.nodes) if field.name not in KEPT_WHOLE]
        changing = {name: getattr(self.nodes, name).copy() for name in names[names.index("memory") :]}
        own = {"tags": dict(self.tags), "failing": self.failing.copy()}
        return replace(self, nodes=replace(self.nodes, **changing), **own)  # type: ignore[arg-type] # as their fields

    def _count(self, newcomer: newcomers.Newcomer, primary: int, secondary: int, sign: int) -> None:
        if primary != NOWHERE:
            self._count_primary(newcomer, primary, sign)
            self._count_disk(newcomer, primary, sign)
        if secondary != NOWHERE:
            self._count_disk(newcomer, secondary, sign)
            self._count_copy(newcomer, primary, secondary, sign)

    def _count_primary(self, newcomer: newcomers.Newcomer, node: int, sign: int) -> None:
        nodes, size = self.nodes, newcomer.size
        self.know(newcomer.tags)
        nodes.memory[node] -= sign * size.memory * newcomer.runs
        nodes.memory_expected[node] -= sign * size.memory
        nodes.vcpus[node] += sign * size.vcpus
        nodes.vcpus_expected[node] += sign * size.vcpus
        for kind, load in enumerate(newcomer.load):
            nodes.load[kind, node] += sign * load
        nodes.primaries[node] += sign
        for tag in newcomer.tags:
            nodes.tags[node, self.tags[tag]] += sign
            nodes.real_tags[node, self.tags[tag]] += sign
        if newcomer.desired:
            nodes.location_score[node] += sign * self.missed(newcomer)[node]

    def missed(self, newcomer: newcomers.Newcomer) -> columns.Numbers:
        """By node how many of the locations that an instance wants it is not in."""
        known = [self.locations[location] for location in newcomer.desired if location in self.locations]
        missed: columns.Numbers = len(newcomer.desired) - self.nodes.locations[:, known].sum(axis=1, dtype=float)
        return missed

    def _count_disk(self, newcomer: newcomers.Newcomer, node: int, sign: int) -> None:
        if not newcomer.on_volumes:
            return
        nodes, size = self.nodes, newcomer.size
        nodes.disk[node] -= sign * size.disk
        nodes.disk_expected[node] -= sign * size.disk
        if nodes.exclusive[node]:
            nodes.free_spindles[node] -= sign * (size.spindles or 0)
            nodes.free_spindles_expected[node] -= sign * (size.spindles or 0)
        else:
            nodes.spindles[node] += sign * newcomer.spindle_use
            nodes.spindles_expected[node] += sign * newcomer.spindle_use

    def _count_copy(self, newcomer: newcomers.Newcomer, primary: int, node: int, sign: int) -> None:
        nodes = self.nodes
        nodes.secondaries[node] += sign
        nodes.load[columns.DISK, node] += sign * newcomer.load[columns.DISK]
        kept = newcomer.size.memory * newcomer.reserves
        if primary == NOWHERE:
            return
        nodes.location_score[primary] += sign * self.shared[primary, node]
        nodes.peers[node, primary] += sign * kept
        nodes.reserved[node] = (
            max(nodes.reserved[node], nodes.peers[node, primary])
            if sign > 0
            else max(self.kept[node], nodes.peers[node].max())
        )


def online_nodes(state: State) -> Openings:
    """The online nodes of a state, as a copy of their columns."""
    nodes = state.nodes
    online = np.flatnonzero(~nodes.offline)
    held = nodes.offline
    return Openings(
        nodes=replace(nodes, **{field.name: _only(nodes, field.name, online) for field in fields(nodes)}),
        numbers=online,
        shared=state.shared[np.ix_(online, online)],
        tags={tag: number for number, tag in enumerate(state.tags)},
        locations={tag: number for number, tag in enumerate(state.locations)},
        failing=(nodes.memory <= nodes.reserved)[online],
        short=(nodes.memory < nodes.reserved)[online],
        spare=np.zeros(len(online)),
        kept=nodes.peers[np.ix_(online, np.flatnonzero(held))].max(axis=1, initial=0.0),
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
