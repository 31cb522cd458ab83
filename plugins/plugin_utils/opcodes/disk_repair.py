"""The opcode that repairs the replicated disks of an instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain import errors
from . import contract
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ...module_utils.domain import cluster as clusters
    from ...module_utils.domain.locks import Mode


@dataclass(frozen=True)
class RepairDisks:
    """Repair the DRBD disks of an instance as far as the table of repairs allows; its nodes stay what they are."""

    kind: ClassVar[str] = "repair_disks"
    time_limit: ClassVar[int] = 1800
    instance: str

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, cluster.instance(self.instance).nodes)

    def moot(self, cluster: clusters.Cluster) -> str:
        instance = cluster.instance(self.instance)
        if instance.hypervisor == "fake":
            return f"{instance.name} has simulated disks, of which nothing can be repaired"
        return "" if instance.disk_template == "drbd" else f"{instance.name} has no replicated disks"

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return list(cluster.instance(self.instance).nodes)

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        if len(instance.secondary_nodes) != 1:
            raise errors.Refused(f"{instance.name} has {len(instance.secondary_nodes)} secondaries, and not one")
        contract.refuse_unreachable(cluster, *instance.nodes)
        return {
            "instance": instance_variables(cluster, instance),
            "instance_primary": contract.node_variables(cluster, instance.primary_node),
            "instance_secondary": contract.node_variables(cluster, instance.secondary_nodes[0]),
        }

    def files(self) -> dict[str, str]:
        return {}

    def about(self) -> tuple[str, ...]:
        return (self.instance,)
