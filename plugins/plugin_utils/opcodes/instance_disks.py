"""Opcodes at the disks of an instance that stays where it is: activate, deactivate, verify, recreate, reinstall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from . import contract, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class _AtDisks(contract.PlayOpcode):
    instance: str

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        return time_limits.limit(time_limits.disks(known, steps=len(known.nodes) + 1))

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, self.hosts(cluster))

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        """Those of its nodes that may be contacted, the primary first."""
        nodes = cluster.instance(self.instance).nodes
        return [uuid for uuid in nodes if clusters.reachable(cluster, cluster.node(uuid))]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        there = self.hosts(cluster)
        return {
            "instance": instance_variables(cluster, instance),
            "primary": contract.node_variables(cluster, instance.primary_node),
            "members": [contract.node_variables(cluster, uuid) for uuid in there],
            "unasked": [cluster.node_name(uuid) for uuid in instance.nodes if uuid not in there],
        }


@dataclass(frozen=True)
class VerifyDisks(_AtDisks):
    """Tell how the disks of an instance are on each of its nodes; nothing is changed."""

    kind: ClassVar[str] = "verify_disks"
    role: ClassVar[str] = "instance"


@dataclass(frozen=True)
class _AtItsPrimary(_AtDisks):
    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        contract.refuse_unfinished(cluster, cluster.instance(self.instance))
        contract.refuse_unreachable(cluster, cluster.instance(self.instance).primary_node)
        return super().variables(cluster)


@dataclass(frozen=True)
class ActivateDisks(_AtItsPrimary):
    """Promote the disks of an instance on its primary, be it up or down; the result are the devices."""

    kind: ClassVar[str] = "activate_disks"
    role: ClassVar[str] = "instance"


@dataclass(frozen=True)
class _Down(_AtItsPrimary):
    """Only for an instance that is down."""

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        if instance.is_up:
            raise errors.Refused(
                f"{instance.name} is up: stop it first, with `roundsman instance stop {instance.name}`"
            )
        return super().variables(cluster)


@dataclass(frozen=True)
class DeactivateDisks(_Down):
    """Demote the disks of an instance on all nodes that is down."""

    kind: ClassVar[str] = "deactivate_disks"
    role: ClassVar[str] = "instance"


@dataclass(frozen=True)
class RecreateDisks(_Down):
    """Make the disks of an instance that is down anew on all its nodes, empty; adopted ones are not Roundsman's."""

    kind: ClassVar[str] = "recreate_disks"
    role: ClassVar[str] = "instance"

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        return time_limits.limit(time_limits.disks(known, steps=3 * len(known.nodes) + 2), time_limits.sync(known))

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        contract.refuse_unreachable(cluster, *instance.nodes)
        if instance.adopted_disks:
            raise errors.Refused(
                f"{instance.name}: Roundsman does not recreate its disk {instance.adopted_disks[0]}, which was "
                "adopted; recreate it on its nodes by hand"
            )
        return super().variables(cluster)


@dataclass(frozen=True)
class Reinstall(_Down):
    """Have a playbook of the user install an operating system on the disks of an instance that is down."""

    kind: ClassVar[str] = "reinstall"
    os_playbook: str

    def included_playbook(self) -> str:
        return self.os_playbook

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        return time_limits.limit(time_limits.disks(known, steps=2), time_limits.OS_PLAYBOOK)

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        return super().variables(cluster) | {"os_playbook": self.os_playbook}
