"""Opcodes that start and stop an instance where it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from . import contract, instance_moves, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class _AtPrimary(contract.PlayOpcode):
    instance: str

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, self.hosts(cluster))

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return [cluster.instance(self.instance).primary_node]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        contract.refuse_unreachable(cluster, instance.primary_node)
        return {
            "instance": instance_variables(cluster, instance),
            "primary": contract.node_variables(cluster, instance.primary_node),
            "members": [contract.node_variables(cluster, uuid) for uuid in self.hosts(cluster)],
        }

    def about(self) -> tuple[str, ...]:
        return (self.instance,)


@dataclass(frozen=True)
class Startup(_AtPrimary):
    """Start an instance on its primary; `discard` is the secondary (UUID) whose data a person gives up for that.

    One of which a migration has not ended is looked for first, and recorded where it runs. It is failed over from the
    node where the migration was to take it, if that does not answer, by what may be lost: `discard` does not skip that,
    as whoever gives up what a node has has not seen how much that is.
    """

    kind: ClassVar[str] = "startup"
    op_id: ClassVar[str] = "OP_INSTANCE_STARTUP"
    role: ClassVar[str] = "instance"
    discard: str = ""

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        """Where it fails over, it reads the power of the node where a migration was to go, and may command it off."""
        moving = cluster.instance(self.instance).moving
        return super().wants(cluster) | contract.power_of([moving] if moving else (), contract.SHARED)

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        own = [time_limits.disks(known, steps=len(known.nodes) + 1), time_limits.start(known)]
        if known.moving:
            own += [time_limits.find(known, nodes=2), time_limits.disks(known, steps=2)]
            own.append(instance_moves.failover_seconds(known))
        return time_limits.limit(*own)

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        """Its primary, the other nodes with replicas that may be contacted, and where a migration may have taken it."""
        return list(dict.fromkeys((*self._members(cluster), *cluster.instance(self.instance).places)))

    def _members(self, cluster: clusters.Cluster) -> list[str]:
        primary, *others = cluster.instance(self.instance).nodes
        return [primary, *(uuid for uuid in others if clusters.reachable(cluster, cluster.node(uuid)))]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        if instance.is_unfinished:
            raise errors.Refused(
                f"{instance.name} is unfinished, its disks may be missing: ask for it again as it was asked for, with "
                f"`roundsman instance add`, or remove it with `roundsman instance remove {instance.name}`"
            )
        if self.discard and self.discard not in instance.secondary_nodes:
            node = cluster.node_name(self.discard)
            raise errors.Refused(f"{node} is not the secondary of {instance.name} any more: nothing is given up")
        if not clusters.reachable(cluster, cluster.node(instance.primary_node)):
            contract.refuse_unfinished(cluster, instance)
        given = {
            "members": [contract.node_variables(cluster, uuid) for uuid in self._members(cluster)],
            "discarded": cluster.node_name(self.discard) if self.discard else "",
            "unfinished": bool(instance.moving),
        }
        return super().variables(cluster) | given | (self._failing_over(cluster, instance) if instance.moving else {})

    def check_facts(self, cluster: clusters.Cluster, facts: contract.Facts) -> contract.Start | None:
        """What the play is told beside the configuration, where it may fail the instance over."""
        moving = cluster.instance(self.instance).moving
        return contract.Start(facts.off(moving)) if moving else None

    def outcome(self, value: Any) -> Any:
        return instance_moves.waits_for_person(value)

    def _failing_over(self, cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any]:
        """What the steps of a failover take, to the primary from where a migration was to take the instance."""
        return {
            **instance_moves.failover_variables(cluster, source=instance.moving),
            "ignore_consistency": False,
            "source": contract.node_variables(cluster, instance.moving),
            "target": contract.node_variables(cluster, instance.primary_node),
            "secondaries": list(instance.secondary_nodes),
        }


@dataclass(frozen=True)
class Shutdown(_AtPrimary):
    """Stop an instance on its primary."""

    kind: ClassVar[str] = "shutdown"
    op_id: ClassVar[str] = "OP_INSTANCE_SHUTDOWN"
    role: ClassVar[str] = "instance"

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        return time_limits.limit(time_limits.stop(known), time_limits.disks(known, steps=1))

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        contract.refuse_unfinished(cluster, cluster.instance(self.instance))
        return super().variables(cluster)
