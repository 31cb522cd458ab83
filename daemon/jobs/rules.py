"""What lets a job begin: the jobs that it depends on, the filters, the slot that it needs, and its age.

An opcode that waits for its locks grows more urgent (seed 004, "Job priorities"; Ganeti's times).

Ganeti withdraws its request after every attempt and loses its place. Here the request keeps its place in the lock queue
during all attempts of one priority; when they are used up, the opcode has waited as long as Ganeti's would have, is
back in the queue with a better priority, and begins anew. Ganeti's jitter of 5 % parts processes that poll at the same
moments: nothing polls here, so there is none.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors, secret_values
from ...plugins.plugin_utils.cluster import job_filters
from ...plugins.plugin_utils.opcodes import registry
from ...plugins.plugin_utils.opcodes.contract import Execution
from . import submission, values

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from ...plugins.plugin_utils.cluster import cluster as clusters

EMERGENCY = job_filters.Filter(
    "emergency",
    watermark=0,
    priority=-1,
    predicates=(
        ("reason", ("=", "source", submission.ROUNDS)),
        ("opcode", ("!", ("=", "OP_ID", registry.op_id("outdate_replica")))),
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


Place = tuple[int, int]
"""Priority and number: the order of jobs."""


class Stand(Enum):
    """What the jobs of a line wait for."""

    QUEUED = "their turn"
    ASIDE = "a place in a full bucket"
    ADMITTED = "a slot, or the end of their opcode in the daemon"
    BLOCKED = "their locks"


Line = tuple[Stand, Lane | str]
"""The jobs of a lane, of a bucket by its name, or all that are blocked."""
BLOCKED_LINE: Line = (Stand.BLOCKED, "")


@dataclass
class Entry:
    """An unfinished job: where it stands in the order, what it waits for, and what works on it.

    `tickets` are its places in buckets, None as long as it needs none: it has them from its admission, or since it has
    begun.
    """

    number: int
    priority: int = 0
    lane: Lane = Lane.DAEMON
    buckets: tuple[job_filters.Bucket, ...] = ()
    line: Line | None = None
    tickets: tuple[job_filters.Bucket, ...] | None = None
    held_by: job_filters.Filter | None = None
    waits_for: int | None = None
    dependants: dict[int, None] = field(default_factory=dict)
    attempts: asyncio.Timeout | None = None
    task: asyncio.Task[None] | None = None

    @property
    def place(self) -> Place:
        return self.priority, self.number

    @property
    def is_queued(self) -> bool:
        """Whether it waits for its turn, be it for a bucket."""
        return self.line is not None and self.line[0] in {Stand.QUEUED, Stand.ASIDE}


@dataclass(frozen=True)
class Decision:
    """What becomes of a job that is not at work: it is queued, unless one of these fields says otherwise.

    It waits for the end of another one, a filter holds it, or it ends itself with a status and a text. It has to have
    a place in each of these buckets while it is at work.
    """

    waits_for: int | None = None
    held_by: job_filters.Filter | None = None
    ends: values.Status | None = None
    text: str = ""
    buckets: tuple[job_filters.Bucket, ...] = ()


def decide(
    job: values.Job,
    filters: Mapping[str, job_filters.Filter],
    find: Callable[[int], values.Job | None],
) -> Decision:
    """Decide about a job that is not at work; filters stop none that has begun, except for that of an emergency.

    That one, too, stops none whose opcode has begun: it has its locks, for which the emergency power off waits.
    """
    if job.canceling:
        return Decision(ends=values.Status.CANCELED, text="canceled")
    waits = judge_dependencies(job, find)
    if waits != Decision():
        return waits
    found = verdict(filters, job)
    stops, is_waiting = found.decided, not job.has_begun
    is_running = any(opcode.status is values.Status.RUNNING for opcode in job.opcodes)
    is_emergency = stops is EMERGENCY and not is_running
    if stops is not None and (is_emergency or (is_waiting and found.action is job_filters.Action.PAUSE)):
        return Decision(held_by=stops, buckets=found.buckets)
    if stops is not None and is_waiting and found.action is job_filters.Action.REJECT:
        return Decision(ends=values.Status.CANCELED, text=f"canceled: filter {stops.uuid} rejects it")
    return Decision(buckets=found.buckets)


def filters(cluster: clusters.Cluster) -> Mapping[str, job_filters.Filter]:
    """The filters of a configuration, with the hold of an emergency power off that stands."""
    is_emergency = cluster.maintenance.epo is not None
    return {**cluster.filters, EMERGENCY.uuid: EMERGENCY} if is_emergency else cluster.filters


def verdict(filters: Mapping[str, job_filters.Filter], job: values.Job) -> job_filters.Verdict:
    """What these filters say of a job."""
    return job_filters.judge(filters, subject(job))


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
    if made.is_urgent():
        return Lane.URGENT
    # A delay stands for the work of a process, and takes the place of one.
    return Lane.SLOT if made.execution in {Execution.PLAY, Execution.DELAY} else Lane.DAEMON


def subject(job: values.Job) -> job_filters.Subject:
    """What filters see of a job; secrets are hidden, so that no filter finds them out."""
    return job_filters.Subject(
        job.id,
        [{**secret_values.masked(opcode.params), "OP_ID": registry.op_id(opcode.kind)} for opcode in job.opcodes],
        [{"source": entry.source, "reason": entry.text, "timestamp": entry.timestamp} for entry in job.reason],
    )


def judge_dependencies(job: values.Job, find: Callable[[int], values.Job | None]) -> Decision:
    """Look at the jobs that a job depends on, in their order; a job that has begun depends on nothing any more."""
    if job.has_begun:
        return Decision()
    for dependency in job.depends:
        other = find(dependency.job)
        if other is None:
            text = f"it depends on job {dependency.job}, which is not there"
            return Decision(ends=values.Status.ERROR, text=text)
        if not other.is_final:
            return Decision(waits_for=other.id)
        if not dependency.statuses or other.status in dependency.statuses:
            continue
        if other.status is values.Status.CANCELED:
            return Decision(ends=values.Status.CANCELED, text=f"canceled: job {other.id} was canceled")
        text = f"it depends on job {other.id}, which ended in {other.status.value}"
        if other.is_unreadable:
            text += f": {other.text}"
        return Decision(ends=values.Status.ERROR, text=text)
    return Decision()


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
    opcode = job.opcodes[index]
    better = max(values.HIGHEST, opcode.priority - 1)
    older = dataclasses.replace(
        opcode, status=values.Status.QUEUED, priority=better, aged=opcode.aged + opcode.priority - better
    )
    return job.with_opcode(index, older)
