"""What the daemon tells of its state, as JSON values: incidents, nodes, reports, plans, jobs, explanations."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.module_utils.domain import dead_nodes, known_off, left_replicas, secret_values, signing, tagging
from ...plugins.plugin_utils import whereabouts
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.rounds import holdings, wording
from ..jobs import values
from . import at_work, replica_views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...plugins.module_utils.domain import incidents
    from ...plugins.plugin_utils.rounds import work
    from ...plugins.plugin_utils.rounds.rounds import RoundPlan
    from ..jobs.queue import Queue
    from ..maintenance.heard import Received
    from ..maintenance.reports import Intake
    from .snapshots import Snapshot, Snapshots

Named = TypeVar("Named", clusters.Node, clusters.Instance)


def incident(cluster: clusters.Cluster, incident: incidents.Incident) -> dict[str, Any]:
    """An incident with all fields of seed 000, `original` exactly as the node wrote it.

    Of a large report `original` is an abbreviation, and `original_digest` is not null.
    """
    return {
        "id": incident.uuid,
        "uuid": incident.uuid,
        "node": incident.node,
        "node_name": cluster.node_name(incident.node),
        "original": orjson.Fragment(incident.original),
        "original_digest": incident.digest or None,
        "action": incident.action.value,
        "repair-status": incident.repair_status.value,
        "jobs": list(incident.all_jobs),
        "tag": incident.tag,
        "reason": incident.reason,
        "ctime": incident.ctime,
        "mtime": incident.mtime,
        "serial_no": incident.serial_no,
    }


def status(cluster: clusters.Cluster) -> list[dict[str, Any]]:
    """All incidents that are not forgotten."""
    return [incident(cluster, entry) for entry in cluster.maintenance.incidents]


def remaining(cluster: clusters.Cluster, incident: incidents.Incident, queue: Queue) -> list[str]:
    """What canceling an incident does not undo: opcodes that run, and the node's role."""
    running = [job for job in incident.jobs if job in queue.jobs and queue.jobs[job].status is values.Status.RUNNING]
    left = [f"Job {job} is running: its current step finishes." for job in running]
    node = cluster.nodes.get(incident.node)
    if node is not None and node.offline:
        left.append(f"{node.name} stays offline; bring it back with `roundsman node online {node.name}`.")
    elif node is not None and node.drained:
        left.append(f"{node.name} stays drained; undo that with `roundsman node undrain {node.name}`.")
    return left


def node(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> dict[str, Any]:
    """A node with its role, power and instances, and what it said last."""
    return _node(
        cluster, node, intake, primaries=cluster.primaries(node.uuid), secondaries=cluster.secondaries(node.uuid)
    )


def paused(cluster: clusters.Cluster) -> str:
    """Why maintenance does nothing, or ''."""
    stands = cluster.maintenance.epo
    if stands is None:
        return cluster.maintenance.settings.paused
    left = f"{wording.both(len(stands.nodes), len(stands.instances))} are to return"
    return f"an emergency power off by {stands.by or 'somebody'} stands, {left}: `roundsman cluster epo --on`"


def nodes(seen: Snapshot, intake: Intake) -> list[dict[str, Any]]:
    """All nodes by name; the instances are gone through once, so the cost is O(nodes + instances)."""
    cluster, held = seen.cluster, seen.holdings
    return [
        _node(cluster, node, intake, primaries=held.primaries(node.uuid), secondaries=held.secondaries(node.uuid))
        for node in _by_name(cluster.nodes)
    ]


def _node(
    cluster: clusters.Cluster,
    node: clusters.Node,
    intake: Intake,
    *,
    primaries: list[clusters.Instance],
    secondaries: list[clusters.Instance],
) -> dict[str, Any]:
    problem = intake.problem_of(node.uuid)
    has_oob = clusters.parameter(cluster, node, "oob_program") is not None
    return {
        "uuid": node.uuid,
        "name": node.name,
        "group": cluster.nodegroups[node.group].name,
        "role": clusters.role(cluster, node).value,
        "drained": node.drained,
        "offline": node.offline,
        "powered": node.powered if has_oob else None,
        "off_confirmed": node.off_confirmed or None,
        "off_stated_by": known_off.stated_by(node) or None,
        "lived_at": node.alive_at if known_off.has_lived(node) else None,
        "health": _health(cluster, node, intake),
        "last_report": _report_age(node, intake),
        "problem": dataclasses.asdict(problem) if problem is not None else None,
        "refused": _refused(node, intake),
        "diagnose_difference": _diagnose_difference(cluster, node, intake),
        "unreachable": intake.unreachable.get(node.name),
        "silent": intake.is_silent(node.uuid),
        "deaf": intake.deaf.get(node.uuid) if intake.is_silent(node.uuid) else None,
        "agent": _agent(node, intake),
        "primaries": [instance.name for instance in primaries],
        "secondaries": [instance.name for instance in secondaries],
        "mtotal": node.mtotal,
        "mfree": node.mtotal - node.mnode - sum(map(holdings.memory_in_use, primaries)),
        "left_behind": sorted(
            left.instance.name for left in cluster.maintenance.left_behind if left.node == node.uuid and not left.is_new
        ),
        "being_made": sorted(instance.name for instance in left_replicas.made_on(cluster, node.uuid)),
        "tags": list(node.tags),
    }


def _health(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> str | None:
    """What is known of a node now, in a word; None while it has not reported.

    A node that is known to be off is `off`; `unknown` is one that is offline, that has lived since it was known to be
    off, or whose last report is too old to count.
    """
    if not clusters.reachable(cluster, node):
        return "off" if known_off.is_known_off(node) else "unknown"
    said = _last_said(node, intake)
    return said if said is None or intake.is_current(node.uuid) else "unknown"


def _last_said(node: clusters.Node, intake: Intake) -> str | None:
    problem, last = intake.problem_of(node.uuid), intake.diagnosed.get(node.uuid)
    if problem is not None:
        return problem.reason
    return last.report.diagnosis.status.value if last is not None and last.report.diagnosis is not None else None


def _report_age(node: clusters.Node, intake: Intake) -> dict[str, Any] | None:
    """What a node's last report said, its age in seconds, and up to which age it counts."""
    age = intake.age(node.uuid)
    if age is None:
        return None
    return {"said": _last_said(node, intake), "age": round(age, 3), "limit": intake.age_limit}


def _by_name(objects: Mapping[str, Named]) -> list[Named]:
    return sorted(objects.values(), key=lambda named: clusters.natural(named.name))


def instances(snapshots: Snapshots, intake: Intake) -> orjson.Fragment:
    """All instances by name; after a commit only those are made again that it changed."""
    cluster = snapshots.newest().cluster
    # What ends a migration depends on who answers.
    places = [uuid for instance in cluster.instances.values() if instance.moving for uuid in instance.places]
    silent = [intake.is_silent(uuid) for uuid in places]
    cluster = contract.observed(cluster, intake) if any(silent) else cluster
    inherited = (cluster.cluster, cluster.nodegroups)
    everything = (cluster.instances, cluster.nodes, cluster.maintenance.left_behind, *inherited, *silent)

    def parts(instance: clusters.Instance) -> tuple[object, ...]:
        # How a pair parted names nodes, and what is being made of it; a migration, whether they may be contacted.
        rest = everything if instance.parted is not None or instance.moving else ()
        return (instance, *(cluster.nodes.get(uuid) for uuid in instance.nodes), *rest)

    def make() -> orjson.Fragment:
        members = _by_name(cluster.instances)
        told = snapshots.joined("shown instance", members, parts=parts, make=functools.partial(_instance, cluster))
        return orjson.Fragment(told)

    return orjson.Fragment(snapshots.serialised("shown instances", everything, make))


def _instance(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any]:
    return {
        **replica_views.placed(cluster, instance),
        "hypervisor": instance.hypervisor,
        "memory": instance.memory,
        "disk": instance.disk_size,
        "vcpus": instance.vcpus,
        "parted": replica_views.parted(cluster, instance),
        "moving": replica_views.moving(cluster, instance),
        "disks": [{"size": disk.size, "minor": disk.minor, "name": disk.name} for disk in instance.disks],
        "nics": [dataclasses.asdict(nic) for nic in instance.nics],
        "tags": list(instance.tags),
    }


def job(job: values.Job) -> dict[str, Any]:
    """A job with its opcodes, secrets hidden, and the names of the objects in them."""
    return _job(job, lambda entry: {"params": secret_values.masked(entry.params)})


def public_job(job: values.Job) -> dict[str, Any]:
    """A job for anybody: each opcode in words instead of its parameters, and without the names of users."""
    told = _job(job, lambda entry: {"what": wording.summary(vars(entry), job.names)})
    return {**told, "reason": [entry for entry in told["reason"] if not entry[0].startswith(values.CLIENT)]}


def _job(job: values.Job, tell: Callable[[values.Opcode], dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": job.id,
        "status": job.status.value,
        "text": job.text,
        "priority": job.priority,
        "received": job.received,
        "ended": job.ended or None,
        "depends": [[entry.job, [status.value for status in entry.statuses]] for entry in job.depends],
        "reason": [[entry.source, entry.text, entry.timestamp] for entry in job.reason],
        "names": dict(job.names),
        "opcodes": [
            {
                "kind": entry.kind,
                **tell(entry),
                **({"dry_run": True} if entry.dry_run else {}),
                "status": entry.status.value,
                "text": entry.text,
                "started": entry.started or None,
                "ended": entry.ended or None,
            }
            for entry in job.opcodes
        ],
    }


def plan(cluster: clusters.Cluster, round_plan: RoundPlan, *, is_at_work: bool) -> dict[str, Any]:
    """A plan with the names of its objects; `is_at_work` says that jobs of rounds before it have not ended."""
    named: dict[str, Any] = {**cluster.nodes, **cluster.instances}
    told = dataclasses.asdict(round_plan)
    strings = {
        value
        for entry in round_plan.jobs
        for opcode in entry.opcodes
        for value in opcode.params.values()
        if isinstance(value, str)
    }
    return {
        **told,
        "waits_for_round": is_at_work,
        "held": paused(cluster),
        "names": {uuid: named[uuid].name for uuid in strings if uuid in named},
    }


def reports(cluster: clusters.Cluster, intake: Intake, *, poll_problem: str) -> dict[str, Any]:
    """The last report of each node, the rejected ones by reason, and how the last poll failed if it did."""
    return {
        "poll_problem": poll_problem or None,
        "nodes": {node.name: _last(cluster, node, intake) for node in cluster.nodes.values()},
        "rejected": dict(intake.rejections),
    }


def _last(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> dict[str, Any]:
    problem = intake.problem_of(node.uuid)
    return {
        "uuid": node.uuid,
        "health": _health(cluster, node, intake),
        "last_report": _report_age(node, intake),
        "diagnosis": _diagnosis(intake.diagnosed.get(node.uuid)),
        "problem": dataclasses.asdict(problem) if problem is not None else None,
        "refused": _refused(node, intake),
        "unreachable": intake.unreachable.get(node.name),
        "agent": _agent(node, intake),
    }


def diagnose_differences(cluster: clusters.Cluster, intake: Intake) -> dict[str, str]:
    """By name the nodes that were diagnosed by another command than the cluster's setting names, and the sentence."""
    found = {node.name: _diagnose_difference(cluster, node, intake) for node in _by_name(cluster.nodes)}
    return {name: text for name, text in found.items() if text}


def _diagnose_difference(cluster: clusters.Cluster, node: clusters.Node, intake: Intake) -> str | None:
    """A sentence where a node was diagnosed by another command than the cluster's setting names."""
    wanted, ran = cluster.maintenance.settings.diagnose_command, intake.diagnosed_by(node.uuid)
    if not wanted or ran is None or ran == wanted:
        return None
    return (
        f"{node.name} runs the diagnose command {ran}, the cluster's diagnose_command is {wanted}: "
        "apply the role node_agent to it, or set the command there on purpose"
    )


def _refused(node: clusters.Node, intake: Intake) -> dict[str, Any] | None:
    """Why the newest report of a node does not count, when it came, and what helps; nothing where it counts."""
    refused = intake.refused.get(node.uuid)
    if refused is None:
        return None
    remedy = f"set the clocks of {node.name} and of the controller right (NTP); later reports count by themselves"
    if refused.reason == signing.Reason.REPLAYED.value:
        remedy += f", or at once after `roundsman node reset-report-floor {node.name}`"
    return {**dataclasses.asdict(refused), "remedy": remedy}


def _agent(node: clusters.Node, intake: Intake) -> dict[str, Any] | None:
    """How the node's agent answers; nothing where none is asked. Times are null where there is none."""
    seen = intake.seen.get(node.uuid)
    if seen is None or not seen.is_asked:
        return None
    return {
        "misses": seen.misses,
        "since": seen.since or None,
        "answered": seen.answered or None,
        "text": seen.text,
        "load": {"cpus": seen.load.cpus, "at": seen.load.at} if seen.load is not None else None,
    }


def _diagnosis(received: Received | None) -> dict[str, Any] | None:
    if received is None or received.report.diagnosis is None:
        return None
    said = received.report.diagnosis
    return {
        "original": orjson.Fragment(said.abbreviated if said.is_large else said.original),
        "status": said.status.value,
        "timestamp": received.report.timestamp,
        "accepted": received.accepted,
    }


def explain(
    cluster: clusters.Cluster,
    name: str,
    *,
    intake: Intake,
    queue: Queue,
    preview: RoundPlan,
    silent: Mapping[str, dead_nodes.Verdict] | None = None,
    failing: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Everything there is to know of why a node is as it is, and what would move it on; `silent` has verdicts.

    `failing` are the parts of the daemon that fail: what is said of a node may be old because of them.
    """
    subject = cluster.node(name)
    verdict = (silent or {}).get(subject.uuid)
    mine = [entry for entry in cluster.maintenance.incidents if entry.node == subject.uuid]
    ids = {entry.uuid for entry in mine}
    held = [*cluster.primaries(subject.uuid), *cluster.secondaries(subject.uuid)]
    told = {job_id for entry in mine for job_id in entry.all_jobs}
    return {
        "failing": list(failing),
        "node": node(cluster, subject, intake),
        "at_work": [*at_work.on_node(subject, queue), *at_work.on_instances(held, queue)],
        "degraded": replica_views.degraded(cluster, subject),
        "moving": replica_views.all_moving(cluster, intake, queue, places={subject.uuid}),
        "down": replica_views.down(cluster, subject, intake, queue),
        "kept": _kept(cluster, subject, queue),
        "clock": replica_views.clock(subject, intake),
        "second_copies": whereabouts.reported(cluster, subject.uuid, intake.tracks.get(subject.uuid)),
        "epo": _epo(cluster, subject),
        "silent": dataclasses.asdict(verdict) if verdict is not None and verdict.reason else None,
        "by_hand": replica_views.step_by_hand(cluster, subject, intake),
        "failovers": replica_views.failovers(cluster, subject, intake),
        "incidents": [incident(cluster, entry) for entry in mine],
        "jobs": [public_job(queue.jobs[job_id]) for job_id in sorted(told) if job_id in queue.jobs],
        "refusals": [
            dataclasses.asdict(entry)
            for entry in (*preview.refusals, *preview.left_out)
            if entry.incident in ids or entry.subject == subject.name
        ],
        "planned": [
            dataclasses.asdict(entry)
            for entry in preview.jobs
            if entry.incident in ids or (entry.incident is None and _is_about(entry, subject.uuid))
        ],
    }


def _kept(cluster: clusters.Cluster, node: clusters.Node, queue: Queue) -> list[str]:
    """Why the last jobs that were to remove what is left behind on a node did not, by instance."""
    left = {entry.instance.uuid for entry in cluster.maintenance.left_behind if entry.node == node.uuid}
    found: dict[str, str] = {}
    for number in sorted(queue.jobs) if left else ():
        for opcode in queue.jobs[number].opcodes:
            instance = opcode.params.get("instance")
            if opcode.kind == "remove_replica" and opcode.params.get("node") == node.uuid and instance in left:
                found[instance] = opcode.text if opcode.status is values.Status.ERROR else found.get(instance, "")
    return [text.rstrip(".") for text in found.values() if text]


def _is_about(entry: work.Job, uuid: str) -> bool:
    return any(uuid in opcode.params.values() for opcode in entry.opcodes)


def _epo(cluster: clusters.Cluster, node: clusters.Node) -> dict[str, Any] | None:
    """What an emergency power off means for a node: the sentence of the hold, and what is to return there."""
    stands = cluster.maintenance.epo
    if stands is None:
        return None
    waiting = set(stands.instances)
    return {
        "held": paused(cluster),
        "returns": node.uuid in stands.nodes,
        "instances": [entry.name for entry in cluster.primaries(node.uuid) if entry.uuid in waiting],
    }


def tags(cluster: clusters.Cluster, kind: str, name: str) -> list[str]:
    """The tags of an object."""
    return list(tagging.tag_owner(cluster, kind, name).tags)
