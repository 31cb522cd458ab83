"""The state of a search: a whole cluster in columns (`columns.py`), and instances that move in it.

Made once from a `model.Model`, then changed move by move; nothing here decides or refuses. A move costs O(N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..models import tags
from . import columns, settling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..models import model

NOWHERE = columns.NOWHERE
FREED, TAKEN = -1.0, 1.0


@dataclass(frozen=True)
class Undo:
    """Where an instance was before a move."""

    instance: int
    primary: int
    secondary: int


@dataclass(eq=False, slots=True)
class State:
    """Nodes and instances as they are now.

    shared[n, m]: how many locations the nodes have in common; tags, locations: names of the columns of `nodes.tags`
    and `nodes.locations`; by_instance: index by name; f_mem: what nodes would report as free without instances.
    """

    cluster: model.Model
    nodes: columns.Nodes
    instances: columns.Instances
    tags: list[str]
    locations: list[str]
    by_instance: dict[str, int]
    shared: columns.Numbers
    f_mem: columns.Numbers

    def move(self, instance: int, *, primary: int, secondary: int) -> Undo:
        """Put an instance on these nodes, whether it fits or not; -1 is no secondary."""
        held = self.instances
        undo = Undo(instance, int(held.primary[instance]), int(held.secondary[instance]))
        self.count(instance, FREED)
        held.primary[instance], held.secondary[instance] = primary, secondary
        self.count(instance, TAKEN)
        for node in {undo.secondary, secondary} - {NOWHERE}:
            self.rank(node)
        return undo

    def undo(self, undo: Undo) -> None:
        """Put an instance back where it was."""
        self.move(undo.instance, primary=undo.primary, secondary=undo.secondary)

    def placement(self) -> dict[str, tuple[str, str]]:
        """By instance its primary and secondary, "" for none."""
        names = [*self.nodes.names, ""]
        pairs = zip(self.instances.primary.tolist(), self.instances.secondary.tolist(), strict=True)
        return {
            name: (names[first], names[second]) for name, (first, second) in zip(self.by_instance, pairs, strict=True)
        }

    def count(self, instance: int, sign: float) -> None:
        """Take an instance into account where it is (+1), or no more (-1)."""
        held = self.instances
        primary, secondary = int(held.primary[instance]), int(held.secondary[instance])
        self._count_primary(instance, primary, secondary, sign)
        self._count_disks(instance, primary, sign)
        if secondary != NOWHERE:
            self._count_disks(instance, secondary, sign)
            self._count_secondary(instance, primary, secondary, sign)

    def _count_primary(self, instance: int, node: int, secondary: int, sign: float) -> None:
        nodes, held = self.nodes, self.instances
        nodes.memory_expected[node] -= sign * held.memory[instance]
        nodes.vcpus_expected[node] += sign * held.vcpus[instance]
        np.add.at(nodes.tags[node], held.tags[instance], sign)
        if not held.real[instance]:
            return
        np.add.at(nodes.real_tags[node], held.tags[instance], sign)
        nodes.memory[node] -= sign * held.started[instance]
        nodes.vcpus[node] += sign * held.vcpus[instance]
        nodes.load[:, node] += sign * held.load[:, instance]
        nodes.primaries[node] += sign
        missed = held.wanted[instance] - np.count_nonzero(held.desired[instance] & nodes.locations[node])
        together = self.shared[node, secondary] if secondary != NOWHERE else 0.0
        nodes.location_score[node] += sign * (missed + together)

    def _count_disks(self, instance: int, node: int, sign: float) -> None:
        nodes, held = self.nodes, self.instances
        spindles = held.own_spindles[instance]
        use = 0.0 if nodes.exclusive[node] else held.spindle_use[instance]
        nodes.disk_expected[node] -= sign * held.disk[instance]
        nodes.free_spindles_expected[node] -= sign * spindles
        nodes.spindles_expected[node] += sign * use
        if held.real[instance]:
            nodes.disk[node] -= sign * held.disk[instance]
            nodes.free_spindles[node] -= sign * spindles
            nodes.spindles[node] += sign * use

    def _count_secondary(self, instance: int, primary: int, node: int, sign: float) -> None:
        nodes, held = self.nodes, self.instances
        if not held.real[instance]:
            return
        nodes.secondaries[node] += sign
        nodes.load[columns.DISK, node] += sign * held.load[columns.DISK, instance]
        nodes.peers[node, primary] += sign * held.reserved[instance]

    def rank(self, node: int) -> None:
        """Find again what is reserved on a node."""
        nodes, row = self.nodes, self.nodes.peers[node]
        top = int(row.argmax())
        nodes.reserved_for[node], nodes.reserved[node] = top, row[top]
        others = np.concatenate((row[:top], row[top + 1 :]))
        nodes.reserved_next[node] = others.max(initial=0.0)


def build(cluster: model.Model) -> State:
    """The state of a cluster as its source says it; O(nodes² + instances)."""
    steering = tags.steering(cluster)
    tag_ids = _ids(tag for mine in steering.exclusion for tag in mine)
    location_ids = _ids(tag for mine in steering.locations for tag in sorted(mine))
    nodes = columns.nodes_of(cluster, steering, tag_ids=tag_ids, location_ids=location_ids)
    instances = columns.instances_of(cluster, steering, tag_ids=tag_ids, location_ids=location_ids)
    placed = nodes.locations.astype(float)
    found = State(
        cluster,
        nodes,
        instances,
        list(tag_ids),
        list(location_ids),
        by_instance={name: number for number, name in enumerate(instances.names)},
        shared=placed @ placed.T,
        f_mem=nodes.memory_expected + settling.by_node(instances.primary, instances.started, len(nodes.names)),
    )
    settling.settle(nodes, instances, shared=found.shared, f_mem=found.f_mem)
    return found


def _ids(tags_in_order: Iterable[str]) -> dict[str, int]:
    return {tag: number for number, tag in enumerate(dict.fromkeys(tags_in_order))}
