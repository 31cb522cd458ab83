"""The opcode that removes a replica which an instance left behind on a node that did not answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from .. import replica_evidence
from ..cluster import cluster as clusters
from ..cluster import left_replicas
from ..disks import replica_texts
from . import contract, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ..cluster.locks import Mode


KEPT = {"kept": True}
"""The result where a rule kept the replica: to ask again is of no use while nothing has changed."""


def refuse_discard(cluster: clusters.Cluster, left: clusters.LeftBehind | None) -> None:
    """Refuse to discard a replica that is being made: its instance may be written to it and not to its secondary.

    Raises:
        Refused: it is one.
    """
    instance = None if left is None else cluster.instances.get(left.instance.uuid)
    if left is not None and left.is_new and instance is not None:
        node, secondary = cluster.node_name(left.node), cluster.node_name(instance.secondary_nodes[0])
        raise errors.Refused(replica_texts.discard_refusal(instance.name, node, secondary))


@dataclass(frozen=True)
class RemoveReplica(contract.PlayOpcode):
    """Remove what an instance left on a node (UUIDs), once its replicas are in sync without it, or it is removed.

    A replica that may hold writes which no other has is kept, unless a person wants to `discard` it; nobody discards
    one that is being made, as its primary may write to it.
    """

    kind: ClassVar[str] = "remove_replica"
    role: ClassVar[str] = "instance"
    instance: str
    node: str
    discard: bool = False

    def time_limit(self, cluster: clusters.Cluster) -> int:
        return time_limits.limit(2 * time_limits.look(), time_limits.disks(self._left(cluster).instance, steps=3))

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        known = cluster.instances.get(self.instance)
        return contract.instance_at(self.instance, (self.node, *(known.nodes if known else ())))

    def moot(self, cluster: clusters.Cluster) -> str:
        if left_replicas.left_behind(cluster, self.instance, self.node) is None:
            return "nothing is left behind there any more"
        known = cluster.instances.get(self.instance)
        if known is not None and self.node in known.nodes:
            return f"nothing is removed: {known.name} has a replica on {cluster.node_name(self.node)} again"
        return ""

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        known = cluster.instances.get(self.instance)
        return [self.node, *([known.primary_node] if known else [])]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        left, known = self._left(cluster), cluster.instances.get(self.instance)
        if self.discard:
            refuse_discard(cluster, left)
        contract.refuse_unreachable(cluster, *self.hosts(cluster))
        self._refuse_namesake(cluster, left.instance)
        return {
            "instance": instance_variables(cluster, left.instance),
            "left_at": contract.node_variables(cluster, self.node),
            "discard": self.discard,
            "look_seconds": math.ceil(time_limits.look()),
            "left_seconds": time_limits.at_disks(left.instance),
            "now": {} if known is None else instance_variables(cluster, known),
            "now_nodes": [] if known is None else [contract.node_variables(cluster, known.primary_node)],
        }

    def outcome(self, value: Any) -> Any:
        return KEPT if isinstance(value, dict) and value.get("kept") is True else None

    def _refuse_namesake(self, cluster: clusters.Cluster, left: clusters.Instance) -> None:
        """DRBD's resources are named after instances: one of another instance may have the name of what was left."""
        names = set(replica_evidence.resources(left))
        for other in cluster.instances.values():
            shared = sorted(names & set(replica_evidence.resources(other)))
            if other.uuid != left.uuid and self.node in other.nodes and shared:
                node = cluster.node_name(self.node)
                raise errors.Refused(
                    f"{other.name} has the DRBD resource {shared[0]} on {node}: what the removed instance of that name "
                    f"left there is kept; move the replica of {other.name} to another node, then retry"
                )

    def _left(self, cluster: clusters.Cluster) -> clusters.LeftBehind:
        found = left_replicas.left_behind(cluster, self.instance, self.node)
        if found is None:
            raise errors.NotFound(f"instance {self.instance} left nothing behind on {cluster.node_name(self.node)}")
        return found
