"""What lets a job begin: the jobs that it depends on, the filters, the slot that it needs, and its age.

An opcode that waits for its locks grows more urgent (seed 004, "Job priorities"; Ganeti's times).

Ganeti withdraws its request after every attempt and loses its place. Here the request keeps its place in the lock queue
during all attempts of one priority; when they are used up, the opcode has waited as long as Ganeti's would have, is
back in the queue with a better priority, and begins anew. Ganeti's jitter of 5 % parts processes that poll at the same
moments: nothing polls here, so there is none.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors, job_filters, secret_values
from ...plugins.plugin_utils.opcodes import contract, registry
from ...plugins.plugin_utils.opcodes.contract import Execution
from . import planned, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...plugins.module_utils.domain import cluster as clusters

EMERGENCY = job_filters.Filter(
    "emergency",
    watermark=0,
    priority=-1,
    predicates=(
        ("reason", ("=", "source", planned.ROUNDS)),
        ("opcode", ("!", ("=", "OP_ID", values.op_id("outdate_replica")))),
    ),
    action=job_filters.Action.PAUSE,
)
"""While an emergency power off stands, no job of a round begins, nor its next opcode; what people submit does.

Outdating does: it writes metadata only, and keeps old data from being started when the instances return.
"""
FIRST, SHORTEST, LONGEST = 5.0, 5.0, 75.0
TOGETHER = 10 * 3600 / 20
"""Seconds of one priority's attempts at the least: from 0 to -20 in ten hours."""


class Lane(Enum):
    """Whether the next opcode of a job needs a slot, and of which kind."""

    URGENT = "urgent"
    SLOT = "slot"
    DAEMON = "daemon"


class Rules:
    """The rules of the newest configuration that was shown here."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self._source: tuple[Mapping[str, job_filters.Filter] | None, bool] = (None, False)
        self._filters: Mapping[str, job_filters.Filter] = {}
        self.renewed(cluster)

    def renewed(self, cluster: clusters.Cluster) -> bool:
        """Take the rules from a configuration; returns whether they may be others now."""
        known, is_emergency = self._source, cluster.maintenance.epo is not None
        if cluster.filters is known[0] and is_emergency is known[1]:
            return False
        self._source = (cluster.filters, is_emergency)
        self._filters = {**cluster.filters, EMERGENCY.uuid: EMERGENCY} if is_emergency else cluster.filters
        return True

    def judge(self, job: values.Job) -> job_filters.Verdict:
        """What the rules say of a job."""
        return job_filters.judge(self._filters, subject(job))


def lane(job: values.Job) -> Lane:
    """Which slot the next opcode of a job needs, if any; one that cannot be made any more fails in the daemon."""
    index = job.next_opcode
    if index is None:
        return Lane.DAEMON
    opcode = job.opcodes[index]
    try:
        made = registry.make(opcode.kind, opcode.params)
    except errors.InvalidInput:
        return Lane.DAEMON
    if isinstance(made, contract.UrgentKind) and made.is_urgent():
        return Lane.URGENT
    # A delay stands for the work of a process, and takes the place of one.
    return Lane.SLOT if made.execution in {Execution.PLAY, Execution.DELAY} else Lane.DAEMON


def subject(job: values.Job) -> job_filters.Subject:
    """What filters see of a job; secrets are hidden, so that no filter finds them out."""
    return job_filters.Subject(
        job.id,
        [{**secret_values.masked(one.params), "OP_ID": values.op_id(one.kind)} for one in job.opcodes],
        [{"source": one.source, "reason": one.text, "timestamp": one.timestamp} for one in job.reason],
    )


@dataclass(frozen=True)
class Judgement:
    """A job may start (the default), waits for the end of another, or ends itself with a status and a text."""

    waits_for: int | None = None
    ends: values.Status | None = None
    text: str = ""


def judge(job: values.Job, find: Callable[[int], values.Job | None]) -> Judgement:
    """Look at the jobs that a job depends on, in their order; a job that has begun depends on nothing any more."""
    if job.has_begun:
        return Judgement()
    for dependency in job.depends:
        other = find(dependency.job)
        if other is None:
            text = f"it depends on job {dependency.job}, which is not there"
            return Judgement(ends=values.Status.ERROR, text=text)
        if not other.is_final:
            return Judgement(waits_for=other.id)
        if not dependency.statuses or other.status in dependency.statuses:
            continue
        if other.status is values.Status.CANCELED:
            return Judgement(ends=values.Status.CANCELED, text=f"canceled: job {other.id} was canceled")
        text = f"it depends on job {other.id}, which ended in {other.status.value}"
        if other.is_unreadable:
            text += f": {other.text}"
        return Judgement(ends=values.Status.ERROR, text=text)
    return Judgement()


def attempt_times() -> tuple[float, ...]:
    """The time limits (seconds) of the attempts to get the locks at one priority, one after the other."""
    times = [FIRST]
    while sum(times) < TOGETHER:
        times.append(min(LONGEST, max(SHORTEST, (1.05 * times[-1]) ** 1.25)))
    return tuple(times)


PATIENCE = sum(attempt_times())


def patience(priority: int) -> float | None:
    """How long an opcode of a priority waits for its locks; without limit at the highest."""
    return None if priority <= values.HIGHEST else PATIENCE


def aged(job: values.Job, index: int) -> values.Job:
    """The job after the attempts of an opcode are used up: back in the queue, one step more urgent."""
    one = job.opcodes[index]
    better = max(values.HIGHEST, one.priority - 1)
    older = dataclasses.replace(
        one, status=values.Status.QUEUED, priority=better, aged=one.aged + one.priority - better
    )
    return job.with_opcode(index, older)
