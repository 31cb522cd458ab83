"""Overtaken jobs: what was planned, has not begun, and cannot be done any more since another node is to be left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cluster import incidents
from . import guards, rounds, unfinished

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ..cluster import cluster as clusters


def reasons(
    cluster: clusters.Cluster, jobs: Iterable[unfinished.Job], *, is_drained: bool = False
) -> Mapping[int, str]:
    """By number the jobs of incidents with a step that has not begun and cannot be done any more, and why.

    Its target, or the primary that has the data or starts it, is not reachable; or its target is to be evacuated, and
    that is not held by a pause, a drained queue, a storm or missing room; or the death of its target is noted. A
    failover off a node that is not reachable is done before that (`guards.awaited`), and by a job of its own, which
    waits for nothing that copies, until that node is not known to be off any more. An instance of a migration that has
    not ended goes where it may run. No round plans a step that is overtaken. During an emergency power off none is.
    """
    if cluster.maintenance.epo is not None:
        return {}
    claims = unfinished.claims(cluster, jobs)
    left, revived = _left(cluster, claims, is_drained=is_drained), _revived(cluster)
    found: dict[int, str] = {}
    for uuid, held_by in claims.held_by.items():
        instance = cluster.instances[uuid]
        for place, job in enumerate(held_by):
            why = _returns(cluster, job, revived)
            if not why and not instance.moving:
                now = unfinished.stations(cluster, instance, held_by[:place])[-1]
                why = _reason(cluster, now, job, frozenset() if job.number in claims.urgent else left)
                why = why or ("" if job.number in claims.urgent else _failover(cluster, job))
            if why and job.incident is not None:
                found.setdefault(job.number, why)
    return found


def _left(cluster: clusters.Cluster, claims: unfinished.Claims, *, is_drained: bool) -> frozenset[str]:
    """The targets of jobs (UUIDs of nodes) whose evacuation goes on, or whose death is noted.

    They are judged in the order of the round, as each that goes on leaves less room for those after it.
    """
    targets = {unfinished.target(opcode) for job in claims.jobs for opcode in job.opcodes}
    asking = _asking(cluster)
    avoid = rounds.no_targets(cluster)
    begun = {each.node for each in asking if each.repair_status is incidents.RepairStatus.PENDING}
    while asking and asking[-1].node not in targets:
        asking.pop()

    def is_held(incident: incidents.Incident) -> bool:
        is_paused = is_drained or guards.paused(cluster, incident) is not None
        return is_paused or guards.held(cluster, incident, begun=begun, avoid=avoid, claims=claims) is not None

    left = set()
    for incident in asking:
        goes_on = not is_held(incident)
        begun |= {incident.node} if goes_on else set()
        if goes_on or incident.is_of_a_dead_node:
            left.add(incident.node)
    return frozenset(left & targets)


def _asking(cluster: clusters.Cluster) -> list[incidents.Incident]:
    return [incident for incident in rounds.in_order(cluster) if incident.is_asking]


def _revived(cluster: clusters.Cluster) -> Mapping[str, str]:
    """The node (UUID) of each incident (UUID) of a death, if that node is not known to be off any more."""
    return {each.uuid: each.node for each in _asking(cluster) if guards.unconfirmed(cluster, each) is not None}


def _returns(cluster: clusters.Cluster, job: unfinished.Job, revived: Mapping[str, str]) -> str:
    """That a failover which has not begun is off a node that may run its instances again."""
    node = revived.get(job.incident or "")
    waiting = job.opcodes[1:] if job.is_running else job.opcodes
    if node is None or not any(opcode.kind == "failover" and opcode.params["source"] == node for opcode in waiting):
        return ""
    return f"{cluster.node_name(node)} is not known to be off any more"


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
        if place or not job.is_running:
            if target in left:
                return f"{cluster.node_name(target)} is to be evacuated"
            needed = (target,) if opcode.kind == "failover" else (*filter(None, [target]), now.primary_node)
            gone = next((uuid for uuid in needed if unfinished.is_gone(cluster, uuid)), "")
            if gone:
                return f"{cluster.node_name(gone)} is not reachable"
        now = unfinished.after(cluster, now, opcode)
    return ""
