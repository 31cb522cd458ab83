"""The opcode that puts nodes and instances on record that were there before; no node is touched."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations at run time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..cluster import changes
from ..cluster import cluster as clusters
from ..rounds import wording
from ..settings import instance_making, joining
from . import contract

if TYPE_CHECKING:
    from ..cluster.changes import Change
    from ..cluster.locks import Mode


@dataclass(frozen=True)
class ClusterAdopt(contract.ChangeOpcode):
    """Extend the configuration by nodes, each as UUID and fields, and by instances; what is there already stays."""

    kind: ClassVar[str] = "cluster_adopt"
    nodes: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    instances: tuple[clusters.Instance, ...] = ()

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {"cluster/BGL": contract.EXCLUSIVE}

    def changes(self, cluster: clusters.Cluster, _facts: contract.Facts, *, since: float) -> list[Change]:  # noqa: ARG002 - the port's signature
        stated: list[Change] = []
        for uuid, fields in self.nodes:
            if uuid not in cluster.nodes:
                added = joining.add(cluster, uuid, fields)
                cluster = changes.apply_all(cluster, added, now=cluster.mtime)
                stated += added
        for instance in self.instances:
            if instance.uuid not in cluster.instances:
                added = instance_making.adopt(cluster, instance)
                cluster = changes.apply_all(cluster, added, now=cluster.mtime)
                stated += added
        return stated

    def told(self, _before: clusters.Cluster, stated: list[Change]) -> list[str]:
        nodes = sum(hasattr(change, "node") for change in stated)
        return [f"{wording.both(nodes, len(stated) - nodes)} more on record"]
