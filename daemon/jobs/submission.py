"""Submissions: a plan's jobs as jobs, what is refused at once, and many of them made durable together."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.opcodes import contract, registry
from ...plugins.plugin_utils.rounds import unfinished, work
from ..failures import Failures
from . import store, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...plugins.plugin_utils.cluster import cluster as clusters

PART = "submission of jobs"
ROUNDS = "gnt:daemon:maintd"
"""The source that the jobs of rounds have in their reason trail."""
URGENT = -10
"""The priority of fences, planned failovers and outdating: none waits behind a change of its node that waits itself."""
TAKEN_BACK = f"{ROUNDS}:taken back"
"""The source of the reason why a round cancels its own job, to plan what is left of it again."""


def check(jobs: Iterable[values.Job]) -> None:
    """See whether jobs can be submitted at all.

    Raises:
        InvalidInput: a job has no opcode, or one is unknown, has wrong parameters, an impossible priority, or is to be
            tried without being done although only its play would know; or no file can hold it.
    """
    for job in jobs:
        # Before it is written together with others, which would fail with it.
        store.encode(job)
        if not job.opcodes:
            raise errors.InvalidInput("a job has at least one opcode")
        for opcode in job.opcodes:
            values.check_priority(opcode.priority)
            made = registry.make(opcode.kind, opcode.params)
            if opcode.dry_run and made.execution is contract.Execution.PLAY:
                raise errors.InvalidInput(f"opcode {opcode.kind} touches nodes: it has no dry run")


def resolved(jobs: Sequence[values.Job]) -> list[values.Job]:
    """The jobs of one submission, their relative dependencies turned into numbers.

    Raises:
        InvalidInput: a relative dependency names no job before its own, an absolute one the job itself or a later one,
            or an accepted status is not final.
    """
    return [
        dataclasses.replace(job, depends=tuple(_resolved(dependency, jobs, index) for dependency in job.depends))
        for index, job in enumerate(jobs)
    ]


def _resolved(dependency: values.Dependency, jobs: Sequence[values.Job], index: int) -> values.Dependency:
    job = jobs[index]
    unfinal = [status.value for status in dependency.statuses if status not in values.FINAL]
    if unfinal:
        raise errors.InvalidInput(f"job {job.id}: no job ends as {unfinal[0]}")
    if dependency.job < 0:
        if index + dependency.job < 0:
            raise errors.InvalidInput(
                f"job {job.id}: dependency {dependency.job}: there are only {index} jobs before it"
            )
        return dataclasses.replace(dependency, job=jobs[index + dependency.job].id)
    if dependency.job == 0 or dependency.job >= job.id:
        raise errors.InvalidInput(f"job {job.id}: dependency {dependency.job}: it is not an earlier job")
    return dependency


def promised(jobs: Iterable[values.Job]) -> Iterator[int]:
    """The numbers that unfinished jobs have promised to jobs which they are about to submit."""
    for job in jobs:
        for opcode in () if job.is_final else job.opcodes:
            if isinstance(opcode.result, dict):
                yield from (number for _, number in opcode.result.get("jobs", ()))


def numbered(
    cluster: clusters.Cluster,
    drafts: Sequence[work.Job],
    numbers: Sequence[int],
    *,
    trail: tuple[values.Reason, ...] = (),
    source: str,
    now: float,
    priority: int = 0,
) -> tuple[values.Job, ...]:
    """The jobs of a plan with these numbers; the reason of each follows the common trail, told by the source."""
    ids = dict(zip((draft.key for draft in drafts), numbers, strict=True))
    return tuple(_job(cluster, draft, ids, trail=trail, source=source, now=now, priority=priority) for draft in drafts)


def has_incident(job: values.Job) -> bool:
    """Whether a job of a round is for an incident, which its trail names after what is done; balancing has none."""
    return sum(entry.source == ROUNDS for entry in job.reason) > 1


def unfinished_moves(jobs: Iterable[values.Job]) -> Iterator[unfinished.Job]:
    """The jobs that have not ended and hold instances, as rounds plan beside them."""
    for job in jobs:
        left = [] if job.is_final else [opcode for opcode in job.opcodes if opcode.status not in values.FINAL]
        held = tuple(work.Opcode(opcode.kind, opcode.params) for opcode in left if opcode.kind in unfinished.KINDS)
        if held:
            depends = tuple(entry.job for entry in job.depends)
            told = [entry.text for entry in job.reason if entry.source == ROUNDS]
            incident, is_running = told[1] if has_incident(job) else None, left[0].status is values.Status.RUNNING
            yield unfinished.Job(job.id, held, depends=depends, incident=incident, is_running=is_running)


def named_numbers(cluster: clusters.Cluster) -> list[int]:
    """The job numbers in a configuration, and its filters' watermarks: later jobs are above them."""
    maintenance = cluster.maintenance
    incidents = [number for incident in maintenance.incidents for number in incident.jobs]
    return [*maintenance.jobs, *incidents, *(job_filter.watermark for job_filter in cluster.filters.values())]


def _job(
    cluster: clusters.Cluster,
    draft: work.Job,
    ids: dict[str, int],
    *,
    trail: tuple[values.Reason, ...],
    source: str,
    now: float,
    priority: int,
) -> values.Job:
    depends = [values.Dependency(ids[key]) for key in draft.after]
    behind = (*(ids[key] for key in draft.behind), *draft.earlier)
    depends += [values.Dependency(number, tuple(values.FINAL)) for number in behind]
    own = [values.Reason(source, draft.reason, int(now * 1e9))]
    if draft.incident is not None:
        own.append(values.Reason(source, draft.incident, int(now * 1e9)))
    return values.Job(
        id=ids[draft.key],
        opcodes=tuple(_opcode(planned, priority) for planned in draft.opcodes),
        depends=tuple(depends),
        reason=(*trail, *own),
        received=now,
        names=_names(cluster, draft),
    )


def _opcode(planned: work.Opcode, priority: int) -> values.Opcode:
    urgent = min(priority, URGENT) if planned.kind == "failover" else priority
    return values.Opcode(planned.kind, dict(planned.params), urgent)


def _names(cluster: clusters.Cluster, draft: work.Job) -> dict[str, str]:
    uuids = {str(value) for opcode in draft.opcodes for value in opcode.params.values() if isinstance(value, str)}
    found = {uuid: cluster.nodes.get(uuid) or cluster.instances.get(uuid) for uuid in sorted(uuids)}
    return {uuid: named.name for uuid, named in found.items() if named is not None}


class Arrivals:
    """Jobs on their way into the queue: whatever comes while a write is under way shares the next one."""

    def __init__(
        self,
        queue: store.Store,
        admit: Callable[[Sequence[values.Job]], None],
        *,
        failures: Failures | None = None,
    ) -> None:
        self._failures = failures or Failures()
        self._store = queue
        self._admit = admit
        self._waiting: list[tuple[Sequence[values.Job], asyncio.Future[None]]] = []
        self._writing: list[tuple[Sequence[values.Job], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        self._defect: Exception | None = None

    async def take(self, jobs: Sequence[values.Job]) -> None:
        """Make jobs durable and hand them over.

        Raises:
            StoreFailed: one of those written together could not be; none of them is there.
            StateUnknown, Defect: the writer ended; until the daemon has started again it is unknown whether they are
                there.
        """
        if self._defect is not None:
            raise self._defect
        if not jobs:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((jobs, done))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())
        await asyncio.shield(done)

    async def landed(self) -> None:
        """Wait until those that are on their way are in the queue, or are refused."""
        if self._writer is not None:
            await asyncio.shield(self._writer)

    async def _write(self) -> None:
        try:
            await self._write_all()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            self._defect = self._failures.end("the writer of new jobs", error)
            _fail([*self._writing, *self._waiting], self._defect)
            self._waiting = []
        self._writer = None

    async def _write_all(self) -> None:
        while self._waiting:
            batch = self._writing = self._waiting
            self._waiting = []
            jobs = [job for some, _ in batch for job in some]
            try:
                await asyncio.to_thread(self._store.save_new, jobs)
            except errors.StoreFailed as error:
                self._failures.failed(PART, error, remedy="free space on the disk of /var/lib/roundsman")
                _fail(batch, errors.StoreFailed(str(error)))
                self._writing = []
                continue
            self._failures.recovered(PART)
            self._admit(jobs)
            for _, done in batch:
                done.set_result(None)
            self._writing = []


def _fail(batch: list[tuple[Sequence[values.Job], asyncio.Future[None]]], error: Exception) -> None:
    for _, done in batch:
        if not done.done():
            done.set_exception(error)
