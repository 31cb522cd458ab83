"""What the controller knows of replicas, put to the rule for a failover; by the daemon, and by hand from its files."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..module_utils.domain.agent import reports
from ..module_utils.domain.disks import drbd, replicas
from ..module_utils.domain.values import errors, ip_addresses
from ..module_utils.storage import drbd_resource
from .cluster import changes, known_off, left_replicas
from .cluster import cluster as clusters
from .disks import possible_loss, replica_texts
from .settings import addresses
from .silent_nodes import dead_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..module_utils.domain.values import tree

REPLICATED = "drbd"
STEP = 60.0
"""Seconds in which the age of a report is counted, so that a plan stays equal; a limit has a margin for the rest."""


class Known(Protocol):
    """What is known of nodes (UUIDs) beside the configuration."""

    @property
    def tracks(self) -> Mapping[str, replicas.NodeTrack]:
        """What they have reported of their replicas."""

    @property
    def offs(self) -> Mapping[str, replicas.Moment]:
        """When they were first known to be off, where that was followed by a clock that nobody sets."""

    @property
    def now(self) -> replicas.Moment:
        """The present."""


@dataclass(frozen=True)
class Answered:
    """What the survivor answered: when (unix seconds), how long it was up then, and each disk.

    `since_off` has the seconds from when the source was first known to be off until then, None while it is not known;
    `stated_by` who says so, '' for its BMC; `is_recorded` whether that is on record. The survivor answered `passed`
    seconds ago. `has_generations` is False where it was not asked for them.
    """

    asked: float
    uptime: float
    disks: tuple[possible_loss.Disk, ...]
    since_off: float | None
    stated_by: str = ""
    has_generations: bool = True
    is_recorded: bool = True
    passed: float = 0.0


def resources(instance: clusters.Instance) -> tuple[str, ...]:
    """The DRBD resources of an instance, one for each disk; none where its disks are not replicated."""
    if instance.disk_template != REPLICATED:
        return ()
    named = (
        drbd_resource.name(instance.name, instance.uuid, number, adopted=disk.name)
        for number, disk in enumerate(instance.disks)
    )
    return tuple(dict.fromkeys(named))


def newest(
    tracks: Mapping[str, replicas.NodeTrack], nodes: Iterable[str], instance: clusters.Instance
) -> list[dict[int, replicas.ReplicaFact | None]]:
    """What these nodes (UUIDs) report of the replicas of an instance, without ages and amounts, which are no news."""
    known = [tracks[uuid] for uuid in nodes if uuid in tracks]
    return [
        {
            number: None if volume.fact is None else volume.fact.news
            for number, volume in track.of_resource(name).items()
        }
        for name in resources(instance)
        for track in known
    ]


def max_loss(cluster: clusters.Cluster, node: str) -> int:
    """Seconds of writes that a failover from this node (UUID) may lose if no person accepts more."""
    known = cluster.nodes.get(node)
    group = cluster.nodegroups.get(known.group) if known is not None else None
    limits = (group.failover_max_loss if group is not None else None, cluster.cluster.failover_max_loss)
    return next((limit for limit in limits if limit is not None), possible_loss.MAX_LOSS)


def judge(
    cluster: clusters.Cluster,
    instance: clusters.Instance,
    known: Known,
    answered: Answered,
    *,
    source: str,
    target: str,
    accepted: int | None = None,
) -> possible_loss.Answer:
    """Whether an instance may start on the target (UUID) by what that has answered, though the source is not asked.

    `accepted` is how many seconds of writes a person gives up at most, None where nobody did.
    """
    made = left_replicas.being_made(cluster, instance.uuid)
    asked = possible_loss.Question(
        instance=instance.name,
        source=cluster.node_name(source),
        target=cluster.node_name(target),
        asked=answered.asked,
        uptime=answered.uptime,
        disks=_with_generations(instance, known, answered, nodes=(source, target)),
        since_off=answered.since_off,
        limit=max_loss(cluster, source),
        accepted=accepted,
        word=_own_word(instance, known.tracks.get(source), source),
        unfinished=_written_elsewhere(cluster, source, target, made),
        finish=replica_texts.finish_step(instance.name, cluster.node_name(made[-1].node), cluster.node_name(target))
        if made
        else "",
        confirm=dead_nodes.to_confirm(cluster.nodes[source]),
        stated_by=answered.stated_by,
        is_recorded=answered.is_recorded,
        passed=answered.passed,
        option=f" --to {cluster.node_name(target)}" if target == instance.primary_node else "",
    )
    return possible_loss.judge(asked)


def estimate(
    cluster: clusters.Cluster,
    instance: clusters.Instance,
    known: Known,
    *,
    source: str,
    target: str,
    accepted: int | None = None,
) -> possible_loss.Answer:
    """The same by the newest report of the target, before it is asked.

    What it may have seen since is not known, and it was not asked by this controller's clock: the number is no larger
    than what it would answer.
    """
    track, node = known.tracks.get(target), cluster.nodes[source]
    volumes = [
        volume
        for name in resources(instance)
        for _, volume in sorted(track.of_resource(name).items() if track is not None else ())
    ]
    address = replication_address(cluster, source)
    disks = [_reported(volume, address) for volume in volumes]
    asked = track.accepted if track is not None else known.now
    off = known.offs.get(source) or replicas.Moment(known_off.seen_off(node))
    answered = Answered(
        asked=asked.wall,
        uptime=math.inf,
        # Nothing speaks against disks of which nothing is known: the target is asked.
        disks=tuple(disks) or (possible_loss.Disk("it", drbd.Disk.UP_TO_DATE.value),),
        since_off=_elapsed(off, asked) if known_off.is_known_off(node) else None,
        stated_by=known_off.stated_by(node),
        has_generations=bool(volumes)
        and all(volume.fact is not None and volume.fact.current is not None for volume in volumes),
        passed=max(0.0, known.now.after(asked) // STEP * STEP),
    )
    return judge(cluster, instance, known, answered, source=source, target=target, accepted=accepted)


def basis(cluster: clusters.Cluster, instance: clusters.Instance) -> list[float | str]:
    """On what the refusal of a failover rests beside the target's answer: it stands while this is the same."""
    source = instance.primary_node
    moving = cluster.nodes.get(instance.moving)
    unfinished: list[float | str] = [] if moving is None else [known_off.seen_off(moving), moving.uuid]
    known = [max_loss(cluster, source), known_off.seen_off(cluster.nodes[source])]
    return [*known, replication_address(cluster, source), *instance.nodes, *unfinished]


def _reported(volume: replicas.Track, address: str) -> possible_loss.Disk:
    fact = volume.fact
    if fact is None:
        return possible_loss.Disk("it", drbd.Disk.UP_TO_DATE.value)
    return possible_loss.Disk(
        text=fact.resource,
        state=fact.disk.value,
        is_connected=fact.is_connected,
        age=dict(fact.seen).get(address),
        current=fact.current,
        bitmap=fact.bitmap,
    )


def _elapsed(off: replicas.Moment, now: replicas.Moment) -> float:
    """Seconds from one moment to another, by the clock that says less: what is lost is larger then."""
    return min(now.after(off), now.wall - off.wall)


def replication_address(cluster: clusters.Cluster, node: str) -> str:
    """The address of a node (UUID) in the resource files of its peers, '' where only its name is on record."""
    address = addresses.replicating(cluster.nodes[node])
    return ip_addresses.normal(address) if ip_addresses.is_address(address) else ""


def _own_word(instance: clusters.Instance, track: replicas.NodeTrack | None, source: str) -> float:
    """When the source said that it has lost its secondary, in its reports or on record, and did not take it back."""
    names, stands = resources(instance), instance.parted
    said = replicas.lost_peer(track, names)
    if said or stands is None or stands.node != source:
        return said
    volumes = [list(track.of_resource(name).values()) if track is not None else [] for name in names]
    later = [volume.in_sync is not None and volume.in_sync.wall > stands.since for disk in volumes for volume in disk]
    # A disk that it does not report any more is not known to be in sync.
    return 0.0 if all(volumes) and all(later) else stands.since


def _with_generations(
    instance: clusters.Instance, known: Known, answered: Answered, *, nodes: Sequence[str]
) -> tuple[possible_loss.Disk, ...]:
    """The disks with the generation that each had when one of these nodes (UUIDs) last reported it in sync."""
    tracks = [known.tracks[uuid] for uuid in nodes if uuid in known.tracks]
    volumes = sorted({volume for track in tracks for volume in track.volumes if volume[0] in resources(instance)})
    order = [volume for name in resources(instance) for volume in volumes if volume[0] == name]
    if len(order) != len(answered.disks) or not answered.has_generations:
        return answered.disks
    return tuple(
        _with_generation(disk, [track.volumes[volume] for track in tracks if volume in track.volumes], answered)
        for volume, disk in zip(order, answered.disks, strict=True)
    )


def _with_generation(
    disk: possible_loss.Disk, volumes: Iterable[replicas.Track], answered: Answered
) -> possible_loss.Disk:
    """A disk with the generation of the last report that says in sync, and with those before if it was seen later."""
    found = [(volume.in_sync.wall, volume.generation) for volume in volumes if volume.in_sync is not None]
    at, generation = max(found, key=lambda report: report[0], default=(0.0, None))
    is_older = disk.age is not None and answered.asked - disk.age > at
    return dataclasses.replace(disk, recorded=generation, ancestors=disk.ancestors if is_older else ())


def _written_elsewhere(cluster: clusters.Cluster, source: str, target: str, made: Sequence[clusters.LeftBehind]) -> str:
    """That the source may write to a new replica and not to the target any more, or ''."""
    if not made:
        return ""
    nodes, name = " or ".join(cluster.node_name(replica.node) for replica in made), cluster.node_name(target)
    since = replica_texts.clock(min(replica.since for replica in made))
    return (
        f"{cluster.node_name(source)} may have written to a new replica on {nodes} and not to {name} any more since "
        f"{since}, because replace-disks has not ended. Keep that replica: it may have what {name} lacks"
    )


def of_unreachable(cluster: clusters.Cluster, known: Known) -> dict[str, possible_loss.Answer]:
    """By instance (UUID) the estimate for its secondary, of all whose primary has an incident and is not contacted."""
    nodes = {incident.node for incident in cluster.maintenance.incidents if incident.is_open and incident.evacuates}
    return of_nodes(cluster, known, nodes)


def of_nodes(
    cluster: clusters.Cluster, known: Known, nodes: Iterable[str], *, accepted: int | None = None
) -> dict[str, possible_loss.Answer]:
    """The same of those of these nodes (UUIDs) that are not contacted; `accepted` as for `judge`."""
    dead = [uuid for uuid in nodes if uuid in cluster.nodes and not clusters.reachable(cluster, cluster.nodes[uuid])]
    found = {}
    for uuid in dead:
        for instance in cluster.primaries(uuid):
            # One that may run on its secondary already is not judged: the play asks that.
            if resources(instance) and instance.secondary_nodes and not instance.moving:
                secondary = instance.secondary_nodes[0]
                found[instance.uuid] = estimate(
                    cluster, instance, known, source=uuid, target=secondary, accepted=accepted
                )
    return found


class Files:
    """What the accepted reports on disk say, for a play by hand without the daemon.

    Of each node only the last report is there. `only` are the nodes (UUIDs) whose reports are read, None for all.
    """

    def __init__(
        self, where: tree.Tree, cluster: clusters.Cluster, *, now: float, only: Collection[str] | None = None
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._tracks: dict[str, replicas.NodeTrack] = {}
        try:
            key = where.hmac_key.read_bytes()
            for path in where.reports.glob("*.json"):
                if only is not None and not path.name.startswith(tuple(only)):
                    continue
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

    @property
    def offs(self) -> Mapping[str, replicas.Moment]:
        """As `Known.offs`: nobody has followed a clock."""
        return {}

    @property
    def now(self) -> replicas.Moment:
        """As `Known.now`."""
        return replicas.Moment(self._now)

    @staticmethod
    def is_silent(_node: str) -> bool:
        """Nothing is known of who answers: the play finds out itself."""
        return False


def returned(
    cluster: clusters.Cluster, tracks: Mapping[str, replicas.NodeTrack], nodes: Iterable[str], *, now: float
) -> list[changes.NodeLived]:
    """Which nodes live though they were known to be off, by new reports of these (UUIDs), and it is not on record yet.

    What was recorded by a clock that was ahead came before a report that comes `now` (unix seconds).
    """
    heard = frozenset(nodes)
    off = {uuid: known_off.recorded_off(node) for uuid, node in cluster.nodes.items() if known_off.is_known_off(node)}
    own = [uuid for uuid, since in off.items() if uuid in heard and (tracks[uuid].at.wall >= since or since > now)]
    return [changes.NodeLived(uuid) for uuid in own]
