"""What the controller knows of replicas, put to the rule for a failover; by the daemon, and by hand from its files."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from ..module_utils.domain import (
    changes,
    dead_nodes,
    errors,
    evidence,
    known_off,
    left_replicas,
    replicas,
    report_ages,
    reports,
)
from ..module_utils.domain import cluster as clusters
from ..module_utils.storage import drbd_resource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..module_utils.domain import tree

REPLICATED = "drbd"


class Known(Protocol):
    """What is known of nodes (UUIDs) beside the configuration."""

    @property
    def tracks(self) -> Mapping[str, replicas.NodeTrack]:
        """What they have reported of their replicas."""

    def life(self, node: str) -> evidence.Life:
        """Until when a node has lived."""


def resources(instance: clusters.Instance) -> tuple[str, ...]:
    """The DRBD resources of an instance, one for each disk; none where its disks are not replicated."""
    if instance.disk_template != REPLICATED:
        return ()
    named = (
        disk.name or drbd_resource.name(instance.name, instance.uuid, number)
        for number, disk in enumerate(instance.disks)
    )
    return tuple(dict.fromkeys(named))


def newest(
    tracks: Mapping[str, replicas.NodeTrack], nodes: Iterable[str], instance: clusters.Instance
) -> list[dict[int, replicas.ReplicaFact | None]]:
    """What these nodes (UUIDs) report of the replicas of an instance, to see whether something of it is new."""
    known = [tracks[uuid] for uuid in nodes if uuid in tracks]
    return [
        {number: volume.fact for number, volume in track.of_resource(name).items()}
        for name in resources(instance)
        for track in known
    ]


def interval(cluster: clusters.Cluster) -> float:
    """Seconds between two reports of a node of this cluster."""
    return report_ages.cycle(cluster.maintenance.settings, nodes=len(cluster.nodes))


def window(cluster: clusters.Cluster) -> float:
    """Seconds for which a fact counts in this cluster, and a node may go without a question (`evidence.window`)."""
    return evidence.window(interval(cluster))


def judge(
    cluster: clusters.Cluster, instance: clusters.Instance, known: Known, *, source: str, target: str
) -> evidence.Evidence:
    """Whether the replica on the target (UUID) counts as in sync though the source cannot be asked."""
    made = left_replicas.being_made(cluster, instance.uuid)
    asked = evidence.Question(
        instance=instance.name,
        resources=resources(instance),
        source=source,
        target=target,
        source_name=cluster.node_name(source),
        target_name=cluster.node_name(target),
        life=known.life(source),
        interval=interval(cluster),
        parted=instance.parted,
        made_on=tuple(cluster.node_name(replica.node) for replica in made),
        made_since=min((replica.since for replica in made), default=0.0),
        confirm_again=dead_nodes.to_know_power(cluster, cluster.nodes[source]),
    )
    return evidence.judge(asked, known.tracks)


def made_text(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """Since when an instance may write to a new replica and not to its secondary, with what ends that; or ''."""
    made = left_replicas.being_made(cluster, instance.uuid)
    if not made:
        return ""
    nodes = [cluster.node_name(replica.node) for replica in made]
    since = evidence.clock(min(replica.since for replica in made))
    secondary = _secondaries(cluster, instance)
    return (
        f"since {since} {instance.name} may be written to a new replica on {' or '.join(nodes)} and not to {secondary} "
        "any more: replace-disks has not ended. Unless a job is at work on it, finish that with "
        f"{evidence.finish_step(instance.name, nodes[-1], secondary)}"
    )


def life(
    cluster: clusters.Cluster,
    node: str,
    *,
    now: replicas.Moment,
    alive: replicas.Moment | None,
    asked: evidence.Asked | None,
) -> evidence.Life:
    """What was seen of a node (UUID), and what the configuration adds: what its BMC said, and since when it is off."""
    known = cluster.nodes.get(node)
    if known is None:
        return evidence.Life(now, alive, asked, is_asked=False)
    shown = replicas.Moment(known.alive_at) if known.alive_at else None
    seen_off = known_off.seen_off(known)
    return evidence.Life(
        now,
        replicas.latest(alive, shown),
        asked,
        is_asked=clusters.reachable(cluster, known),
        off=replicas.Moment(seen_off) if seen_off else None,
    )


def of_unreachable(cluster: clusters.Cluster, known: Known) -> dict[str, evidence.Evidence]:
    """By instance (UUID) the evidence for its secondary, of all whose primary has an incident and is not contacted."""
    nodes = {incident.node for incident in cluster.maintenance.incidents if incident.is_open and incident.evacuates}
    return of_nodes(cluster, known, nodes)


def of_nodes(cluster: clusters.Cluster, known: Known, nodes: Iterable[str]) -> dict[str, evidence.Evidence]:
    """The same of those of these nodes (UUIDs) that are not contacted."""
    dead = [uuid for uuid in nodes if uuid in cluster.nodes and not clusters.reachable(cluster, cluster.nodes[uuid])]
    found = {}
    for uuid in dead:
        for instance in cluster.primaries(uuid):
            if resources(instance) and instance.secondary_nodes:
                found[instance.uuid] = judge(cluster, instance, known, source=uuid, target=instance.secondary_nodes[0])
    return found


class Files:
    """What the accepted reports on disk say, for a play by hand without the daemon.

    Of each node only the last report is there, so that less counts as in sync, and never more.
    """

    def __init__(self, where: tree.Tree, cluster: clusters.Cluster, *, now: float) -> None:
        self._cluster = cluster
        self._now = now
        self._tracks: dict[str, replicas.NodeTrack] = {}
        try:
            key = where.hmac_key.read_bytes()
            for path in where.reports.glob("*.json"):
                self._take(path.read_bytes(), path.stat().st_mtime, key=key)
        except OSError as error:
            raise errors.StoreFailed(f"{error.filename}: {error.strerror}") from error

    def _take(self, data: bytes, accepted: float, *, key: bytes) -> None:
        accepts = self._cluster.maintenance.settings.accept_cluster_key
        try:
            report = reports.read(data, cluster_key=key, accept_cluster_key=accepts)
        except errors.ReportRejected:
            return
        at = replicas.made_at(report.timestamp, replicas.Moment(accepted))
        before = self._tracks.get(report.node)
        if before is None or at.after(before.at) > 0:
            self._tracks[report.node] = replicas.followed(None, report.facts, at=at)

    @property
    def tracks(self) -> Mapping[str, replicas.NodeTrack]:
        """As `Known.tracks`."""
        return self._tracks

    def life(self, node: str) -> evidence.Life:
        """As `Known.life`: nobody asks between its reports, so that it may have lived until it was known to be off."""
        found = self._tracks.get(node)
        return life(self._cluster, node, now=replicas.Moment(self._now), alive=found.at if found else None, asked=None)

    @staticmethod
    def is_silent(_node: str) -> bool:
        """Nothing is known of who answers: the play finds out itself."""
        return False


def parted(
    cluster: clusters.Cluster, tracks: Mapping[str, replicas.NodeTrack], nodes: Iterable[str]
) -> list[changes.InstanceParted]:
    """What the newest reports of these nodes (UUIDs) say of pairs that have parted."""
    alone = {uuid: names for uuid in nodes if uuid in tracks and (names := _alone(tracks[uuid]))}
    if not alone:
        return []
    return [
        changes.InstanceParted(instance.uuid, _parted(instance, tracks[instance.primary_node]))
        for instance in cluster.instances.values()
        if instance.primary_node in alone
        and (instance.parted is None or instance.parted.node != instance.primary_node)
        and not alone[instance.primary_node].isdisjoint(resources(instance))
    ]


def returned(
    cluster: clusters.Cluster, tracks: Mapping[str, replicas.NodeTrack], nodes: Iterable[str], *, now: float
) -> list[changes.NodeLived]:
    """Which nodes live though they were known to be off, by new reports of these (UUIDs), and it is not on record yet.

    A node's own report says so, and one of a peer that was still connected to it. What was recorded by a clock that was
    ahead came before a report that comes `now` (unix seconds).
    """
    heard = frozenset(nodes)
    off = {uuid: known_off.recorded_off(node) for uuid, node in cluster.nodes.items() if known_off.is_known_off(node)}
    own = [uuid for uuid, since in off.items() if uuid in heard and (tracks[uuid].at.wall > since or since > now)]
    peers = [
        changes.NodeLived(uuid, at=seen.wall, witness=peer)
        for uuid, (seen, peer) in (_connected(cluster, tracks, off.keys() - own, heard=heard) if off else {}).items()
        if evidence.is_contradicted(replicas.Moment(off[uuid]), seen, interval=interval(cluster))
    ]
    return [*(changes.NodeLived(uuid) for uuid in own), *peers]


def _connected(
    cluster: clusters.Cluster,
    tracks: Mapping[str, replicas.NodeTrack],
    nodes: Collection[str],
    *,
    heard: Collection[str],
) -> dict[str, tuple[replicas.Moment, str]]:
    """When each of these nodes was last connected, by the word of its peers that were heard, and which peer says so."""
    found: dict[str, tuple[replicas.Moment, str]] = {}
    for instance in cluster.instances.values():
        for node, peer in itertools.permutations(instance.nodes, 2):
            if node not in nodes or peer not in heard:
                continue
            volumes = [track for name in resources(instance) for track in tracks[peer].of_resource(name).values()]
            seen = replicas.latest(*(track.in_sync for track in volumes))
            if seen is not None and (node not in found or seen.after(found[node][0]) > 0):
                found[node] = (seen, peer)
    return found


def joined(cluster: clusters.Cluster, tracks: Mapping[str, replicas.NodeTrack]) -> list[changes.InstanceParted]:
    """The instances that have parted, and of which both nodes report in sync again."""
    found = []
    for instance in cluster.instances.values():
        if instance.parted is not None:
            names, since = resources(instance), instance.parted.since
            if all(replicas.are_in_sync(tracks.get(node), names, since=since) for node in instance.nodes):
                found.append(changes.InstanceParted(instance.uuid, None))
    return found


def _alone(track: replicas.NodeTrack) -> set[str]:
    """The resources that a node writes without its peer."""
    return {name for (name, _), volume in track.volumes.items() if volume.fact is not None and volume.fact.is_alone}


def _parted(instance: clusters.Instance, track: replicas.NodeTrack) -> replicas.Parted:
    found = [volume for name in resources(instance) for volume in track.of_resource(name).values()]
    alone = [volume for volume in found if volume.fact is not None and volume.fact.is_alone]
    began = min(volume.apart.wall if volume.apart is not None else track.at.wall for volume in alone)
    last = min(volume.in_sync.wall if volume.in_sync is not None else 0.0 for volume in alone)
    generations = tuple("" if volume.generation is None else f"{volume.generation:016x}" for volume in found)
    known = instance.parted
    if known is not None:
        # It failed over meanwhile: its new primary writes alone, and the pair is apart for as long as before.
        return replicas.Parted(known.since, known.last_in_sync, instance.primary_node, generations)
    return replicas.Parted(began, last, instance.primary_node, generations)


def parted_text(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """Since when an instance writes without its secondary, or ''."""
    stands = instance.parted
    if stands is None:
        return ""
    names = _secondaries(cluster, instance)
    last = (
        f"last seen in sync at {evidence.clock(stands.last_in_sync)}" if stands.last_in_sync else "never seen in sync"
    )
    return (
        f"{instance.name} is degraded since {evidence.clock(stands.since)}: {cluster.node_name(stands.node)} reported "
        f"that it lost {names} ({last})"
    )


def parted_step(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    """What a person does about an instance that writes without its secondary, or ''."""
    if instance.parted is None:
        return ""
    made = left_replicas.being_made(cluster, instance.uuid)
    names = _secondaries(cluster, instance)
    if made:
        step = evidence.finish_step(instance.name, cluster.node_name(made[-1].node), names)
        return f"unless a job is at work on it, run {step}"
    return (
        f"restore the replication link between {cluster.node_name(instance.primary_node)} and {names} (and {names}, if "
        f"it is down), then run `roundsman instance repair-disks {instance.name}`"
    )


def _secondaries(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    return " and ".join(cluster.node_name(uuid) for uuid in instance.secondary_nodes) or "its secondary"
