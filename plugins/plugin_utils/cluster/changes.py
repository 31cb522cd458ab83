"""What can become true of a cluster, and the one rule that applies it.

A change states absolute values, so that applying it twice is harmless. The daemon, a play by hand and the replay of
a run's `changes.jsonl` all go through `apply`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence, Union

from ...module_utils.domain.disks import replicas  # noqa: TC001 - pydantic reads the annotations at run time
from ...module_utils.domain.values import errors
from . import cluster as clusters
from . import cluster_changes, epo, incidents, job_filters, known_off, left_replicas, membership, tagging


@dataclass(frozen=True)
class InstanceNodes:
    """Where an instance is: its primary and the nodes of its other replicas (UUIDs)."""

    instance: str
    primary: str
    secondaries: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstanceState:
    """Whether an instance shall be `up` or `down`."""

    instance: str
    admin_state: str


@dataclass(frozen=True)
class InstanceMoving:
    """A migration begins that may take an instance to a node (UUID): until `InstanceNodes`, it may run there."""

    instance: str
    node: str


@dataclass(frozen=True)
class InstanceParted:
    """A running primary has lost its secondary, or (None) both report in sync again."""

    instance: str
    parted: Optional[replicas.Parted]


@dataclass(frozen=True)
class NodeRole:
    """Whether a node is drained, offline and a master candidate."""

    node: str
    drained: bool
    offline: bool
    master_candidate: bool


@dataclass(frozen=True)
class NodePowered:
    """The power state of record of a node; with power, or a commanded off, nobody's statement stands any more.

    `confirms` says whether off is a new confirmation: a reading alone, or what the daemon commanded by itself, leaves a
    node that has lived since it was known to be off as it is. `commanded` says whether a command was sent before the
    state was read back: else a node that reads off is not known to be off, and the next commanded off dates it, and one
    that reads on as it is recorded was not powered on now.
    """

    node: str
    powered: bool
    confirms: bool = True
    commanded: bool = True


@dataclass(frozen=True)
class NodeOffConfirmed:
    """Since when a person, the user `by`, states that a node has no power (unix seconds); 0 takes that back."""

    node: str
    at: float
    by: str = ""


@dataclass(frozen=True)
class NodeLived:
    """A node has shown that it lives, other than by a report: its BMC reads on, or it accepts connections.

    `at` is when it did (unix seconds), 0 for the time at which this is recorded. `witness` is the other node (UUID)
    whose report says so, if one does.
    """

    node: str
    at: float = 0.0
    witness: str = ""


@dataclass(frozen=True)
class IncidentStands:
    """An incident has exactly this value."""

    incident: incidents.Incident


@dataclass(frozen=True)
class IncidentForgotten:
    """An incident is no more."""

    uuid: str


@dataclass(frozen=True)
class RoundStands:
    """The round at work, and its jobs."""

    round: int
    jobs: tuple[int, ...]


@dataclass(frozen=True)
class SettingsStand:
    """The maintenance settings."""

    settings: clusters.Settings


@dataclass(frozen=True)
class EpoStands:
    """An emergency power off, or a return from a loss of power, holds the cluster; one there keeps its beginning."""

    nodes: tuple[str, ...]
    instances: tuple[str, ...]
    by: str
    returning: bool
    lost: bool = False


@dataclass(frozen=True)
class EpoGone:
    """No emergency power off holds the cluster any more."""


@dataclass(frozen=True)
class FilterStands:
    """A filter of the job queue has exactly this value."""

    filter: job_filters.Filter


@dataclass(frozen=True)
class FilterGone:
    """A filter of the job queue is no more."""

    uuid: str


Change = Union[
    InstanceNodes,
    InstanceState,
    InstanceMoving,
    InstanceParted,
    left_replicas.ReplicaLeft,
    NodeRole,
    NodePowered,
    NodeOffConfirmed,
    NodeLived,
    tagging.Tagged,
    IncidentStands,
    IncidentForgotten,
    RoundStands,
    SettingsStand,
    EpoStands,
    EpoGone,
    FilterStands,
    FilterGone,
    membership.ParametersStand,
    membership.GroupStands,
    membership.GroupGone,
    membership.NodeStands,
    membership.NodeGone,
    membership.InstanceStands,
    membership.InstanceMade,
    membership.InstanceGone,
]


def apply(cluster: clusters.Cluster, change: Change, *, now: float) -> clusters.Cluster:
    """The cluster after a change; the same value when the change was true already.

    Raises:
        InvalidInput: the change names an object that the cluster does not have.
    """
    changed = _RULES[type(change)](cluster, change, now)
    if changed is cluster:
        return cluster
    return dataclasses.replace(changed, serial_no=cluster.serial_no + 1, mtime=now)


def _instance_nodes(cluster: clusters.Cluster, change: InstanceNodes, now: float) -> clusters.Cluster:
    for node in (change.primary, *change.secondaries):
        cluster_changes.node_of_uuid(cluster, node)
    instance = cluster_changes.instance_of_uuid(cluster, change.instance)
    for node in (change.primary, *change.secondaries):
        # What it left there is its replica again.
        cluster = left_replicas.replica_left(
            cluster, left_replicas.ReplicaLeft(change.instance, node, present=False), now
        )
    if (change.primary, *change.secondaries) != instance.nodes:
        cluster = left_replicas.none_is_new(cluster, change.instance, now)
    # What was known of a pair says nothing about another one.
    is_same_pair = {change.primary, *change.secondaries} == set(instance.nodes)
    return _put_instance(
        cluster,
        instance,
        now,
        primary_node=change.primary,
        secondary_nodes=tuple(change.secondaries),
        parted=instance.parted if is_same_pair else None,
        moving="",
    )


def _instance_moving(cluster: clusters.Cluster, change: InstanceMoving, now: float) -> clusters.Cluster:
    instance = cluster_changes.instance_of_uuid(cluster, change.instance)
    node = cluster_changes.node_of_uuid(cluster, change.node)
    return _put_instance(cluster, instance, now, moving="" if node.uuid == instance.primary_node else node.uuid)


def _instance_parted(cluster: clusters.Cluster, change: InstanceParted, now: float) -> clusters.Cluster:
    return _put_instance(cluster, cluster_changes.instance_of_uuid(cluster, change.instance), now, parted=change.parted)


def _instance_state(cluster: clusters.Cluster, change: InstanceState, now: float) -> clusters.Cluster:
    if change.admin_state not in {"up", "down"}:
        raise errors.InvalidInput(
            f"instance {change.instance}: admin_state {change.admin_state!r} is neither up nor down"
        )
    return _put_instance(
        cluster, cluster_changes.instance_of_uuid(cluster, change.instance), now, admin_state=change.admin_state
    )


def _node_role(cluster: clusters.Cluster, change: NodeRole, now: float) -> clusters.Cluster:
    wanted = {
        "drained": change.drained,
        "offline": change.offline,
        "master_candidate": change.master_candidate,
    }
    return _put_node(cluster, cluster_changes.node_of_uuid(cluster, change.node), now, **wanted)


def _node_powered(cluster: clusters.Cluster, change: NodePowered, now: float) -> clusters.Cluster:
    node = cluster_changes.node_of_uuid(cluster, change.node)
    if not (change.powered or change.confirms) and known_off.has_lived(node):
        return _put_node(cluster, node, now, powered=False, off_since=known_off.seen_off(node))
    is_read = not change.powered and not change.commanded and (node.off_read or not known_off.is_known_off(node))
    # A statement that a sign of life has ended does not count again with what its BMC says.
    ends = change.powered or change.commanded or known_off.has_lived(node)
    stated = 0.0 if ends else node.off_confirmed
    since = 0.0 if change.powered else known_off.off_since(node, at=now, now=now)
    if change.commanded and since and known_off.stated_by(node):
        since = max(since, now)
    by = node.off_stated_by if stated else ""
    return _put_node(
        cluster,
        node,
        now,
        powered=change.powered,
        off_confirmed=stated,
        off_stated_by=by,
        off_since=since,
        off_read=is_read,
        powered_on_at=_powered_on_at(node, change, now),
    )


def _powered_on_at(node: clusters.Node, change: NodePowered, now: float) -> float:
    if change.powered and (change.commanded or known_off.is_off(node)):
        return now
    return node.powered_on_at if change.powered else 0.0


def _node_off_confirmed(cluster: clusters.Cluster, change: NodeOffConfirmed, now: float) -> clusters.Cluster:
    node = cluster_changes.node_of_uuid(cluster, change.node)
    if not change.at:
        since = known_off.off_since_unstated(node)
        # What its BMC read meanwhile was dated by the statement, and is a reading again.
        is_read = not node.powered and (node.off_read or known_off.is_dated_by_statement(node))
        return _put_node(cluster, node, now, off_confirmed=0.0, off_stated_by="", off_since=since, off_read=is_read)
    # A person has looked: what was known of it before may be what was wrong.
    since = change.at if known_off.is_known_off(node) else known_off.off_since(node, at=change.at, now=now)
    return _put_node(cluster, node, now, off_confirmed=change.at, off_stated_by=change.by, off_since=since)


def _node_lived(cluster: clusters.Cluster, change: NodeLived, now: float) -> clusters.Cluster:
    node = cluster_changes.node_of_uuid(cluster, change.node)
    at = known_off.alive_at(node, at=change.at, now=now)
    return clusters.with_node(cluster, dataclasses.replace(node, alive_at=at)) if at != node.alive_at else cluster


def _incident_stands(cluster: clusters.Cluster, change: IncidentStands, now: float) -> clusters.Cluster:
    known = cluster.maintenance.incidents
    if change.incident in known:
        return cluster
    if any(incident.uuid == change.incident.uuid for incident in known):
        stands = tuple(change.incident if incident.uuid == change.incident.uuid else incident for incident in known)
    else:
        stands = (*known, change.incident)
    return cluster_changes.with_maintenance(cluster, now, incidents=stands)


def _incident_forgotten(cluster: clusters.Cluster, change: IncidentForgotten, now: float) -> clusters.Cluster:
    left = tuple(incident for incident in cluster.maintenance.incidents if incident.uuid != change.uuid)
    return cluster_changes.with_maintenance(cluster, now, incidents=left)


def _round_stands(cluster: clusters.Cluster, change: RoundStands, now: float) -> clusters.Cluster:
    return cluster_changes.with_maintenance(cluster, now, round=change.round, jobs=tuple(change.jobs))


def _settings_stand(cluster: clusters.Cluster, change: SettingsStand, now: float) -> clusters.Cluster:
    return cluster_changes.with_maintenance(cluster, now, settings=change.settings)


def _epo_stands(cluster: clusters.Cluster, change: EpoStands, now: float) -> clusters.Cluster:
    for uuid in change.nodes:
        cluster_changes.node_of_uuid(cluster, uuid)
    for uuid in change.instances:
        cluster_changes.instance_of_uuid(cluster, uuid)
    known = cluster.maintenance.epo
    stands = epo.Epo(**dataclasses.asdict(change), since=known.since if known else now)
    return cluster_changes.with_maintenance(cluster, now, epo=stands)


def _put_node(cluster: clusters.Cluster, node: clusters.Node, now: float, **fields: object) -> clusters.Cluster:
    if dataclasses.replace(node, **fields) == node:  # type: ignore[arg-type]
        return cluster
    touched = cluster_changes.touched(node, now=now)
    return clusters.with_node(cluster, dataclasses.replace(node, **fields, **touched))  # type: ignore[arg-type]


def _put_instance(
    cluster: clusters.Cluster, instance: clusters.Instance, now: float, **fields: object
) -> clusters.Cluster:
    if dataclasses.replace(instance, **fields) == instance:  # type: ignore[arg-type]
        return cluster
    touched = cluster_changes.touched(instance, now=now)
    return clusters.with_instance(cluster, dataclasses.replace(instance, **fields, **touched))  # type: ignore[arg-type]


def _filter_stands(cluster: clusters.Cluster, change: FilterStands, _now: float) -> clusters.Cluster:
    if cluster.filters.get(change.filter.uuid) == change.filter:
        return cluster
    return dataclasses.replace(cluster, filters={**cluster.filters, change.filter.uuid: change.filter})


def _filter_gone(cluster: clusters.Cluster, change: FilterGone, _now: float) -> clusters.Cluster:
    if change.uuid not in cluster.filters:
        return cluster
    left = {uuid: rule for uuid, rule in cluster.filters.items() if uuid != change.uuid}
    return dataclasses.replace(cluster, filters=left)


_RULES: Mapping[type, Callable[[clusters.Cluster, object, float], clusters.Cluster]] = {
    InstanceNodes: _instance_nodes,  # type: ignore[dict-item]
    InstanceState: _instance_state,  # type: ignore[dict-item]
    InstanceMoving: _instance_moving,  # type: ignore[dict-item]
    InstanceParted: _instance_parted,  # type: ignore[dict-item]
    NodeRole: _node_role,  # type: ignore[dict-item]
    NodePowered: _node_powered,  # type: ignore[dict-item]
    NodeOffConfirmed: _node_off_confirmed,  # type: ignore[dict-item]
    NodeLived: _node_lived,  # type: ignore[dict-item]
    IncidentStands: _incident_stands,  # type: ignore[dict-item]
    IncidentForgotten: _incident_forgotten,  # type: ignore[dict-item]
    RoundStands: _round_stands,  # type: ignore[dict-item]
    SettingsStand: _settings_stand,  # type: ignore[dict-item]
    EpoStands: _epo_stands,  # type: ignore[dict-item]
    EpoGone: lambda cluster, _, now: cluster_changes.with_maintenance(cluster, now, epo=None),
    FilterStands: _filter_stands,  # type: ignore[dict-item]
    FilterGone: _filter_gone,  # type: ignore[dict-item]
    **left_replicas.RULES,
    **membership.RULES,
    **tagging.RULES,
}


def apply_all(cluster: clusters.Cluster, stated: list[Change], *, now: float) -> clusters.Cluster:
    """The cluster after several changes, in order."""
    for change in stated:
        cluster = apply(cluster, change, now=now)
    return cluster


def sort_out(cluster: clusters.Cluster, stated: Sequence[Change], *, now: float) -> tuple[list[Change], list[str]]:
    """Those changes that can be applied one after the other, and for each of the others why it cannot."""
    applicable: list[Change] = []
    others: list[str] = []
    for change in stated:
        try:
            cluster = apply(cluster, change, now=now)
            applicable.append(change)
        except errors.InvalidInput as error:
            others.append(f"{type(change).__name__} cannot be recorded: {error}")
    return applicable, others
