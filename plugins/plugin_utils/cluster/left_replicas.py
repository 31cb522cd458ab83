"""Replicas on nodes that are none of their instance's: left behind there, or being made, and the rules of that.

`changes.apply` is the one way in.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence

from . import cluster as clusters
from . import cluster_changes

_GENERATION = re.compile(r"[0-9a-f]{16}")
_LOCAL_DISKS = frozenset({"drbd", "file", "plain"})


@dataclass(frozen=True)
class ReplicaLeft:
    """Whether a node that is not one of an instance's holds something of its disks.

    It was left there, or `is_new`: it is about to be made, to become the new secondary's. `generations` are then those
    of the secondary's replicas, by disk, known not to be newer than those of the primary; empty leaves what is known.
    """

    instance: str
    node: str
    present: bool
    is_new: bool = False
    generations: tuple[str, ...] = ()


def left_behind(cluster: clusters.Cluster, instance: str, node: str) -> Optional[clusters.LeftBehind]:
    """What an instance left behind on a node (UUIDs); None if nothing."""
    known = cluster.maintenance.left_behind
    return next((entry for entry in known if (entry.instance.uuid, entry.node) == (instance, node)), None)


def being_made(cluster: clusters.Cluster, instance: str) -> tuple[clusters.LeftBehind, ...]:
    """The new replicas of an instance (UUID) whose replacement of disks has not ended."""
    return tuple(entry for entry in cluster.maintenance.left_behind if entry.is_new and entry.instance.uuid == instance)


def judged_generations(cluster: clusters.Cluster, instance: str) -> tuple[str, ...]:
    """The generations, by disk, of which an instance's primary had all data when its replacement of disks began.

    Empty where none are on record, or not those of this primary and this secondary.
    """
    made = [entry for entry in being_made(cluster, instance) if entry.generations]
    known = cluster.instances.get(instance)
    if known is None or not made or made[-1].instance.nodes != known.nodes:
        return ()
    return made[-1].generations


def made_on(cluster: clusters.Cluster, node: str) -> tuple[clusters.Instance, ...]:
    """The instances whose replacement of disks has not ended, and was to make a replica on this node (UUID)."""
    left = (entry for entry in cluster.maintenance.left_behind if entry.is_new and entry.node == node)
    return tuple(cluster.instances[entry.instance.uuid] for entry in left if entry.instance.uuid in cluster.instances)


def holding(cluster: clusters.Cluster, instance: clusters.Instance) -> tuple[str, ...]:
    """The nodes (UUIDs) that hold a replica of an instance: its own, and those where it left one behind."""
    left = (entry for entry in cluster.maintenance.left_behind if not entry.is_new)
    return (*instance.nodes, *(entry.node for entry in left if entry.instance.uuid == instance.uuid))


def replica_left(cluster: clusters.Cluster, change: ReplicaLeft, now: float) -> clusters.Cluster:
    """Disks that were adopted, and those of all nodes together, are never Roundsman's to remove: nothing is left."""
    known = left_behind(cluster, change.instance, change.node)
    others = tuple(entry for entry in cluster.maintenance.left_behind if entry is not known)
    if not change.present:
        return cluster_changes.with_maintenance(cluster, now, left_behind=others)
    is_known = known is not None and known.is_new is change.is_new
    if is_known and not change.generations:
        return cluster
    cluster_changes.node_of_uuid(cluster, change.node)
    instance = cluster_changes.instance_of_uuid(cluster, change.instance)
    if instance.disk_template not in _LOCAL_DISKS or instance.adopted_disks:
        return cluster
    generations = change.generations if change.is_new and _are_generations(change.generations, instance) else ()
    if known is None or not is_known:
        left = clusters.LeftBehind(change.node, instance, since=now, is_new=change.is_new, generations=generations)
    elif generations in {(), known.generations}:
        return cluster
    else:
        left = dataclasses.replace(known, instance=instance, generations=generations)
    return cluster_changes.with_maintenance(cluster, now, left_behind=(*others, left))


def none_is_new(cluster: clusters.Cluster, instance: str, now: float) -> clusters.Cluster:
    """The nodes of an instance have changed: what another replacement was making is left behind."""
    if not being_made(cluster, instance):
        return cluster
    found = tuple(
        dataclasses.replace(entry, is_new=False, generations=()) if entry.instance.uuid == instance else entry
        for entry in cluster.maintenance.left_behind
    )
    return cluster_changes.with_maintenance(cluster, now, left_behind=found)


def _are_generations(stated: Sequence[str], instance: clusters.Instance) -> bool:
    """Whether each disk has one. They come from a node: what is none is left out, as the replica must be on record."""
    return len(stated) == len(instance.disks) and all(_GENERATION.fullmatch(generation) for generation in stated)


RULES: Mapping[type, Callable[[clusters.Cluster, Any, float], clusters.Cluster]] = {ReplicaLeft: replica_left}
