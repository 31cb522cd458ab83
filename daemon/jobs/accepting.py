"""Submissions: what is refused at once, and many of them made durable together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors, job_filters, secret_values
from ...plugins.plugin_utils.opcodes import contract, registry
from ..failures import Defect, Failures
from . import op_ids, scheduling, store, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PART = "submission of jobs"


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
            if opcode.dry_run and _needs_process(made):
                raise errors.InvalidInput(f"opcode {opcode.kind} touches nodes: it has no dry run")


def lane(job: values.Job) -> scheduling.Lane:
    """Which slot the next opcode of a job needs, if any; one that cannot be made any more fails in the daemon."""
    index = job.next_opcode
    if index is None:
        return scheduling.Lane.DAEMON
    opcode = job.opcodes[index]
    try:
        made = registry.make(opcode.kind, opcode.params)
    except errors.InvalidInput:
        return scheduling.Lane.DAEMON
    if isinstance(made, contract.UrgentKind) and made.is_urgent():
        return scheduling.Lane.URGENT
    # A delay stands for the work of a process, and takes the place of one.
    needs = isinstance(made, contract.DelayKind) or _needs_process(made)
    return scheduling.Lane.SLOT if needs else scheduling.Lane.DAEMON


def _needs_process(made: registry.Made) -> bool:
    return not isinstance(made, (contract.ChangeKind, contract.SubmitKind, contract.DelayKind))


def subject(job: values.Job) -> job_filters.Subject:
    """What filters see of a job; secrets are hidden, so that no filter finds them out."""
    return job_filters.Subject(
        job.id,
        [{**secret_values.masked(one.params), "OP_ID": op_ids.op_id(one.kind)} for one in job.opcodes],
        [{"source": one.source, "reason": one.text, "timestamp": one.timestamp} for one in job.reason],
    )


def promised(jobs: Iterable[values.Job]) -> Iterator[int]:
    """The numbers that unfinished jobs have promised to jobs which they are about to submit."""
    for job in jobs:
        for opcode in () if job.is_final else job.opcodes:
            if isinstance(opcode.result, dict):
                yield from (number for _, number in opcode.result.get("jobs", ()))


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
        self._defect: Defect | None = None

    async def take(self, jobs: Sequence[values.Job]) -> None:
        """Make jobs durable and hand them over.

        Raises:
            StoreFailed: one of those written together could not be; none of them is there.
            Defect: the writer ended; whether they are there is unknown until the daemon has started again.
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
            batch, self._waiting = self._waiting, []
            self._writing = batch
            jobs = [job for some, _ in batch for job in some]
            try:
                await asyncio.to_thread(self._store.save_new, jobs)
            except errors.StoreFailed as error:
                self._failures.failed(PART, error, remedy="free space on the disk of /var/lib/roundsman")
                _fail(batch, errors.StoreFailed(str(error)))
                continue
            self._failures.recovered(PART)
            self._admit(jobs)
            for _, done in batch:
                done.set_result(None)


def _fail(batch: list[tuple[Sequence[values.Job], asyncio.Future[None]]], error: Exception) -> None:
    for _, done in batch:
        if not done.done():
            done.set_exception(error)
