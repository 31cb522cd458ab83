"""What each node of a cluster holds, found in one pass over its instances: O(nodes + instances) for all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ON_NODE = frozenset({"drbd", "plain", "file"})
"""The disk templates whose replicas take the disk of their node."""


def memory_in_use(instance: clusters.Instance) -> int:
    """The memory (MiB) that an instance takes on its primary: none while it is down, unless it is being made."""
    return instance.memory if instance.takes_memory else 0


def disk_per_copy(instance: clusters.Instance) -> int:
    """The disk (MiB) that each replica of an instance takes on its node: none where the disks are elsewhere."""
    return instance.disk_size if instance.disk_template in ON_NODE else 0


class Holdings:
    """The instances of each node (UUID), by name in natural order."""

    def __init__(self, instances: Mapping[str, clusters.Instance]) -> None:
        self.by_name = {instance.name: instance for instance in instances.values()}
        self._primaries: dict[str, list[clusters.Instance]] = {}
        self._secondaries: dict[str, list[clusters.Instance]] = {}
        self._possibly_running: dict[str, list[clusters.Instance]] = {}
        for instance in instances.values():
            self._primaries.setdefault(instance.primary_node, []).append(instance)
            for uuid in instance.places:
                if instance.may_run_on(uuid):
                    self._possibly_running.setdefault(uuid, []).append(instance)
            for uuid in instance.secondary_nodes:
                self._secondaries.setdefault(uuid, []).append(instance)

    def primaries(self, node: str) -> list[clusters.Instance]:
        """The instances whose primary is this node."""
        return _ordered(self._primaries.get(node, []))

    def secondaries(self, node: str) -> list[clusters.Instance]:
        """The instances that keep another replica on this node."""
        return _ordered(self._secondaries.get(node, []))

    def possibly_running(self, node: str) -> list[clusters.Instance]:
        """The instances that shall run and may run on this node."""
        return _ordered(self._possibly_running.get(node, []))

    def memory(self, node: str) -> int:
        """The memory (MiB) of the instances that shall run on this node."""
        return sum(map(memory_in_use, self._primaries.get(node, [])))

    def disk(self, node: str) -> int:
        """The disk (MiB) that all replicas on this node take."""
        held = (*self._primaries.get(node, []), *self._secondaries.get(node, []))
        return sum(disk_per_copy(instance) for instance in held)

    def spindles(self, node: str) -> int:
        """The spindles that the disks on this node have for themselves (exclusive storage)."""
        held = (*self._primaries.get(node, []), *self._secondaries.get(node, []))
        return sum(disk.spindles or 0 for instance in held if disk_per_copy(instance) for disk in instance.disks)


def names(instances: Iterable[clusters.Instance]) -> list[str]:
    """The names of instances, in their order."""
    return [instance.name for instance in instances]


def _ordered(found: list[clusters.Instance]) -> list[clusters.Instance]:
    return sorted(found, key=lambda instance: clusters.natural(instance.name))
