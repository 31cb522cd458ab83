"""What the daemon knows of the replicas of an instance, as JSON values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.disks import drbd, replicas
from ...plugins.plugin_utils import out_of_sync, replica_evidence, split_brains
from ...plugins.plugin_utils.cluster import changes, known_off
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.disks import possible_loss, replica_texts, unfinished_moves
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.silent_nodes import dead_nodes
from ..jobs import values
from . import at_work, reported_replicas

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ..jobs.queue import Queue
    from ..maintenance.reports import Intake
    from .snapshots import Snapshot


AHEAD = 5.0
"""Seconds after its acceptance by which a report may be dated until its node's clock is told to be wrong."""


def clock(node: clusters.Node, intake: Intake) -> list[str]:
    """A sentence where a node's clock is ahead, so that it may date the loss of its peer too late."""
    seconds = intake.ahead(node.uuid)
    if seconds <= AHEAD:
        return []
    text = (
        f"The clock of {node.name} is ahead of the controller's: its last report is dated {seconds:.0f} s after it "
        "came, so that a replica there may count as in sync for too long. Set both clocks right (NTP)"
    )
    return [text]


def placed(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any]:
    """An instance, its state on record, and the nodes that it is on, by their names."""
    return {
        "uuid": instance.uuid,
        "name": instance.name,
        "primary": cluster.node_name(instance.primary_node),
        "secondaries": [cluster.node_name(uuid) for uuid in instance.secondary_nodes],
        "admin_state": instance.admin_state,
        "disk_template": instance.disk_template,
    }


def parted(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any] | None:
    """Since when a running primary has lost its secondary, and what was known then; None while it has not.

    Times are in unix seconds, `last_in_sync` is null where it is unknown; `step` is what a person does.
    """
    if instance.parted is None:
        return None
    told = dataclasses.asdict(instance.parted)
    last = instance.parted.last_in_sync or None
    text, step = out_of_sync.parted_text(cluster, instance), out_of_sync.parted_step(cluster, instance)
    return {**told, "last_in_sync": last, "node": cluster.node_name(instance.parted.node), "text": text, "step": step}


def moving(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, str] | None:
    """Where a migration that has not ended may have taken an instance, and what a person does; None where none has."""
    if not instance.moving:
        return None
    text, step = unfinished_moves.sentence(cluster, instance), unfinished_moves.step(cluster, instance)
    return {"node": cluster.node_name(instance.moving), "text": text, "step": step}


def all_moving(
    cluster: clusters.Cluster, intake: Intake, queue: Queue, *, places: AbstractSet[str] | None = None
) -> list[dict[str, str]]:
    """The same of all instances by name, or of those that may run on these nodes (UUIDs); not while jobs are at it."""
    moved = [instance for instance in cluster.instances.values() if instance.moving]
    found = [instance for instance in moved if places is None or not places.isdisjoint(instance.places)]
    seen, busy = contract.observed(cluster, intake) if found else cluster, in_jobs(queue) if found else set()
    told = {instance.name: moving(seen, instance) or {} for instance in found if instance.uuid not in busy}
    return [{"instance": name, **told[name]} for name in sorted(told, key=clusters.natural)]


def degraded(cluster: clusters.Cluster, node: clusters.Node) -> list[dict[str, str]]:
    """The instances with a replica on a node that write without their secondary, each with what a person does."""
    return [
        {
            "instance": instance.name,
            "text": out_of_sync.parted_text(cluster, instance),
            "step": out_of_sync.parted_step(cluster, instance),
        }
        for instance in (*cluster.primaries(node.uuid), *cluster.secondaries(node.uuid))
        if instance.parted is not None
    ]


def down(cluster: clusters.Cluster, node: clusters.Node, intake: Intake, queue: Queue) -> list[str]:
    """The instances (names) that should run on a node whose newest report does not show their disks as primary.

    A report from before the instance last changed does not count, nor does one while a job is about the instance.
    """
    return _down(cluster, node, intake, primaries=cluster.primaries(node.uuid), busy=in_jobs(queue))


def all_down(seen: Snapshot, intake: Intake, *, busy: Collection[str]) -> dict[str, str]:
    """All instances (names) that `down` has of any node, with its name; jobs are about those in `busy` (UUIDs)."""
    cluster, held = seen.cluster, seen.holdings
    return {
        name: node.name
        for node in cluster.nodes.values()
        for name in _down(cluster, node, intake, primaries=held.primaries(node.uuid), busy=busy)
    }


def in_jobs(queue: Queue) -> set[str]:
    """The objects (UUIDs) that jobs are about which have begun and not ended; others may be held for ever."""
    return {uuid for job in queue.jobs.values() if job.has_begun and not job.is_final for uuid in job.names}


def _down(
    cluster: clusters.Cluster,
    node: clusters.Node,
    intake: Intake,
    *,
    primaries: list[clusters.Instance],
    busy: Collection[str],
) -> list[str]:
    track = intake.tracks.get(node.uuid)
    is_heard = _is_asked(cluster, node, intake) and intake.is_current(node.uuid) and cluster.maintenance.epo is None
    if track is None or not track.is_known or not is_heard:
        return []
    return [
        instance.name
        for instance in primaries
        if instance.is_up
        and not instance.moving
        and not instance.is_unfinished
        and instance.uuid not in busy
        and instance.mtime < track.at.wall
        if not all(_may_be_primary(track, resource) for resource in replica_evidence.resources(instance))
    ]


@dataclasses.dataclass(frozen=True)
class FailedDisk:
    """A replica whose disk has failed, on a node (name); the texts have no full stop."""

    instance: clusters.Instance
    node: str
    text: str
    step: str


def failed_disks(
    cluster: clusters.Cluster, node: str, intake: Intake, *, instances: Iterable[clusters.Instance]
) -> list[FailedDisk]:
    """The replicas of these instances whose disk has failed by the newest report of a node (UUID) that counts."""
    track = intake.tracks.get(node)
    if track is None or not intake.is_current(node):
        return []
    volumes = track.volumes.items()
    gone = {name for (name, _), volume in volumes if volume.fact is not None and volume.fact.disk.is_gone}
    if not gone:
        return []
    named = [(instance, gone.intersection(replica_evidence.resources(instance))) for instance in instances]
    return [_failed_disk(cluster, instance, node, track, names) for instance, names in named if names]


def all_failed_disks(seen: Snapshot, intake: Intake) -> list[FailedDisk]:
    """Those of all nodes, by the names of their instances."""

    def held(uuid: str) -> Iterator[clusters.Instance]:
        yield from seen.holdings.primaries(uuid)
        yield from seen.holdings.secondaries(uuid)

    nodes = sorted(seen.cluster.nodes.values(), key=lambda node: clusters.natural(node.name))
    found = [
        disk for node in nodes for disk in failed_disks(seen.cluster, node.uuid, intake, instances=held(node.uuid))
    ]
    return sorted(found, key=lambda disk: clusters.natural(disk.instance.name))


def unmeasured(cluster: clusters.Cluster, intake: Intake) -> list[dict[str, str]]:
    """The secondaries that are in sync and of which no agent saw that, each with a sentence; where agents are asked."""
    if not cluster.maintenance.settings.agent_port:
        return []
    return [
        {"node": cluster.node_name(uuid), "text": _unmeasured_text(cluster.node_name(uuid), instance.name)}
        for instance in sorted(cluster.instances.values(), key=lambda known: clusters.natural(known.name))
        for uuid in instance.secondary_nodes
        if (track := intake.tracks.get(uuid)) is not None
        and intake.is_current(uuid)
        and _is_unmeasured(track, instance)
    ]


def _is_unmeasured(track: replicas.NodeTrack, instance: clusters.Instance) -> bool:
    names = replica_evidence.resources(instance)
    facts = [volume.fact for name in names for volume in track.of_resource(name).values()]
    return any(fact is not None and fact.is_in_sync and not fact.seen for fact in facts)


def _unmeasured_text(node: str, instance: str) -> str:
    return (
        f"the replica of {instance} on {node} is in sync, and no agent there has seen that by protocol C, so what a "
        f"failover to it may lose is unknown, and none goes on unattended: see that the agent runs on {node}, and that "
        "`drbdsetup show` has protocol C and a ping-int of at most 10 there"
    )


def _failed_disk(
    cluster: clusters.Cluster,
    instance: clusters.Instance,
    uuid: str,
    track: replicas.NodeTrack,
    names: AbstractSet[str],
) -> FailedDisk:
    facts = [volume.fact for name in names for volume in track.of_resource(name).values()]
    states = "/".join(sorted({fact.disk.value for fact in facts if fact is not None and fact.disk.is_gone}))
    node = cluster.node_name(uuid)
    effect = "its writes reach only its other replica" if uuid == instance.primary_node else "no write reaches it"
    text = f"the disk of {instance.name} on {node} has failed ({states}), and {effect}"
    return FailedDisk(instance, node, text, f"replace it, then run `roundsman instance repair-disks {instance.name}`")


def _may_be_primary(track: replicas.NodeTrack, resource: str) -> bool:
    if resource in track.unread:
        return True
    facts = [volume.fact for volume in track.of_resource(resource).values()]
    return any(fact is not None and fact.role is drbd.Role.PRIMARY for fact in facts)


def explain(
    cluster: clusters.Cluster,
    name: str,
    *,
    intake: Intake,
    queue: Queue,
    failing: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What is known of the replicas of an instance, and whether it could fail over if its primary's node died now.

    `at_work` are the jobs that change it now.
    `moving` is null while jobs change it, and where no migration may have taken it elsewhere.
    `is_down` says that it should run, and that its primary's newest report does not show its disks as primary.
    `split` says what each of its nodes wrote since both were promoted apart; null while that is not so.
    `being_made` says that it may be written to a new replica and not to its secondary; null while that is not so.
    `failover` is null where its primary's node can be asked itself; `broken_off` is the last opcode about it, null
    where that succeeded; `not_outdated` is null unless its secondary reports data that were outdated.
    """
    instance = cluster.instance(name)
    jobs = at_work.on_instances([instance], queue)
    return {
        "failing": list(failing),
        "instance": placed(cluster, instance),
        "at_work": jobs,
        "moving": None if jobs else moving(contract.observed(cluster, intake), instance),
        "failed_disks": [
            {"text": disk.text, "step": disk.step}
            for uuid in instance.nodes
            for disk in failed_disks(cluster, uuid, intake, instances=[instance])
        ],
        "is_down": instance.name in down(cluster, cluster.nodes[instance.primary_node], intake, queue),
        "parted": parted(cluster, instance),
        "being_made": out_of_sync.made_text(cluster, instance) or None,
        "split": split_brains.text(instance, split_brains.sides(cluster, instance, intake.tracks)) or None,
        "not_outdated": _not_outdated(cluster, instance, intake, queue),
        "replicas": [
            fact for uuid in instance.nodes for fact in reported_replicas.facts(cluster, instance, uuid, intake)
        ],
        "failover": _failover(cluster, instance, intake),
        "broken_off": _broken_off(instance, queue),
    }


def _not_outdated(cluster: clusters.Cluster, instance: clusters.Instance, intake: Intake, queue: Queue) -> str | None:
    """A sentence where a secondary was outdated, and has reported since then that it could start all the same."""
    if instance.parted is None or len(instance.secondary_nodes) != 1:
        return None
    secondary = instance.secondary_nodes[0]
    ended = [
        (opcode.ended, job.id)
        for job in queue.jobs.values()
        for opcode in job.opcodes
        if opcode.kind == "outdate_replica" and opcode.status is values.Status.SUCCESS
        if opcode.params == {"instance": instance.uuid, "node": secondary} and opcode.ended > instance.parted.since
    ]
    track, names = intake.tracks.get(secondary), replica_evidence.resources(instance)
    if not ended or track is None or not replicas.to_outdate(intake.tracks.get(instance.primary_node), track, names):
        return None
    at, number = max(ended)
    if track.at.wall <= at:
        return None
    facts = [fact for found in replica_evidence.newest(intake.tracks, [secondary], instance) for fact in found.values()]
    disks = sorted({fact.disk.value for fact in facts if fact is not None and fact.disk is not drbd.Disk.OUTDATED})
    node = cluster.node_name(secondary)
    return (
        f"{node} reports its replica of {instance.name} as {'/'.join(disks)}, although job {number} outdated it at "
        f"{replica_texts.clock(at)}; it is outdated again less and less often. Do not start {instance.name} there: its "
        f"data are old. Compare `drbdadm dstate {' '.join(names)}` on {node} with its report"
    )


def _broken_off(instance: clusters.Instance, queue: Queue) -> dict[str, Any] | None:
    """The job whose opcode about an instance ended last, and its text, unless that succeeded."""
    ended = [
        (opcode.ended, job.id, opcode)
        for job in queue.jobs.values()
        for opcode in job.opcodes
        if opcode.ended and opcode.params.get("instance") == instance.uuid
    ]
    if not ended:
        return None
    _, number, last = max(ended, key=lambda entry: entry[:2])
    return None if last.status is values.Status.SUCCESS or not last.text else {"job": number, "text": last.text}


def stated_off(
    cluster: clusters.Cluster, node: clusters.Node, stated: Sequence[changes.Change], intake: Intake
) -> dict[str, Any]:
    """What follows of a person's statement that a node is off, by the newest reports: for each instance on DRBD there.

    One that a migration may have taken there, or from there, has no number: its play asks where it is.
    `since` is unix seconds; `loss` is null where there is no number, `seconds` too; `unblock` is what a person does.
    """
    after = changes.apply_all(cluster, list(stated), now=intake.now.wall)
    told = after.nodes[node.uuid]
    found = replica_evidence.of_nodes(after, _Stated(intake), [node.uuid])
    for instance in after.possibly_running(node.uuid):
        if (moved := moving(after, instance)) is not None:
            found[instance.uuid] = possible_loss.Answer(
                possible_loss.Verdict.ASK, reason=moved["text"], unblock=moved["step"]
            )
    return {
        "node": node.name,
        "since": known_off.seen_off(told),
        "by": known_off.stated_by(told) or None,
        "instances": [
            {
                "instance": cluster.instances[uuid].name,
                "seconds": answer.seconds,
                "loss": None if answer.seconds is None else possible_loss.text(answer.seconds),
                "reason": answer.reason,
                "unblock": answer.unblock,
            }
            for uuid, answer in found.items()
        ],
    }


class _Stated:
    """What is known of nodes beside a statement: since when one was known to be off before does not count."""

    def __init__(self, intake: Intake) -> None:
        self.tracks, self.now = intake.tracks, intake.now
        self.offs: Mapping[str, replicas.Moment] = {}


def failovers(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> list[dict[str, Any]]:
    """Whether each instance could fail over whose primary is a node that cannot be asked itself."""
    found = ((instance, _failover(cluster, instance, intake)) for instance in cluster.primaries(node.uuid))
    return [{"instance": instance.name, **verdict} for instance, verdict in found if verdict is not None]


def step_by_hand(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> str | None:
    """What a person does about the instances of a node that cannot be asked; nothing while maintenance is held."""
    if _is_asked(cluster, node, intake) or cluster.maintenance.epo is not None:
        return None
    return dead_nodes.step_by_hand(cluster, node, hangs=hangs(node, intake)) or None


def hangs(node: clusters.Node, intake: Intake) -> bool:
    """Whether a node that does not answer accepts connections all the same, by the last try."""
    text = intake.unreachable.get(node.name, {}).get("text", "")
    return "accepts connections" in text or "hangs" in text


def _is_asked(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> bool:
    return clusters.reachable(cluster, node) and not intake.is_silent(node.uuid)


def _failover(cluster: clusters.Cluster, instance: clusters.Instance, intake: Intake) -> dict[str, Any] | None:
    source = cluster.nodes[instance.primary_node]
    # One that may run on its secondary already is not judged: the play asks that.
    if (
        instance.moving
        or _is_asked(cluster, source, intake)
        or not replica_evidence.resources(instance)
        or not instance.secondary_nodes
    ):
        return None
    found = replica_evidence.estimate(cluster, instance, intake, source=source.uuid, target=instance.secondary_nodes[0])
    loss = None if found.seconds is None else possible_loss.text(found.seconds)
    is_allowed = found.verdict in {possible_loss.Verdict.GO, possible_loss.Verdict.WAIT}
    return {"in_sync": is_allowed, "reason": found.reason, "unblock": found.unblock, "loss": loss}
