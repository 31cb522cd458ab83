"""How many instances of the standard size still fit once nodes are empty: what a reserve of capacity is compared to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..placement.htools import capacity_report
from . import configured, configured_limits, evacuation
from .room import Room

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...module_utils.domain import cluster as clusters


def left(cluster: clusters.Cluster, *, leaving: Collection[str], avoid: Collection[str], most: int) -> int:
    """How many fit under the limits set, counted up to `most`, after the instances of `leaving` have found places.

    `leaving` and `avoid` are nodes (UUIDs) that take nothing. A group in which N+1 fails takes none; what has no place
    stays where it is.
    """
    closed = _drained(cluster, {*leaving, *avoid})
    places = _places(closed, leaving)
    instances = {
        uuid: replace(instance, primary_node=places[uuid][0], secondary_nodes=places[uuid][1])
        if uuid in places
        else instance
        for uuid, instance in closed.instances.items()
    }
    emptied = configured.model_of(replace(closed, instances=instances))
    return capacity_report.standard(emptied, configured_limits.question(cluster), most=most)


def _places(cluster: clusters.Cluster, leaving: Collection[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Where the instances that leave end, by UUID."""
    room = Room(cluster)
    for uuid in sorted(leaving):
        taken = dict.fromkeys(room.places, "another evacuation")
        evacuation.plan(cluster, uuid, failover=False, avoid=(), taken=taken, room=room)
    return room.places


def _drained(cluster: clusters.Cluster, closed: Collection[str]) -> clusters.Cluster:
    nodes = {uuid: replace(node, drained=node.drained or uuid in closed) for uuid, node in cluster.nodes.items()}
    return replace(cluster, nodes=nodes)


def _at(instance: clusters.Instance, nodes: tuple[str, tuple[str, ...]]) -> clusters.Instance:
    return replace(instance, primary_node=nodes[0], secondary_nodes=nodes[1])
