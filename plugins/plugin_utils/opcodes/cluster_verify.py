"""The opcode that looks for what is wrong with the cluster; it mends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ...module_utils.domain import cluster as clusters
from ...module_utils.domain import host_variables
from . import contract, node_power

if TYPE_CHECKING:
    from ...module_utils.domain.locks import Mode


@dataclass(frozen=True)
class ClusterVerify:
    """See that helper programs are on the master candidates, and compare the power of nodes with their record.

    Host variables that no run uses are named too, and so are the nodes in `differing`: by name the sentence that says
    which diagnose command a node ran instead of the cluster's, as it was known when the job was submitted.
    """

    kind: ClassVar[str] = "cluster_verify"
    time_limit: ClassVar[int] = 1800
    differing: dict[str, str] = field(default_factory=dict)

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        nodes = {one.uuid for one in (*_with_oob(cluster), *_candidates(cluster))}
        return {f"node/{uuid}": contract.SHARED for uuid in sorted(nodes)}

    def moot(self, cluster: clusters.Cluster) -> str:
        has_work = _with_oob(cluster) or any(_ignored(cluster).values()) or self.differing
        return "" if has_work else "no node supports OOB commands: there is nothing to verify"

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return [one.uuid for one in _candidates(cluster) if clusters.reachable(cluster, one)]

    def variables(self, cluster: clusters.Cluster) -> dict[str, Any]:
        targets = [node_power.bmc_variables(cluster, one) for one in _with_oob(cluster)]
        looked, known = set(self.hosts(cluster)), _candidates(cluster)
        return {
            "cluster_targets": targets,
            "cluster_paths": _paths(cluster),
            "cluster_candidates": [one.name for one in known if one.uuid in looked],
            "cluster_unseen": {one.name: "is not contacted" for one in known if one.uuid not in looked},
            "cluster_ignored": _ignored(cluster),
            "cluster_differing": dict(self.differing),
            "cluster_held": sorted(lock.partition("/")[2] for lock in self.wants(cluster)),
        }

    def files(self) -> dict[str, str]:
        return {}

    def about(self) -> tuple[str, ...]:
        return ()


def _with_oob(cluster: clusters.Cluster) -> list[clusters.Node]:
    found = [one for one in cluster.nodes.values() if clusters.parameter(cluster, one, "oob_program") is not None]
    return sorted(found, key=lambda one: clusters.natural(one.name))


def _ignored(cluster: clusters.Cluster) -> dict[str, list[str]]:
    """By node the names of its host variables that no run uses."""
    found = {node.name: host_variables.ignored(node.hostvars) for node in cluster.nodes.values()}
    return {name: ignored for name, ignored in found.items() if ignored}


def _paths(cluster: clusters.Cluster) -> list[str]:
    programs = {clusters.parameter(cluster, one, "oob_program") or "" for one in cluster.nodes.values()}
    return sorted(one for one in programs if one.startswith("/"))


def _candidates(cluster: clusters.Cluster) -> list[clusters.Node]:
    """The master and its candidates, by name, when there is a program that they need."""
    if not _paths(cluster):
        return []
    master = cluster.cluster.master_node
    found = [one for one in cluster.nodes.values() if one.master_candidate or one.uuid == master]
    return sorted(found, key=lambda one: clusters.natural(one.name))
