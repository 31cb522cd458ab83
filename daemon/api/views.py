"""What the daemon tells of its state, as JSON values: incidents, nodes, reports, plans, jobs, explanations."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from ...plugins.module_utils.domain.values import secret_values
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.cluster import known_off, left_replicas
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.rounds import holdings, wording
from ..jobs import values
from . import replica_views, unheard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...plugins.plugin_utils.cluster import incidents
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
        return wording.pause(cluster.maintenance.settings)
    left = f"{wording.both(len(stands.nodes), len(stands.instances))} are to return"
    what = "a return from a loss of power" if stands.lost else "an emergency power off"
    return f"{what} by {stands.by or 'somebody'} stands, {left}: `roundsman cluster epo --on`"


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
    return {**dataclasses.asdict(refused), "remedy": unheard.clocks(node, reason=refused.reason)}


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
