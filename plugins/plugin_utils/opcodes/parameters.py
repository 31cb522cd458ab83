"""Opcodes that change what the configuration says of the cluster, its groups and its nodes; no node is touched."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ..cluster import changes
from ..settings import joining, modifications, parameters
from . import contract

if TYPE_CHECKING:
    from ..cluster import cluster as clusters
    from ..cluster.locks import Mode


class _Modification(contract.ChangeOpcode):
    """What all of them have in common: they are never moot, and tell which fields had and have which value."""

    def result(self, before: clusters.Cluster, stated: list[changes.Change]) -> list[list[Any]]:
        return [list(pair) for pair in modifications.differences(before, _after(before, stated))]

    def told(self, before: clusters.Cluster, stated: list[changes.Change]) -> list[str]:
        about = str(getattr(self, "node", getattr(self, "group", "")))
        return modifications.lines(before, _after(before, stated), about=about)


def _after(before: clusters.Cluster, stated: list[changes.Change]) -> clusters.Cluster:
    return changes.apply_all(before, stated, now=before.mtime)


@dataclass(frozen=True)
class ClusterModify(_Modification):
    """Give the cluster other parameters."""

    kind: ClassVar[str] = "cluster_modify"
    op_id: ClassVar[str] = "OP_CLUSTER_SET_PARAMS"
    fields: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {"cluster/BGL": contract.SHARED}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        return parameters.cluster_modify(cluster, self.fields)


@dataclass(frozen=True)
class GroupAdd(_Modification):
    """Make a node group."""

    kind: ClassVar[str] = "group_add"
    uuid: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"nodegroup/{self.uuid}": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        return parameters.group_add(cluster, self.uuid, self.fields)


@dataclass(frozen=True)
class GroupModify(_Modification):
    """Give a node group another name, policy or parameters."""

    kind: ClassVar[str] = "group_modify"
    op_id: ClassVar[str] = "OP_GROUP_SET_PARAMS"
    group: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"nodegroup/{self.group}": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        return parameters.group_modify(cluster, self.group, self.fields)


@dataclass(frozen=True)
class GroupRemove(_Modification):
    """Remove an empty node group."""

    kind: ClassVar[str] = "group_remove"
    removes: ClassVar[bool] = True
    group: str

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"nodegroup/{self.group}": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        return parameters.group_remove(cluster, self.group)

    def is_removed(self, cluster: clusters.Cluster) -> bool:
        return self.group not in cluster.nodegroups


@dataclass(frozen=True)
class NodeAdd(_Modification):
    """Add a node; with `readd` one that is there joins again under its own UUID."""

    kind: ClassVar[str] = "node_add"
    uuid: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    readd: bool = False

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.uuid}": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        if self.readd:
            return joining.again(cluster, self.uuid, self.fields)
        return joining.add(cluster, self.uuid, self.fields)


@dataclass(frozen=True)
class NodeModify(_Modification):
    """Give a node other parameters."""

    kind: ClassVar[str] = "node_modify"
    op_id: ClassVar[str] = "OP_NODE_SET_PARAMS"
    node: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        return parameters.node_modify(cluster, self.node, self.fields)


@dataclass(frozen=True)
class NodeRemove(_Modification):
    """Take a node out of the cluster."""

    kind: ClassVar[str] = "node_remove"
    removes: ClassVar[bool] = True
    node: str

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.EXCLUSIVE}

    def told(self, before: clusters.Cluster, stated: list[changes.Change]) -> list[str]:
        left = sorted(entry.instance.name for entry in before.maintenance.left_behind if entry.node == self.node)
        name = before.node_name(self.node)
        return [
            *super().told(before, stated),
            *(
                f"the replica of {instance} that was left on {name} is on no record any more: remove it by hand"
                for instance in left
            ),
        ]

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[changes.Change]:  # noqa: ARG002 - the port's signature
        return joining.remove(cluster, self.node)

    def is_removed(self, cluster: clusters.Cluster) -> bool:
        return self.node not in cluster.nodes
