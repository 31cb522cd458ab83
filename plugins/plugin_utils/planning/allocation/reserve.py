"""How many instances of the standard size still fit once nodes are empty: what a reserve of capacity is compared to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..models import configured
from . import capacity_report, configured_limits, relocation

if TYPE_CHECKING:
    from collections.abc import Collection

    from ....module_utils.domain import cluster as clusters


def left(cluster: clusters.Cluster, *, leaving: Collection[str], avoid: Collection[str], most: int) -> int:
    """How many fit under the limits set, counted up to `most`, after the instances of `leaving` have found places.

    `leaving` and `avoid` are nodes (UUIDs) that take nothing. A group in which N+1 fails takes none; what has no place
    stays where it is.
    """
    closed = _drained(cluster, {*leaving, *avoid})
    names = [cluster.nodes[uuid].name for uuid in leaving]
    vacated = relocation.vacate(configured.model_of(closed), names)
    nodes = {one.name: uuid for uuid, one in cluster.nodes.items()}
    placed = {one.instance: [nodes[name] for name in one.nodes] for one in vacated.placements}
    instances = {
        uuid: replace(one, primary_node=placed[one.name][0], secondary_nodes=tuple(placed[one.name][1:]))
        if one.name in placed
        else one
        for uuid, one in closed.instances.items()
    }
    emptied = configured.model_of(replace(closed, instances=instances))
    return capacity_report.standard(emptied, configured_limits.question(cluster), most=most)


def _drained(cluster: clusters.Cluster, closed: Collection[str]) -> clusters.Cluster:
    nodes = {uuid: replace(one, drained=True) if uuid in closed else one for uuid, one in cluster.nodes.items()}
    return replace(cluster, nodes=nodes)
