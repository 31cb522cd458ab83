"""What belongs to a cluster: parameters, groups, nodes and instances changed as wholes, and the rules of that.

`changes.apply` is the one way in.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from ...module_utils.domain.values import errors
from . import cluster as clusters
from . import cluster_changes, known_off


@dataclass(frozen=True)
class ParametersStand:
    """The cluster's own parameters."""

    parameters: clusters.Parameters


@dataclass(frozen=True)
class GroupStands:
    """A node group has exactly this value."""

    group: clusters.Group


@dataclass(frozen=True)
class GroupGone:
    """A node group is no more."""

    uuid: str


@dataclass(frozen=True)
class NodeStands:
    """A node has exactly this value."""

    node: clusters.Node


@dataclass(frozen=True)
class NodeGone:
    """A node has left the cluster."""

    uuid: str


@dataclass(frozen=True)
class InstanceStands:
    """An instance has exactly this value."""

    instance: clusters.Instance


@dataclass(frozen=True)
class InstanceMade:
    """An instance has come to the end of its making: its disks are there."""

    instance: str


@dataclass(frozen=True)
class InstanceGone:
    """An instance is no more."""

    instance: str


def _parameters_stand(cluster: clusters.Cluster, change: ParametersStand, now: float) -> clusters.Cluster:
    stands = _stands(cluster.cluster, change.parameters, now)
    return cluster if stands is cluster.cluster else dataclasses.replace(cluster, cluster=stands)


def _group_stands(cluster: clusters.Cluster, change: GroupStands, now: float) -> clusters.Cluster:
    known = cluster.nodegroups.get(change.group.uuid)
    stands = _stands(known, change.group, now)
    if stands is known:
        return cluster
    return dataclasses.replace(cluster, nodegroups={**cluster.nodegroups, stands.uuid: stands})


def _group_gone(cluster: clusters.Cluster, change: GroupGone, _now: float) -> clusters.Cluster:
    if change.uuid not in cluster.nodegroups:
        return cluster
    if any(node.group == change.uuid for node in cluster.nodes.values()):
        raise errors.InvalidInput(f"node group {change.uuid} has nodes")
    left = {uuid: group for uuid, group in cluster.nodegroups.items() if uuid != change.uuid}
    return dataclasses.replace(cluster, nodegroups=left)


def _node_stands(cluster: clusters.Cluster, change: NodeStands, now: float) -> clusters.Cluster:
    if change.node.group not in cluster.nodegroups:
        raise errors.NotFound(f"there is no node group with the UUID {change.node.group!r}")
    known = cluster.nodes.get(change.node.uuid)
    wanted = change.node
    if known is not None and known.powered is not wanted.powered:
        since = 0.0 if wanted.powered else known_off.off_since(known, at=now, now=now)
        stated = 0.0 if wanted.powered or known_off.has_lived(known) else wanted.off_confirmed
        by = wanted.off_stated_by if stated else ""
        is_read = not wanted.powered and not stated
        wanted = dataclasses.replace(
            wanted,
            off_since=since,
            off_confirmed=stated,
            off_stated_by=by,
            off_read=is_read,
            powered_on_at=now if wanted.powered else 0.0,
        )
    stands = _stands(known, wanted, now)
    return cluster if stands is known else clusters.with_node(cluster, stands)


def _node_gone(cluster: clusters.Cluster, change: NodeGone, _now: float) -> clusters.Cluster:
    if change.uuid not in cluster.nodes:
        return cluster
    if any(change.uuid in (*instance.nodes, instance.moving) for instance in cluster.instances.values()):
        raise errors.InvalidInput(f"node {change.uuid} holds instances")
    left = {uuid: node for uuid, node in cluster.nodes.items() if uuid != change.uuid}
    maintenance = cluster.maintenance
    kept = tuple(entry for entry in maintenance.left_behind if entry.node != change.uuid)
    return dataclasses.replace(cluster, nodes=left, maintenance=dataclasses.replace(maintenance, left_behind=kept))


def _instance_stands(cluster: clusters.Cluster, change: InstanceStands, now: float) -> clusters.Cluster:
    wanted = change.instance
    for uuid in wanted.nodes:
        if uuid not in cluster.nodes:
            raise errors.NotFound(f"there is no node with the UUID {uuid!r}")
    known = cluster.instances.get(wanted.uuid)
    if known is None or known.name != wanted.name:
        _refuse_doubled(cluster, wanted)
    stands = _stands(known, wanted, now)
    return cluster if stands is known else clusters.with_instance(cluster, stands)


def _refuse_doubled(cluster: clusters.Cluster, wanted: clusters.Instance) -> None:
    if any(instance.name == wanted.name and instance.uuid != wanted.uuid for instance in cluster.instances.values()):
        raise errors.InvalidInput(f"there is an instance {wanted.name!r} already")


def _instance_made(cluster: clusters.Cluster, change: InstanceMade, now: float) -> clusters.Cluster:
    if change.instance not in cluster.instances:
        raise errors.NotFound(f"there is no instance with the UUID {change.instance!r}")
    instance = cluster.instances[change.instance]
    tags = tuple(tag for tag in instance.tags if tag != clusters.UNFINISHED)
    return _instance_stands(cluster, InstanceStands(dataclasses.replace(instance, tags=tags)), now)


def _instance_gone(cluster: clusters.Cluster, change: InstanceGone, _now: float) -> clusters.Cluster:
    if change.instance not in cluster.instances:
        return cluster
    left = {uuid: instance for uuid, instance in cluster.instances.items() if uuid != change.instance}
    return dataclasses.replace(cluster, instances=left)


def _stands(known: Any, wanted: Any, now: float) -> Any:
    """The wanted value, dated; the known one when it says the same."""
    if known is None:
        return dataclasses.replace(wanted, serial_no=1, ctime=now, mtime=now)
    kept = {"serial_no": known.serial_no, "ctime": known.ctime, "mtime": known.mtime}
    if dataclasses.replace(wanted, **kept) == known:
        return known
    return dataclasses.replace(wanted, ctime=known.ctime, **cluster_changes.touched(known, now=now))


RULES: Mapping[type, Callable[[clusters.Cluster, Any, float], clusters.Cluster]] = {
    ParametersStand: _parameters_stand,
    GroupStands: _group_stands,
    GroupGone: _group_gone,
    NodeStands: _node_stands,
    NodeGone: _node_gone,
    InstanceStands: _instance_stands,
    InstanceMade: _instance_made,
    InstanceGone: _instance_gone,
}
