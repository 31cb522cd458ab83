"""Overtaken jobs: what was planned, has not begun, and cannot be done any more since another node is to be left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import guards, unfinished

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ...module_utils.domain import cluster as clusters


def reasons(cluster: clusters.Cluster, jobs: Iterable[unfinished.Job]) -> Mapping[int, str]:
    """By number the jobs of incidents with a step that has not begun and cannot be done any more, and why.

    Its target, or the primary that has the data, is not reachable, or the target is to be evacuated. A failover off a
    node that is not reachable is done before that (`guards.awaited`), and by a job of its own, which waits for nothing
    that copies; an instance of a migration that has not ended goes where it may run. No round plans a step that is
    overtaken. During a storm none is because of an evacuation, and during an emergency power off none at all.
    """
    if cluster.maintenance.epo is not None:
        return {}
    known = list(jobs)
    urgent = {job.number for job in known if unfinished.is_urgent(cluster, job)}
    left = _left(cluster)
    found: dict[int, str] = {}
    for uuid, held_by in unfinished.by_instance(cluster, known).items():
        instance = cluster.instances[uuid]
        for place, job in enumerate(() if instance.moving else held_by):
            now = unfinished.stations(cluster, instance, held_by[:place])[-1]
            why = _reason(cluster, now, job, frozenset() if job.number in urgent else left)
            why = why or ("" if job.number in urgent else _failover(cluster, job))
            if why and job.incident is not None:
                found.setdefault(job.number, why)
    return found


def _left(cluster: clusters.Cluster) -> frozenset[str]:
    asking = [each for each in cluster.maintenance.incidents if each.is_asking]
    asking = [each for each in asking if each.node in cluster.nodes]
    is_storm = any(guards.storm(cluster, incident) is not None for incident in asking)
    return frozenset() if is_storm else frozenset(incident.node for incident in asking)


def _failover(cluster: clusters.Cluster, job: unfinished.Job) -> str:
    first = job.opcodes[0]
    source = str(first.params.get("source", ""))
    if job.is_running or first.kind != "failover" or not unfinished.is_gone(cluster, source):
        return ""
    return f"{cluster.node_name(source)} is not reachable: its instance starts elsewhere before anything is copied"


def _reason(cluster: clusters.Cluster, instance: clusters.Instance, job: unfinished.Job, left: Collection[str]) -> str:
    now = instance
    for place, opcode in enumerate(job.opcodes):
        target = unfinished.target(opcode)
        if (place or not job.is_running) and target:
            if target in left:
                return f"{cluster.node_name(target)} is to be evacuated"
            needed = (target,) if opcode.kind == "failover" else (target, now.primary_node)
            gone = next((uuid for uuid in needed if unfinished.is_gone(cluster, uuid)), "")
            if gone:
                return f"{cluster.node_name(gone)} is not reachable"
        now = unfinished.after(cluster, now, opcode)
    return ""
