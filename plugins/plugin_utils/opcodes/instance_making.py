"""Opcodes that make an instance, change it and take it away.

Making is a job of several: it is reserved inside the daemon, with its nodes and its minors, as unfinished; its disks
are made, and its operating system by a playbook of the user; then it starts. What breaks off is tried again or removed.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain.values import errors
from .. import ansible_runs
from ..cluster import changes, membership
from ..cluster import cluster as clusters
from ..settings import instance_making, modifications
from . import contract, room_now, time_limits
from .instance_facts import instance_variables

if TYPE_CHECKING:
    from ..cluster.changes import Change
    from ..cluster.locks import Mode

NO_OS = ansible_runs.PLAYBOOKS / "os" / "none.yml"


@dataclass(frozen=True)
class InstanceReserve(contract.ChangeOpcode):
    """Put a new instance on record, unfinished, at nodes (UUIDs, the primary first) that were chosen for it."""

    kind: ClassVar[str] = "instance_reserve"
    instance: str
    nodes: tuple[str, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, self.nodes)

    def changes(self, cluster: clusters.Cluster, facts: contract.Facts, *, since: float) -> list[Change]:  # noqa: ARG002 - the port's signature
        known = cluster.instances.get(self.instance)
        if known is not None:
            # The daemon ended after it had done this.
            return [membership.InstanceStands(known)]
        draft = instance_making.draft(cluster, self.instance, self.fields)
        contract.refuse_unreachable(cluster, *self.nodes)
        contract.refuse_silent(cluster, facts, *self.nodes)
        for uuid in self.nodes:
            _refuse_unfit(cluster.node(uuid))
            room_now.refuse_without_disk(cluster, draft, target=uuid)
        room_now.refuse_without_memory(cluster, draft, target=self.nodes[0])
        return instance_making.reserve(cluster, draft, self.nodes)

    def result(self, before: clusters.Cluster, _stated: list[Change]) -> list[str]:
        """The names of its nodes, as Ganeti tells it."""
        return [before.node_name(uuid) for uuid in self.nodes]

    def told(self, before: clusters.Cluster, _stated: list[Change]) -> list[str]:
        return [f"{self.fields['name']} goes to {' and '.join(map(before.node_name, self.nodes))}"]


@dataclass(frozen=True)
class InstanceCreate(contract.PlayOpcode):
    """Make the disks of an instance that is on record, and have a playbook install its operating system."""

    kind: ClassVar[str] = "instance_create"
    instance: str
    os_playbook: str = ""

    def included_playbook(self) -> str:
        return self.os_playbook

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        return time_limits.limit(time_limits.disks(known, steps=len(known.nodes) + 2), time_limits.OS_PLAYBOOK)

    def check_facts(self, cluster: clusters.Cluster, facts: contract.Facts) -> None:
        contract.refuse_silent(cluster, facts, *cluster.instance(self.instance).nodes)

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, cluster.instance(self.instance).nodes)

    def moot(self, cluster: clusters.Cluster) -> str:
        instance = cluster.instance(self.instance)
        return "" if instance.is_unfinished else f"the disks of {instance.name} are there already"

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return list(cluster.instance(self.instance).nodes)

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        contract.refuse_unreachable(cluster, *instance.nodes)
        return {
            "instance": instance_variables(cluster, instance),
            "members": [contract.node_variables(cluster, uuid) for uuid in instance.nodes],
            "os": bool(self.os_playbook),
            "os_playbook": self.os_playbook or str(NO_OS),
        }

    def about(self) -> tuple[str, ...]:
        # It does not run yet: there is nothing to look for.
        return ()


@dataclass(frozen=True)
class InstanceRemove(contract.PlayOpcode):
    """Stop an instance, remove its disks, and take it from the record.

    With `ignore_failures` what is on nodes that are not contacted is left there, even if one of them is its primary.
    """

    kind: ClassVar[str] = "instance_remove"
    role: ClassVar[str] = "instance"
    instance: str
    ignore_failures: bool = False

    def time_limit(self, cluster: clusters.Cluster) -> int:
        known = cluster.instance(self.instance)
        return time_limits.limit(time_limits.stop(known), time_limits.disks(known, steps=2 * len(known.nodes) + 1))

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        return contract.instance_at(self.instance, cluster.instance(self.instance).nodes)

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return list(cluster.instance(self.instance).nodes)

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        instance = cluster.instance(self.instance)
        contract.refuse_unfinished(cluster, instance)
        if not self.ignore_failures:
            contract.refuse_unreachable(cluster, instance.primary_node)
        there = [uuid for uuid in instance.nodes if clusters.reachable(cluster, cluster.node(uuid))]
        return {
            "instance": instance_variables(cluster, instance),
            "members": [contract.node_variables(cluster, uuid) for uuid in there],
            "unasked": [cluster.node_name(uuid) for uuid in instance.nodes if uuid not in there],
            "left_behind": [uuid for uuid in instance.nodes if uuid not in there],
            "primary": contract.node_variables(cluster, instance.primary_node),
            "primary_asked": instance.primary_node in there,
        }

    def about(self) -> tuple[str, ...]:
        return (self.instance,)


@dataclass(frozen=True)
class InstanceModify(contract.ChangeOpcode):
    """Give an instance other parameters; memory, vcpus and hvparams take effect when it starts the next time."""

    kind: ClassVar[str] = "instance_modify"
    instance: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"instance/{self.instance}": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[Change]:  # noqa: ARG002 - the port's signature
        stated = instance_making.modify(cluster, self.instance, self.fields)
        stands = changes.apply_all(cluster, stated, now=cluster.mtime).instance(self.instance)
        room_now.refuse_growth(cluster, cluster.instance(self.instance), stands)
        return stated

    def result(self, before: clusters.Cluster, stated: list[Change]) -> list[list[Any]]:
        return [list(pair) for pair in modifications.differences(before, _after(before, stated))]

    def told(self, before: clusters.Cluster, stated: list[Change]) -> list[str]:
        return modifications.lines(before, _after(before, stated), about=self.instance)


def _after(before: clusters.Cluster, stated: list[Change]) -> clusters.Cluster:
    return changes.apply_all(before, stated, now=before.mtime)


def _refuse_unfit(node: clusters.Node) -> None:
    if node.drained or not node.vm_capable:
        why = "is drained" if node.drained else "takes no instances (vm_capable)"
        raise errors.Refused(f"{node.name} {why}")
