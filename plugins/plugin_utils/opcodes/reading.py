"""Opcodes that change nothing: they tell of the configuration, or that it is where it has to be."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from . import contract

if TYPE_CHECKING:
    from ..cluster import cluster as clusters
    from ..cluster.changes import Change
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class InstanceQueryData(contract.ChangeOpcode):
    """Tell all that is on record of an instance, under its name."""

    kind: ClassVar[str] = "instance_query_data"
    instance: str

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[Change]:  # noqa: ARG002 - the port's signature
        cluster.instance(self.instance)
        return []

    def result(self, before: clusters.Cluster, _stated: list[Change]) -> Any:
        """The fields of the instance, and the names of its nodes."""
        instance = before.instance(self.instance)
        names = {
            "pnode": before.node_name(instance.primary_node),
            "snodes": [before.node_name(uuid) for uuid in instance.secondary_nodes],
        }
        return {instance.name: {**dataclasses.asdict(instance), **names}}


@dataclass(frozen=True)
class ClusterRedistConf(contract.ChangeOpcode):
    """Ganeti's order to copy the configuration to the other nodes: here it has no copies to bring up to date."""

    kind: ClassVar[str] = "cluster_redist_conf"

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {}

    def moot(self, cluster: clusters.Cluster) -> str:
        return f"version {cluster.serial_no} of the configuration is in its one place: there are no copies of it"

    def changes(self, _cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[Change]:  # noqa: ARG002 - the port's signature
        return []
