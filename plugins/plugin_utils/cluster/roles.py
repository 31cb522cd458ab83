"""The roles of nodes: which of drained, offline and candidate follow from each other."""

from __future__ import annotations

from typing import Optional

from ...module_utils.domain.values import errors
from . import changes
from . import cluster as clusters


def change(
    cluster: clusters.Cluster,
    node: clusters.Node,
    *,
    drained: Optional[bool] = None,
    offline: Optional[bool] = None,
) -> list[changes.Change]:
    """The changes that give a node its new role: offline ends drained, and a candidate promotes another first.

    Raises:
        Refused: the node is the master, whose role moves only with the master role.
    """
    wanted_offline = node.offline if offline is None else offline
    wanted_drained = (
        False
        if wanted_offline or (offline is not None and drained is None)
        else (node.drained if drained is None else drained)
    )
    leaves = wanted_offline or wanted_drained
    if leaves and node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: move the master role to another node first")
    stated: list[changes.Change] = []
    if leaves and node.master_candidate:
        stated += promotions(cluster, without=node.uuid)
    keeps = not leaves and (node.master_candidate or (node.master_capable and is_short_of_candidates(cluster)))
    stated.append(
        changes.NodeRole(node=node.uuid, drained=wanted_drained, offline=wanted_offline, master_candidate=keeps)
    )
    return stated


def is_short_of_candidates(cluster: clusters.Cluster) -> bool:
    """Whether there are fewer master candidates than the cluster wants."""
    return len(_candidates(cluster)) < cluster.cluster.candidate_pool_size


def _candidates(cluster: clusters.Cluster) -> list[clusters.Node]:
    return [node for node in cluster.nodes.values() if node.master_candidate and not (node.drained or node.offline)]


def promotions(cluster: clusters.Cluster, *, without: str) -> list[changes.Change]:
    """The change that makes another node a candidate, when the pool is short without this one (UUID)."""
    left = [candidate for candidate in _candidates(cluster) if candidate.uuid != without]
    if len(left) >= cluster.cluster.candidate_pool_size:
        return []
    eligible = [
        node
        for node in cluster.nodes.values()
        if node.uuid != without
        and node.master_capable
        and not (node.master_candidate or node.drained)
        and clusters.reachable(cluster, node)
    ]
    eligible.sort(key=lambda node: clusters.natural(node.name))
    return [
        changes.NodeRole(node=node.uuid, drained=False, offline=False, master_candidate=True) for node in eligible[:1]
    ]
