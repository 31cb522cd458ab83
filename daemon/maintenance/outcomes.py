"""How the jobs of an incident ended: done, failed, waiting for a person, lost, refused, or taken back.

A job is lost whose process ended with the controller, and left no result. That is no failure: what is true is looked
for when it is settled, and the next round plans from there. What did not happen is planned again, and judged again by
its play. An instance whose new primary was on record already may be down: it is started there, which changes nothing
where it runs. Nor is a move a failure that was refused before it began: what it was planned by has changed, as when a
plan by hand has taken the room, and the next round plans by what is true now. A step that its node refuses because it
has booted since counts as refused, too. A move that is lost or refused more than
`RETRIES` times in a row fails the incident. A move that ended without a result in a job that was taken back meanwhile
counts as lost, too: it may have left its instance down. A failover is planned again, too, whose source was not
confirmed off right before it: a BMC may be late or dark for minutes, and the node is known to be off.

Of a node that does not answer a move that failed ends nothing by itself: its instance is planned no more, rounds go on
with all others, and the incident fails once nothing else is left to be done (`exhausted`). An instance that was moved
or started since counts no more.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import epochs
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.opcodes import instance_moves
from ...plugins.plugin_utils.placement import plan
from ..jobs import plays, submission, values
from . import lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ...plugins.plugin_utils.cluster import incidents

MOVES = frozenset({"failover", "migrate", "replace_disks", "startup"})
"""The opcodes whose plays look at what is true before they change anything."""
FAILOVERS = frozenset({"failover", "migrate", "startup"})
"""Those of them that fail an instance over: also what a migration finds down, or may have taken elsewhere."""
RETRIES = 2
"""How often in a row a lost or refused move of an instance is planned again."""
UNFENCED_RETRIES = 10
"""How often in a row a failover is planned again whose source was not confirmed off; each asks its BMC for 30 s."""
_BAD = frozenset({values.Status.ERROR, values.Status.CANCELED})


def of_incident(
    cluster: clusters.Cluster,
    incident: incidents.Incident,
    jobs: Sequence[values.Job],
    known: Mapping[int, values.Job],
) -> dict[int, lifecycle.JobOutcome]:
    """How the jobs of an incident stand; `known` are all jobs, to find those that they depend on.

    One that waits for a person, or is planned again, has not failed, and neither has what comes after it. Of a node
    that does not answer no move fails the incident here, nor what comes after one, nor anything else before no failover
    is left.
    """
    found = _outcomes(incident, jobs, known)
    if not _is_judged_by_round(cluster, incident):
        return found
    ended = {job.id: job.status for job in jobs if job.is_final}
    is_failing_over = any(not job.is_final and _moves(job, FAILOVERS) for job in jobs)
    return {
        job.id: lifecycle.JobOutcome(None, found[job.id].text)
        if found[job.id].succeeded is False and (is_failing_over or _moves(job, MOVES) or _is_kept(job, ended))
        else found[job.id]
        for job in jobs
    }


def _outcomes(
    incident: incidents.Incident, jobs: Sequence[values.Job], known: Mapping[int, values.Job]
) -> dict[int, lifecycle.JobOutcome]:
    lost = _rows(jobs)
    return {job.id: _outcome(incident, job, lost, known) for job in jobs}


def _is_judged_by_round(cluster: clusters.Cluster, incident: incidents.Incident) -> bool:
    """Whether a move that failed is one of many: its instances are down until they have failed over."""
    node = cluster.nodes.get(incident.node)
    is_gone = node is not None and not clusters.reachable(cluster, node)
    return is_gone or incident.is_of_a_dead_node


def _moves(job: values.Job, kinds: frozenset[str]) -> bool:
    return any(opcode.kind in kinds for opcode in job.opcodes)


def exhausted(
    cluster: clusters.Cluster,
    incident: incidents.Incident,
    jobs: Sequence[values.Job],
    known: Mapping[int, values.Job],
) -> dict[str, plan.Refusal]:
    """By instance (UUID) why it is planned no more for an incident whose node does not answer: its move has failed.

    That counts as long as the instance is where that move found it or was to bring it, and no later one succeeded.
    """
    if not _is_judged_by_round(cluster, incident):
        return {}
    ended = {job.id: job.status for job in jobs if job.is_final}
    outcomes = _outcomes(incident, jobs, known)
    bad = [job for job in jobs if outcomes[job.id].succeeded is False and not _is_kept(job, ended)]
    done = _done(known.values()) if bad else {}
    found = {}
    for job in bad:
        opcode = next((each for each in job.opcodes if each.kind in MOVES and each.status in _BAD), None)
        instance = cluster.instances.get(str(opcode.params["instance"])) if opcode is not None else None
        if opcode is None or instance is None or done.get((instance.uuid, _copies(opcode)), 0) > job.id:
            continue
        if _has_left(instance, incident.node, opcode):
            continue
        found[instance.uuid] = plan.Refusal(
            instance.name,
            f"job {job.id} failed: {outcomes[job.id].text}",
            _by_hand(instance, incident.node, opcode),
            permanent=True,
        )
    return found


def _done(jobs: Iterable[values.Job]) -> dict[tuple[str, bool], int]:
    """By instance (UUID), and whether its replica is meant, the last job that moved or started it.

    One that found nothing to do has not.
    """
    found: dict[tuple[str, bool], int] = {}
    for job in jobs:
        for opcode in job.opcodes:
            if opcode.kind in MOVES and opcode.status is values.Status.SUCCESS and opcode.started:
                key = str(opcode.params["instance"]), _copies(opcode)
                found[key] = max(job.id, found.get(key, 0))
    return found


def _copies(opcode: values.Opcode) -> bool:
    return opcode.kind == "replace_disks"


def _has_left(instance: clusters.Instance, node: str, opcode: values.Opcode) -> bool:
    """Whether an instance, or its replica, is neither on a node nor where a move was to bring it: others moved it."""
    if opcode.kind == "startup":
        return False
    now = instance.secondary_nodes if _copies(opcode) else (instance.primary_node,)
    return not {node, opcode.params["new" if _copies(opcode) else "target"]} & {*now}


def _by_hand(instance: clusters.Instance, node: str, opcode: values.Opcode) -> str:
    """The command by which a person does what a move did not."""
    if _copies(opcode):
        return f"`roundsman instance replace-disks {instance.name} --to NODE`, once the cause is removed"
    verb = "failover" if instance.primary_node == node else "start"
    return f"`roundsman instance {verb} {instance.name}`, once the cause is removed"


def refusals(jobs: Iterable[values.Job]) -> dict[str, dict[str, Any]]:
    """By instance (UUID) why its last failover of some jobs, as any of `FAILOVERS` may be, waits for a person."""
    return {
        str(opcode.params["instance"]): opcode.result["waits"]
        for job in jobs
        for opcode in job.opcodes
        if opcode.kind in FAILOVERS and isinstance(opcode.result, dict) and "waits" in opcode.result
    }


def unstarted(cluster: clusters.Cluster, jobs: Sequence[values.Job]) -> tuple[str, ...]:
    """The instances (UUIDs) that shall run, and that a lost step may have left down on the primary on record."""
    found = []
    for uuid, row in _rows(jobs).items():
        instance, last = cluster.instances.get(uuid), row[-1]
        if instance is None or not instance.is_up or last.kind == "replace_disks":
            continue
        if last.kind == "startup" or last.params["target"] == instance.primary_node:
            found.append(uuid)
    return tuple(found)


def _outcome(
    incident: incidents.Incident,
    job: values.Job,
    lost: Mapping[str, Sequence[values.Opcode]],
    known: Mapping[int, values.Job],
) -> lifecycle.JobOutcome:
    if not job.is_final:
        return lifecycle.JobOutcome(None)
    if count := _length(job, lost):
        ack = f"run {incident.acknowledgement}"
        word, cure = ("lost", "find out what ends jobs on the controller (see the log of roundsmand)")
        if any(_is_refused(opcode) or _is_unfenced(opcode) for opcode in job.opcodes):
            word, cure = "refused", "remove the cause"
        text = f"{job.text}; it was {word} {count} times in a row, and is not planned again: {cure}, then {ack}"
        return lifecycle.JobOutcome(succeeded=False, text=text)
    canceled = next((opcode.text for opcode in job.opcodes if opcode.status is values.Status.CANCELED), "")
    is_done = job.status is values.Status.SUCCESS or _is_held(job, known)
    return lifecycle.JobOutcome(is_done, job.text or canceled or job.status.value)


def _is_held(job: values.Job, known: Mapping[int, values.Job]) -> bool:
    """Whether a job waits for a person, was lost, refused or taken back, or did not begin because of such a job."""
    if refusals([job]) or _is_taken_back(job) or any(_is_repeated(job, opcode) for opcode in job.opcodes):
        return True
    before = [known[entry.job] for entry in job.depends if entry.job in known]
    has_begun = any(opcode.started for opcode in job.opcodes)
    return not has_begun and any(
        other.is_final and other.status is not values.Status.SUCCESS and _is_held(other, known) for other in before
    )


def _is_taken_back(job: values.Job) -> bool:
    """Whether a round has canceled its own job, to plan what is left of it again."""
    return job.status is values.Status.CANCELED and any(entry.source == submission.TAKEN_BACK for entry in job.reason)


def _is_lost(job: values.Job, opcode: values.Opcode) -> bool:
    """Whether a move of a job ended without a result, though no person canceled it."""
    if opcode.kind not in MOVES or not opcode.started:
        return False
    if opcode.status is values.Status.CANCELED:
        return _is_taken_back(job)
    return opcode.status is values.Status.ERROR and opcode.result == plays.LOST


def _is_refused(opcode: values.Opcode) -> bool:
    """Whether a move ended before it began, though nobody canceled it, or because its node has booted since."""
    is_bad = opcode.kind in MOVES and opcode.status is values.Status.ERROR
    return is_bad and (not opcode.started or epochs.is_of_other_boot(opcode.text))


def _is_unfenced(opcode: values.Opcode) -> bool:
    """Whether a failover ended because the power off of its source was not confirmed: nothing was done by it."""
    has_failed = opcode.kind in FAILOVERS and opcode.status is values.Status.ERROR
    return has_failed and isinstance(opcode.result, dict) and bool(opcode.result.get(instance_moves.UNFENCED))


def _is_repeated(job: values.Job, opcode: values.Opcode) -> bool:
    return _is_lost(job, opcode) or _is_refused(opcode) or _is_unfenced(opcode)


def _rows(jobs: Sequence[values.Job]) -> dict[str, tuple[values.Opcode, ...]]:
    """By instance (UUID) the unbroken row of lost or refused moves with which its moves end, the last one last."""
    ended = {job.id: job.status for job in jobs if job.is_final}
    begun: dict[str, list[tuple[values.Job, values.Opcode]]] = {}
    for job in sorted(jobs, key=lambda job: job.id):
        for opcode in job.opcodes:
            if opcode.kind in MOVES and (opcode.started or (_is_refused(opcode) and not _is_kept(job, ended))):
                begun.setdefault(str(opcode.params["instance"]), []).append((job, opcode))
    found = {uuid: _row(moves) for uuid, moves in begun.items()}
    return {uuid: row for uuid, row in found.items() if row}


def _is_kept(job: values.Job, ended: Mapping[int, values.Status]) -> bool:
    """Whether a job did not begin because of how another one ended: nothing of it was tried."""
    known = (entry for entry in job.depends if entry.statuses and entry.job in ended)
    return any(ended[entry.job] not in entry.statuses for entry in known)


def _row(moves: Sequence[tuple[values.Job, values.Opcode]]) -> tuple[values.Opcode, ...]:
    last = itertools.takewhile(lambda move: _is_repeated(*move), reversed(moves))
    return tuple(reversed([opcode for _, opcode in last]))


def _length(job: values.Job, lost: Mapping[str, Sequence[values.Opcode]]) -> int:
    """The length of the row that a job ends, if that is too long to plan its move again; else 0."""
    for opcode in job.opcodes:
        row = lost.get(str(opcode.params.get("instance")), ())
        unfenced = sum(map(_is_unfenced, row))
        is_too_long = len(row) - unfenced > RETRIES or unfenced > UNFENCED_RETRIES
        if row and is_too_long and row[-1] is opcode:
            return len(row)
    return 0
