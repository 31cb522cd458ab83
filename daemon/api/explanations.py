"""Why a node is as it is, and what would move it on, as a JSON value."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils import whereabouts
from ...plugins.plugin_utils.silent_nodes import report_ages
from ..jobs import values
from . import at_work, replica_views, unheard, views

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ...plugins.plugin_utils.rounds import work
    from ...plugins.plugin_utils.rounds.rounds import RoundPlan
    from ...plugins.plugin_utils.silent_nodes import dead_nodes
    from ..jobs.queue import Queue
    from ..maintenance.reports import Intake


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
    settings, why = cluster.maintenance.settings, unheard.find(cluster, subject, intake)
    is_answered = why is not None and why.is_answered
    mine = [entry for entry in cluster.maintenance.incidents if entry.node == subject.uuid]
    ids = {entry.uuid for entry in mine}
    held = [*cluster.primaries(subject.uuid), *cluster.secondaries(subject.uuid)]
    told = {job_id for entry in mine for job_id in entry.all_jobs}
    return {
        "failing": list(failing),
        "node": views.node(cluster, subject, intake),
        "at_work": [*at_work.on_node(subject, queue), *at_work.on_instances(held, queue)],
        "degraded": replica_views.degraded(cluster, subject),
        "moving": replica_views.all_moving(cluster, intake, queue, places={subject.uuid}),
        "down": replica_views.down(cluster, subject, intake, queue),
        "failed_disks": [
            {"instance": disk.instance.name, "text": disk.text, "step": disk.step}
            for disk in replica_views.failed_disks(cluster, subject.uuid, intake, instances=held)
        ],
        "kept": _kept(cluster, subject, queue),
        "clock": replica_views.clock(subject, intake),
        "second_copies": whereabouts.reported(cluster, subject.uuid, intake.tracks.get(subject.uuid)),
        "epo": _epo(cluster, subject),
        "silent": dataclasses.asdict(verdict) if verdict is not None and verdict.reason else None,
        "by_hand": None if is_answered else replica_views.step_by_hand(cluster, subject, intake),
        "unheard": None if why is None else {"code": why.code, "text": why.text, "step": why.step},
        "report_interval": report_ages.cycle(settings, nodes=len(cluster.nodes))
        if settings.diagnose_interval
        else None,
        "failovers": replica_views.failovers(cluster, subject, intake),
        "incidents": [views.incident(cluster, entry) for entry in mine],
        "jobs": [views.public_job(queue.jobs[job_id]) for job_id in sorted(told) if job_id in queue.jobs],
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
        "held": views.paused(cluster),
        "returns": node.uuid in stands.nodes,
        "instances": [entry.name for entry in cluster.primaries(node.uuid) if entry.uuid in waiting],
    }
