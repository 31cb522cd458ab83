"""Room: the memory, disk and virtual CPUs that nodes have left while instances move.

What a move frees is never counted as free: the jobs of a round run in any interleaving, and the move that frees may be
the last of all. What jobs use that were submitted before, and have not ended, is taken on both sides: it is unknown how
they end.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping, TypeVar

from ..placement.models import tags
from . import configured, unfinished
from .holdings import disk_per_copy, memory_in_use

if TYPE_CHECKING:
    from typing import Collection, Iterable, Sequence

    from ..cluster import cluster as clusters
    from .prospects import Prospects

Item = TypeVar("Item")
NOTHING_CLAIMED = unfinished.Claims()


@dataclass(eq=False, slots=True)
class NodeRoom:
    """What one node has left (MiB).

    `vcpus` are the virtual CPUs that its policy leaves; `excluded`
    are the exclusion tags of what runs or will run here. `reserved` is, for each other node, the memory that would
    start here if that node failed, `peak` the largest of them; `returned` is the memory that instances left here which
    keep a replica: no move may count on it, but they can start in it again. N+1 holds while `spare` >= `peak`. `rank`
    is the place of the node's name in natural order.
    """

    uuid: str
    name: str
    rank: int
    memory: int
    disk: int
    vcpus: float
    excluded: set[str] = field(default_factory=set)
    instances: int = 0
    peak: int = 0
    returned: int = 0
    reserved: dict[str, int] = field(default_factory=dict)

    @property
    def spare(self) -> int:
        """The memory that is free for what would start here (MiB)."""
        return self.memory + self.returned

    def has_room(self, *, memory: int, disk: int) -> bool:
        """Whether this much more fits; what needs nothing fits even on a node that is overfull."""
        return (memory == 0 or self.memory >= memory) and (disk == 0 or self.disk >= disk)

    def runs(self, *, vcpus: int, excluded: Collection[str]) -> bool:
        """Whether its policy has so many virtual CPUs left, and nothing with one of these exclusion tags is here."""
        return (vcpus == 0 or self.vcpus >= vcpus) and self.excluded.isdisjoint(excluded)

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


class Room:
    """The room of all nodes of a cluster, and the instances that each node holds.

    Building costs O(nodes log nodes + instances). A move costs O(1), amortised; choosing a target looks once
    at each node of a group. Room taken by one evacuation is gone for the next, for as long as both use the
    same value. `places` says of the instances (UUID) that moved which primary and secondaries they have now, of those
    that unfinished jobs claim where they end.
    """

    def __init__(self, cluster: clusters.Cluster, claims: unfinished.Claims = NOTHING_CLAIMED) -> None:
        self._cluster = cluster
        frame = configured.model_of(dataclasses.replace(cluster, instances={}))
        ratios = {group.uuid: group.policy.vcpu_ratio for group in frame.groups}
        uuids = {node.name: node.uuid for node in cluster.nodes.values()}
        self.nodes: Mapping[str, NodeRoom] = {
            uuids[node.name]: NodeRoom(
                uuid=uuids[node.name],
                name=node.name,
                rank=rank,
                memory=node.f_mem,
                disk=node.f_disk,
                vcpus=ratios[node.group] * node.pcpus - node.os_vcpus,
            )
            for rank, node in enumerate(frame.nodes)
        }
        prefixes = tags.exclusion_prefixes(frame.tags)
        self._exclusion = {each.uuid: tags.beginning(each.tags, prefixes) for each in cluster.instances.values()}
        self._migration = dict(zip(self.nodes, tags.migration(frame), strict=True))
        self.places: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._held: dict[str, list[clusters.Instance]] = {}
        for instance in cluster.instances.values():
            self._put(instance)
        for stations in claims.stations.values():
            self._keep(stations)

    def _keep(self, stations: Sequence[clusters.Instance]) -> None:
        """Take the room of an instance wherever unfinished jobs may leave it, beside the first, where it is."""
        instance, last = stations[0], stations[-1]
        memory, disk = memory_in_use(instance), disk_per_copy(instance)
        for uuid in _others((station.primary_node,) for station in stations):
            self.nodes[uuid].memory -= memory
            self._take_primary(instance, uuid)
        for uuid in _others(station.nodes for station in stations):
            self._held.setdefault(uuid, []).append(instance)
            self.nodes[uuid].disk -= disk
            self.nodes[uuid].instances += 1
        keeps_replica = any(instance.primary_node in station.secondary_nodes for station in stations)
        if keeps_replica and instance.primary_node in self.nodes:
            self.nodes[instance.primary_node].returned += memory
        for pair in _others(_pairs(station) for station in stations):
            self._reserve(pair[0], pair[1:], memory=memory)
        self.places[instance.uuid] = (last.primary_node, last.secondary_nodes)

    def _put(self, instance: clusters.Instance) -> None:
        memory, disk = memory_in_use(instance), disk_per_copy(instance)
        for uuid in instance.nodes:
            self._held.setdefault(uuid, []).append(instance)
            if uuid in self.nodes:
                self.nodes[uuid].disk -= disk
                self.nodes[uuid].instances += 1
        if instance.primary_node in self.nodes:
            self.nodes[instance.primary_node].memory -= memory
            self._take_primary(instance, instance.primary_node)
        self._reserve(instance.primary_node, instance.secondary_nodes, memory=memory)

    def _take_primary(self, instance: clusters.Instance, node: str) -> None:
        self.nodes[node].vcpus -= instance.vcpus
        self.nodes[node].excluded.update(self.exclusion_tags(instance))

    @functools.cached_property
    def prospects(self) -> Prospects:
        """The scores after further moves; made when the first target is to be chosen."""
        from .prospects import Prospects  # noqa: PLC0415 - NumPy, for those who choose targets

        made = Prospects(self._cluster)
        for uuid, (primary, secondaries) in self.places.items():
            made.move(self._cluster.instances[uuid], primary=primary, secondaries=secondaries)
        return made

    def exclusion_tags(self, instance: clusters.Instance) -> tuple[str, ...]:
        """Of its tags those that keep it from running beside another instance with the same one."""
        return self._exclusion[instance.uuid]

    def receives(self, source: str, target: str) -> bool:
        """Whether an instance may migrate live between two nodes (UUIDs), as their migration tags say."""
        return self._migration[source][0] <= self._migration[target][1]

    def held(self, node: str) -> Sequence[clusters.Instance]:
        """The instances with a replica on a node (UUID) when the room was built, or soon, in no order."""
        return self._held.get(node, ())

    def move(self, instance: clusters.Instance, *, primary: str, secondaries: tuple[str, ...]) -> None:
        """Take an instance's room at its new nodes; what it leaves stays taken, but is no longer reserved.

        `instance` is as the cluster has it, and is moved at most once. Where its old primary becomes a
        secondary, what it leaves there is returned, for it to start in again.
        """
        memory, disk = memory_in_use(instance), disk_per_copy(instance)
        if primary != instance.primary_node:
            self.nodes[primary].memory -= memory
            self._take_primary(instance, primary)
        if instance.primary_node in secondaries and instance.primary_node in self.nodes:
            self.nodes[instance.primary_node].returned += memory
        for uuid in {primary, *secondaries}.difference(instance.nodes):
            self.nodes[uuid].disk -= disk
            self.nodes[uuid].instances += 1
        self._reserve(instance.primary_node, instance.secondary_nodes, memory=-memory)
        self._reserve(primary, secondaries, memory=memory)
        self.places[instance.uuid] = (primary, secondaries)
        if "prospects" in self.__dict__:
            self.prospects.move(instance, primary=primary, secondaries=secondaries)

    def _reserve(self, primary: str, secondaries: tuple[str, ...], *, memory: int) -> None:
        if memory == 0 or primary not in self.nodes:
            return
        for uuid in secondaries:
            if uuid in self.nodes and uuid != primary:
                self.nodes[uuid].reserve(primary, memory=memory)


def _pairs(instance: clusters.Instance) -> tuple[tuple[str, str], ...]:
    return tuple((instance.primary_node, uuid) for uuid in instance.secondary_nodes)


def _others(stations: Iterable[Iterable[Item]]) -> list[Item]:
    """What comes after the first station, each once, and is not in it."""
    first, *more = (tuple(station) for station in stations)
    return [item for item in dict.fromkeys(item for station in more for item in station) if item not in first]
