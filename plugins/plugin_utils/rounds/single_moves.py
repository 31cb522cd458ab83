"""Where one instance, or its secondary replica, goes when nobody says where."""

from __future__ import annotations

import functools

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..cluster import left_replicas
from ..placement.balancing.actions import Action
from ..placement.plan import Refusal
from . import rounds, targets, ways
from .basis import Basis
from .holdings import disk_per_copy, memory_in_use
from .room import Room


def target(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """The node (UUID) to which an instance moves: its secondary replica's, else the best with room.

    Raises:
        Refused: there is none, or an instance of this disk template cannot be moved at all.
    """
    if instance.disk_template in ways.NOWHERE:
        raise errors.Refused(f"Instance's disk layout '{instance.disk_template}' does not allow moves")
    if instance.secondary_nodes:
        return instance.secondary_nodes[0]
    if instance.disk_template == "drbd":
        raise errors.Refused(f"{instance.name} has no secondary replica to move to")
    room = Room(cluster)
    tags = room.exclusion_tags(instance)
    demand = targets.Demand(instance.name, memory=memory_in_use(instance), vcpus=instance.vcpus, tags=tags)
    return _best(cluster, instance, demand, room=room, action=Action.FAILOVER_TO_ANY)


def failed_over(cluster: clusters.Cluster, instance: clusters.Instance, *, chosen: str) -> tuple[str, str]:
    """The nodes (UUIDs) from which and to which an instance is failed over; `chosen` is one that a person named, or ''.

    A node where a migration that has not ended may have taken it, and that cannot be asked, may have what its primary
    on record lacks: it fails over from there.

    Raises:
        Refused: as with `target`.
    """
    other = cluster.nodes.get(instance.moving)
    is_lost = other is not None and not clusters.answers(cluster, other)
    if other is not None and (chosen == instance.primary_node or (is_lost and not chosen)):
        return other.uuid, instance.primary_node
    return instance.primary_node, chosen or instance.moving or target(cluster, instance)


def refuse_adopted(instance: clusters.Instance) -> None:
    """Refuse to replace disks that were adopted: their nodes are changed by the people who made them.

    Raises:
        Refused: the instance has such a disk.
    """
    if bound := ways.not_replaced(instance):
        raise errors.Refused(f"{instance.name}: {bound}")


def refuse_new_secondary(cluster: clusters.Cluster, instance: clusters.Instance, *, target: str) -> None:
    """Refuse a node (UUID) that the planner would not choose as new secondary of an instance, whatever its room.

    Raises:
        Refused: it is in another group, drained, not vm_capable, or has an open or failed incident. NotFound: it has
        left the cluster.
    """
    node, primary = cluster.node(target), cluster.node(instance.primary_node)
    if node.group != primary.group:
        groups = [cluster.nodegroups[each.group].name for each in (node, primary)]
        raise errors.Refused(
            f"{node.name} is in node group {groups[0]} and {instance.name} in {groups[1]}: to change its group, use "
            f"`roundsman instance change-group {instance.name}`"
        )
    if node.drained:
        raise errors.Refused(f"{node.name} is drained and takes no new secondaries")
    refuse_closed(cluster, target=target)
    if node.uuid in rounds.no_targets(cluster):
        raise errors.Refused(f"{node.name} has an open or failed incident and takes no new secondaries")


def refuse_closed(cluster: clusters.Cluster, *, target: str) -> None:
    """Refuse a node (UUID) that takes no instances, as it is recorded now.

    Raises:
        Refused: it is drained, or not vm_capable. NotFound: it has left the cluster.
    """
    node = cluster.node(target)
    if node.drained:
        raise errors.Refused(f"{node.name} is drained and takes no instances: run `roundsman node undrain {node.name}`")
    if not node.vm_capable:
        raise errors.Refused(f"{node.name} is not vm_capable and holds no instances")


def new_secondary(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """The best node (UUID) for a new secondary of an instance.

    Raises:
        Refused: there is none.
    """
    demand = targets.Demand(
        instance.name, disk=disk_per_copy(instance), reserve=memory_in_use(instance), peer=instance.primary_node
    )
    return _best(cluster, instance, demand, room=Room(cluster), action=Action.REPLACE_SECONDARY)


def _best(
    cluster: clusters.Cluster,
    instance: clusters.Instance,
    demand: targets.Demand,
    *,
    room: Room,
    action: Action,
) -> str:
    lookout = targets.Targets(Basis(cluster, avoid=rounds.no_targets(cluster)), room=room)
    group = cluster.nodes[instance.primary_node].group
    scores = functools.partial(lookout.scores, instance, action)
    without = left_replicas.holding(cluster, instance)
    choice = lookout.choose(demand, group=group, without=without, scores=scores)
    if isinstance(choice, Refusal):
        raise errors.Refused(f"{instance.name} has nowhere to go: {choice.reason}")
    return choice.node
