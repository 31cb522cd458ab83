"""Where one instance, or its second copy, goes when nobody says where."""

from __future__ import annotations

import functools

from ...module_utils.domain import cluster as clusters
from ...module_utils.domain import errors
from . import rounds, targets, ways
from .balancing.actions import Action
from .holdings import disk_per_copy, memory_in_use
from .room import Room


def target(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """The node (UUID) to which an instance moves: its second copy's, else the best with room.

    Raises:
        Refused: there is none, or an instance of this disk template cannot be moved at all.
    """
    if instance.disk_template in ways.NOWHERE:
        raise errors.Refused(f"Instance's disk layout '{instance.disk_template}' does not allow moves")
    if instance.secondary_nodes:
        return instance.secondary_nodes[0]
    if instance.disk_template == "drbd":
        raise errors.Refused(f"{instance.name} has no second copy to move to")
    room = Room(cluster)
    tags = room.exclusion_tags(instance)
    demand = targets.Demand(memory=memory_in_use(instance), vcpus=instance.vcpus, tags=tags)
    return _best(cluster, instance, demand, room=room, action=Action.FAILOVER_TO_ANY)


def new_secondary(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """The best node (UUID) for a new second copy of an instance.

    Raises:
        Refused: there is none.
    """
    demand = targets.Demand(disk=disk_per_copy(instance), reserve=memory_in_use(instance), peer=instance.primary_node)
    return _best(cluster, instance, demand, room=Room(cluster), action=Action.REPLACE_SECONDARY)


def _best(
    cluster: clusters.Cluster, instance: clusters.Instance, demand: targets.Demand, *, room: Room, action: Action
) -> str:
    lookout = targets.Targets(cluster, room=room, avoid=rounds.no_targets(cluster))
    group = cluster.nodes[instance.primary_node].group
    scores = functools.partial(lookout.scores, instance, action)
    choice = lookout.best(demand, group=group, without=instance.nodes, scores=scores)
    if choice is None:
        lack = lookout.lack(demand, group=group, without=instance.nodes)
        raise errors.Refused(f"{instance.name} has nowhere to go: {lack.reason}")
    return choice.node
