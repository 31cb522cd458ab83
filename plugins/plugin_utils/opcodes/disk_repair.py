"""The opcodes that repair the replicated disks of an instance, and that outdate a replica which is stale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from .. import replica_evidence
from . import contract, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ..cluster import cluster as clusters
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class RepairDisks(contract.PlayOpcode):
    """Repair the DRBD disks of an instance as far as the table of repairs allows; its nodes stay what they are.

    `discard` is the node (UUID) whose writes since a split brain a person gives up.
    """

    kind: ClassVar[str] = "repair_disks"
    role: ClassVar[str] = "repair"
    instance: str
    discard: str = ""

    def time_limit(self, cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.repair(cluster.instance(self.instance)))

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, cluster.instance(self.instance).nodes)

    def moot(self, cluster: clusters.Cluster) -> str:
        instance = cluster.instance(self.instance)
        return "" if instance.disk_template == "drbd" else f"{instance.name} has no replicated disks"

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return list(cluster.instance(self.instance).nodes)

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        if len(instance.secondary_nodes) != 1:
            raise errors.Refused(f"{instance.name} has {len(instance.secondary_nodes)} secondaries, and not one")
        if self.discard and self.discard not in instance.nodes:
            names = " or ".join(cluster.node_name(uuid) for uuid in instance.nodes)
            raise errors.Refused(
                f"{cluster.node_name(self.discard)} has no replica of {instance.name}: discard what {names} wrote"
            )
        contract.refuse_unreachable(cluster, *instance.nodes)
        return {
            "instance": instance_variables(cluster, instance),
            "primary": contract.node_variables(cluster, instance.primary_node),
            "secondary": contract.node_variables(cluster, instance.secondary_nodes[0]),
            "discard": cluster.node_name(self.discard) if self.discard else "",
        }

    def about(self) -> tuple[str, ...]:
        return (self.instance,)


@dataclass(frozen=True)
class OutdateReplica(contract.PlayOpcode):
    """Mark the replica on a secondary that its running primary has lost as outdated: DRBD does not promote it then.

    The primary is asked first whether the instance runs there: DRBD's role alone proves no newer data. Only metadata
    are written. DRBD keeps the mark over boots, and removes it when the replica was synchronized again.
    """

    kind: ClassVar[str] = "outdate_replica"
    role: ClassVar[str] = "repair"
    instance: str
    node: str

    def time_limit(self, cluster: clusters.Cluster) -> int:
        return time_limits.limit(time_limits.look(), time_limits.outdate(cluster.instance(self.instance)))

    def is_urgent(self) -> bool:
        """Old data can be started until it has run."""
        return True

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, (self.node,))

    def moot(self, cluster: clusters.Cluster) -> str:
        instance = cluster.instances.get(self.instance)
        if instance is None:
            return f"nothing to do: instance {self.instance} has been removed from the cluster"
        if self.node not in instance.secondary_nodes:
            return f"nothing to do: {cluster.node_name(self.node)} is not the secondary of {instance.name} any more"
        return "" if instance.parted is not None else f"nothing to do: {instance.name} is in sync again"

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        known = cluster.instances.get(self.instance)
        return [*([known.primary_node] if known is not None else []), self.node]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        contract.refuse_unreachable(cluster, instance.primary_node, self.node)
        return {
            "instance": instance_variables(cluster, instance),
            "primary": contract.node_variables(cluster, instance.primary_node),
            "member": contract.node_variables(cluster, self.node),
            "resources": list(replica_evidence.resources(instance)),
            "outdate_seconds": time_limits.outdating(),
        }
