"""Room: the memory and disk that nodes have left while instances move.

Memory and disk that a move frees are never counted as free: the jobs of a round run in any interleaving, and
the move that frees may be the last of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping

from ...module_utils.domain import cluster as clusters

if TYPE_CHECKING:
    from typing import Sequence

ON_NODE = frozenset({"drbd", "plain", "file"})


@dataclass(eq=False, slots=True)
class NodeRoom:
    """What one node has left (MiB).

    `reserved` is, for each other node, the memory that would start here if that node failed, `peak` the
    largest of them; `returned` is the memory that instances left here which keep a copy: no move may count
    on it, but they can start in it again. N+1 holds while `spare` >= `peak`. `rank` is the place of the
    node's name in natural order.
    """

    uuid: str
    name: str
    rank: int
    mtotal: int
    dtotal: int
    memory: int
    disk: int
    instances: int = 0
    peak: int = 0
    returned: int = 0
    reserved: dict[str, int] = field(default_factory=dict)

    @property
    def spare(self) -> int:
        """The memory that is free for what would start here (MiB)."""
        return self.memory + self.returned

    def holds(self, *, memory: int, disk: int) -> bool:
        """Whether this much more fits; what needs nothing fits even on a node that is overfull."""
        return (memory == 0 or self.memory >= memory) and (disk == 0 or self.disk >= disk)

    def utilisation(self, *, memory: int, disk: int) -> float:
        """The fuller of memory and disk (0..1) with this much more in use."""
        return max(_used(self.memory - memory, self.mtotal), _used(self.disk - disk, self.dtotal))

    def deficits(self) -> dict[str, int]:
        """By failing node, the memory (MiB) that is missing here for what would start."""
        if self.spare >= self.peak:
            return {}
        return {peer: size - self.spare for peer, size in self.reserved.items() if size > self.spare}

    def reserve(self, peer: str, *, memory: int) -> None:
        """Change what would start here if `peer` failed; looks at all peers only when the largest shrinks."""
        before = self.reserved.get(peer, 0)
        self.reserved[peer] = before + memory
        if memory >= 0:
            self.peak = max(self.peak, before + memory)
        elif before == self.peak:
            self.peak = max(self.reserved.values())


def _used(free: int, total: int) -> float:
    return 1.0 - free / total if total else 1.0


class Room:
    """The room of all nodes of a cluster, and the instances that each node holds.

    Building costs O(nodes log nodes + instances). A move costs O(1), amortised; choosing a target looks once
    at each node of a group. Room taken by one evacuation is gone for the next, for as long as both use the
    same value.
    """

    def __init__(self, cluster: clusters.Cluster) -> None:
        ordered = sorted(cluster.nodes.values(), key=lambda one: (clusters.natural(one.name), one.uuid))
        self.nodes: Mapping[str, NodeRoom] = {
            node.uuid: NodeRoom(
                uuid=node.uuid,
                name=node.name,
                rank=rank,
                mtotal=node.mtotal,
                dtotal=node.dtotal,
                memory=node.mtotal - node.mnode,
                disk=node.dtotal,
            )
            for rank, node in enumerate(ordered)
        }
        self._held: dict[str, list[clusters.Instance]] = {}
        for instance in cluster.instances.values():
            self._put(instance)

    def _put(self, instance: clusters.Instance) -> None:
        memory, disk = memory_in_use(instance), disk_per_copy(instance)
        for uuid in instance.nodes:
            self._held.setdefault(uuid, []).append(instance)
            if uuid in self.nodes:
                self.nodes[uuid].disk -= disk
                self.nodes[uuid].instances += 1
        if instance.primary_node in self.nodes:
            self.nodes[instance.primary_node].memory -= memory
        self._reserve(instance.primary_node, instance.secondary_nodes, memory=memory)

    def held(self, node: str) -> Sequence[clusters.Instance]:
        """The instances with a copy on a node (UUID) when the room was built, in no order."""
        return self._held.get(node, ())

    def move(self, instance: clusters.Instance, *, primary: str, secondaries: tuple[str, ...]) -> None:
        """Take an instance's room at its new nodes; what it leaves stays taken, but is no longer reserved.

        `instance` is as the cluster has it, and is moved at most once. Where its old primary becomes a
        secondary, what it leaves there is returned, for it to start in again.
        """
        memory, disk = memory_in_use(instance), disk_per_copy(instance)
        if primary != instance.primary_node:
            self.nodes[primary].memory -= memory
        if instance.primary_node in secondaries and instance.primary_node in self.nodes:
            self.nodes[instance.primary_node].returned += memory
        for uuid in {primary, *secondaries}.difference(instance.nodes):
            self.nodes[uuid].disk -= disk
            self.nodes[uuid].instances += 1
        self._reserve(instance.primary_node, instance.secondary_nodes, memory=-memory)
        self._reserve(primary, secondaries, memory=memory)

    def _reserve(self, primary: str, secondaries: tuple[str, ...], *, memory: int) -> None:
        if memory == 0 or primary not in self.nodes:
            return
        for uuid in secondaries:
            if uuid in self.nodes and uuid != primary:
                self.nodes[uuid].reserve(primary, memory=memory)


def memory_in_use(instance: clusters.Instance) -> int:
    """The memory (MiB) that an instance takes on its primary: none while it is down."""
    return instance.memory if instance.is_up else 0


def disk_per_copy(instance: clusters.Instance) -> int:
    """The disk (MiB) that each copy of an instance takes on its node: none where the disks are elsewhere."""
    return instance.disk_size if instance.disk_template in ON_NODE else 0
