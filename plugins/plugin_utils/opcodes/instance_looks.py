"""The opcode that looks for an instance, and records where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..cluster import cluster as clusters
from ..cluster import known_off
from . import contract, instance_moves, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..cluster.locks import Mode


@dataclass(frozen=True)
class FindInstance(contract.LookOpcode):
    """See on which of some nodes (UUIDs) an instance runs, record it as its primary, and let only it write the disks.

    Nothing is started or fenced; a migration that goes on is aborted at its limit. It is done after a run was lost, and
    again once the nodes answer.
    """

    kind: ClassVar[str] = "find_instance"
    role: ClassVar[str] = "instance"
    instance: str
    nodes: tuple[str, ...]

    def time_limit(self, cluster: clusters.Cluster) -> int:
        # A migration whose play was killed goes on in libvirt, and is waited for.
        known, count = cluster.instance(self.instance), len(self.nodes)
        return time_limits.limit(time_limits.find(known, nodes=count), time_limits.disks(known, steps=2 * count))

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"instance/{self.instance}": contract.EXCLUSIVE}

    def moot(self, cluster: clusters.Cluster) -> str:
        return "" if self.instance in cluster.instances else instance_moves.removed_meanwhile(self.instance)

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return [uuid for uuid in self._there(cluster) if clusters.reachable(cluster, cluster.nodes[uuid])]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        return {
            "instance": instance_variables(cluster, instance),
            "nodes": [contract.node_variables(cluster, uuid) for uuid in self.hosts(cluster)],
            "members": [
                contract.node_variables(cluster, uuid) for uuid in self.hosts(cluster) if uuid in instance.nodes
            ],
            "known": list(instance.nodes),
            "known_off": [uuid for uuid in self._there(cluster) if known_off.is_known_off(cluster.nodes[uuid])],
            "unfinished": bool(instance.moving),
            "unasked": [cluster.node_name(uuid) for uuid in self._there(cluster) if uuid not in self.hosts(cluster)],
        }

    def _there(self, cluster: clusters.Cluster) -> list[str]:
        """Those of its nodes that are in the cluster."""
        return [uuid for uuid in self.nodes if uuid in cluster.nodes]

    def about(self) -> tuple[str, ...]:
        return (self.instance,)

    def told(self, cluster: clusters.Cluster) -> str:
        instance = cluster.instance(self.instance)
        return f"{instance.name} runs on {cluster.node_name(instance.primary_node)}"


def opcode(cluster: clusters.Cluster, uuid: str, *, beside: Iterable[str] = ()) -> FindInstance:
    """The opcode that looks for an instance on its nodes, and on those beside them that are in the cluster."""
    instance = cluster.instance(uuid)
    nodes = dict.fromkeys([*instance.nodes, *instance.places, *beside])
    return FindInstance(uuid, tuple(node for node in nodes if node in cluster.nodes))
