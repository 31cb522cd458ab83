"""The job queue: submission, order, dependencies, cancelation, archive; after a crash every job goes on as it stood.

A job that was submitted is queued. It is let in when its dependencies have ended, no filter holds it and its turn has
come; then it waits for the locks of its next opcode, has them granted, takes a slot and works. After each opcode, and
when its lock attempts are used up, it is back in the queue.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors
from .. import writing
from . import book, log_following, process, questions, scheduler, submission, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from pathlib import Path

    from .ports import Ports


class Queue:
    """All jobs that are not archived; every change of a job is durable before it has an effect."""

    def __init__(
        self,
        ports: Ports,
        *,
        limit: Callable[[], int],
        archive_after: float = 0,
        archive_keep: float = 0,
        on_change: Callable[[], None],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._ports = ports
        self._book = book.Book(ports.store, clock=ports.clock, on_change=on_change)
        self._limit = limit
        self._archive_after = archive_after
        self._archive_keep = archive_keep
        self._tidying: list[asyncio.Task[None]] = []
        self._on_change = on_change
        self._on_end = on_end
        self._scheduler = scheduler.Scheduler(ports, self._book, limit=limit, submit=self, on_end=self._tell_end)
        self._archivist = book.Archivist(ports, self._book)
        self.questions = questions.Questions(self._book, self._archivist)
        self._arrivals = submission.Arrivals(ports.store, self._admit, failures=ports.failures)
        self.logs = log_following.Logs()
        self._is_at_rest = False
        self._next_id = 1

    def load(self) -> None:
        """Read all jobs of the queue folder; none of them goes on before `resume`.

        Raises:
            StoreFailed: one cannot be read.
        """
        self._book.load()
        self.keep_numbers([self._ports.store.highest_id(), *submission.promised(self.jobs.values())])

    @property
    def jobs(self) -> dict[int, values.Job]:
        """Every job that is not archived, by its number."""
        return self._book.jobs

    def find(self, job_id: int) -> values.Job:
        """A job of the queue or of the archive.

        Raises:
            NotFound: there is no such job.
        """
        job = self._book.find(job_id)
        if job is None:
            raise errors.NotFound(f"there is no job {job_id}")
        return job

    @property
    def last_id(self) -> int:
        """The highest number that was given to a job so far: the watermark of a new filter."""
        return self._next_id - 1

    def reserve(self, count: int) -> list[int]:
        """Numbers for new jobs."""
        ids = list(range(self._next_id, self._next_id + count))
        self._next_id += count
        return ids

    def keep_numbers(self, ids: Iterable[int]) -> None:
        """These numbers were promised to jobs that are not in the queue yet: nobody else gets them."""
        self._next_id = max([self._next_id, *(number + 1 for number in ids)])

    async def submit(self, jobs: Sequence[values.Job]) -> list[values.Job]:
        """Submit jobs: all are durable before the first one starts, or none of them is there.

        One without a number (0) gets it here. One with a reserved number that is there already stays as it is.
        Submissions that come together are made durable together.

        Raises:
            InvalidInput: an opcode is unknown, its parameters are wrong, or a dependency makes no sense.
            Refused: the queue is drained, or the configuration is being taken over. StoreFailed: one could not be made
                durable.
        """
        unnumbered = [job for job in jobs if not job.id]
        if self._is_at_rest and unnumbered:
            raise errors.Refused("the configuration is being taken over, and no jobs are taken: ask again in a moment")
        numbers = iter(self.reserve(len(unnumbered)))
        submitted = [job if job.id else dataclasses.replace(job, id=next(numbers)) for job in jobs]
        await self._arrivals.take(self._checked(submitted))
        return [self.find(job.id) for job in submitted]

    @contextlib.asynccontextmanager
    async def at_rest(self) -> AsyncIterator[None]:
        """As long as this lasts all jobs have ended, and none is submitted; those on their way are waited for first.

        Raises:
            Refused: some have not ended.
        """
        self._is_at_rest = True
        try:
            await self._arrivals.landed()
            if at_work := self.unfinished(self.jobs):
                raise errors.Refused(
                    f"{len(at_work)} jobs have not ended, and rely on the configuration: wait, or use force"
                )
            yield
        finally:
            self._is_at_rest = False

    def resume(self) -> None:
        """After a start: go on with every job that had not ended; locks are kept only where an opcode is at work."""
        at_work = {values.lock_owner(job.id) for job in self.jobs.values() if _is_running(job)}
        for owner in self._ports.desk.table.owners():
            if not owner.livelock and owner not in at_work:
                self._ports.desk.release(owner)
        for job in list(self.jobs.values()):
            if _is_running(job):
                self._scheduler.adopt(job)
            elif not job.is_final:
                self._scheduler.line_up(job.id)
        if self._archive_after:
            tidying = self._archivist.run(lambda: self.tidy(after=self._archive_after), interval=self._archive_after)
            self._tidying.append(asyncio.create_task(tidying))
        if self._archive_keep:
            self._tidying.append(asyncio.create_task(self._archivist.clear(keep=self._archive_keep)))
        for task in self._tidying:
            task.add_done_callback(self._ports.failures.watch(book.PART))

    async def cancel(self, job_id: int, *, kill: bool, reasons: tuple[values.Reason, ...] = ()) -> values.Job:
        """Cancel a job: what has not started never starts; what runs is killed, or finishes when `kill` is false.

        A job that runs is `canceling` when this returns: its processes are being ended, and it ends by itself once
        it is known what they left. It keeps the reasons, by the same write.

        Raises:
            NotFound: there is no such job. Refused: it has ended already. StoreFailed: nothing was done.
        """
        now = self.now()

        def rule(job: values.Job) -> values.Job:
            if job.is_final:
                raise errors.Refused(f"job {job_id} has ended: {job.status.value}")
            if not _is_running(job):
                return book.over(job, values.Status.CANCELED, "canceled", now=now, reasons=reasons)
            return dataclasses.replace(job, canceling=True, reason=(*job.reason, *reasons))

        async def carry_out() -> None:
            if (await self._book.change(job_id, rule)).is_final:
                await self._scheduler.leave(job_id)
            elif kill:
                self._scheduler.interrupt(job_id)

        rule(self.find(job_id))
        await writing.to_its_end(asyncio.get_running_loop().create_task(carry_out()))
        return self.find(job_id)

    async def change_priority(self, job_id: int, priority: int) -> values.Job:
        """Give the opcodes of a job that are queued or wait another priority.

        Raises:
            NotFound: there is no such job. InvalidInput: there is no such priority. Refused: none of its opcodes waits.
            StoreFailed: nothing was done.
        """
        values.check_priority(priority)
        self.find(job_id).with_priority(priority)

        async def carry_out() -> values.Job:
            job = await self._book.change(job_id, lambda job: job.with_priority(priority))
            if not _is_running(job):
                self._scheduler.reprioritize(job_id, priority)
            return job

        return await writing.to_its_end(asyncio.get_running_loop().create_task(carry_out()))

    async def wait(self, job_id: int, *, seconds: float) -> None:
        """Wait until a job has ended, at most so long."""
        await self._book.wait(job_id, seconds=seconds)

    def now(self) -> float:
        """The clock by which jobs are dated, in unix seconds."""
        return self._ports.clock()

    def unfinished(self, ids: Iterable[int]) -> list[int]:
        """Those of these jobs that have not ended."""
        return [number for number in ids if number in self.jobs and not self.jobs[number].is_final]

    def unfinished_opcodes(self) -> list[values.Opcode]:
        """The opcodes of all jobs that have not ended, those of them included that have."""
        return [opcode for job in self.jobs.values() if not job.is_final for opcode in job.opcodes]

    def has_runs(self) -> bool:
        """Whether the process of an opcode is at work, perhaps of the daemon before this one."""
        running = [
            (job.id, index)
            for job in self.jobs.values()
            for index, opcode in enumerate(job.opcodes)
            if opcode.status is values.Status.RUNNING
        ]
        return any(process.traces(self._ports.store.run_folder(*place)).is_alive for place in running)

    def instances_at_work(self) -> set[str]:
        """The instances (UUIDs) on which jobs are at work."""
        return {
            str(opcode.params["instance"])
            for opcode in self.unfinished_opcodes()
            if opcode.status is values.Status.RUNNING and "instance" in opcode.params
        }

    @property
    def drained(self) -> bool:
        """Whether no jobs are taken."""
        return self._ports.store.is_drained

    def set_drained(self, wanted: bool) -> None:  # noqa: FBT001 - a setter of one flag
        """Take no jobs from now on, or take them again; those that are there go on in both cases.

        Raises:
            StoreFailed: it could not be made durable.
        """
        self._ports.store.drain(wanted=wanted)
        self._on_change()
        self._on_end()

    def look(self) -> None:
        """The limit or the filters may have changed: see whose turn it is."""
        self._scheduler.look()

    def summary(self) -> dict[str, Any]:
        """How the queue stands, as a JSON value.

        `slots` are the common ones taken and their limit, and how many jobs wait for any.
        """
        statuses = collections.Counter(job.status.value for job in self.jobs.values())
        turns = self._scheduler
        return {
            "drained": self.drained,
            "jobs": {status.value: statuses[status.value] for status in values.Status},
            "held": len(turns.held),
            "slots": {
                "taken": self._scheduler.at_work,
                "limit": self._limit(),
                "awaited": len(self._scheduler.waiting),
            },
            "damaged": self.damaged,
        }

    @property
    def damaged(self) -> list[int]:
        """The numbers of the jobs whose files were damaged."""
        return self._ports.store.damaged()

    def archive(self, job_id: int) -> None:
        """Move a job that has ended to the archive.

        Raises:
            NotFound: there is no such job. Refused: it has not ended, or maintenance still goes by it.
        """
        self._archivist.archive(job_id)

    async def archive_older_than(self, seconds: float) -> list[int]:
        """Move all jobs to the archive that ended longer ago, and that maintenance does not go by; returns them."""
        return await self._archivist.archive_older_than(seconds)

    async def tidy(self, *, after: float) -> None:
        """Remove answered questions after ten minutes, and archive all other jobs that ended so many seconds ago.

        Raises:
            StoreFailed: the archive cannot be written.
        """
        await self.questions.remove_ended_before(self.now() - min(after, questions.SECONDS))
        await self._archivist.archive_older_than(after)

    async def archived(self, count: int, *, before: int | None = None) -> list[values.Job]:
        """The newest jobs of the archive, at most so many and only those before a number, by number.

        Raises:
            StoreFailed: one cannot be read.
        """
        return await asyncio.to_thread(self._ports.store.newest_archived, count, before=before)

    def folder_of(self, job: values.Job) -> Path:
        """Where a job has the files of its runs, be it in the queue or archived."""
        return self._ports.store.folder_of(job)

    async def stop(self) -> None:
        """Let go of all jobs; their processes run on and are adopted by the next daemon."""
        await self._arrivals.landed()
        for task in self._tidying:
            task.cancel()
        await self._scheduler.stop()
        await self._book.landed()
        await self._ports.desk.landed()

    def _checked(self, jobs: Sequence[values.Job]) -> list[values.Job]:
        self.keep_numbers(job.id for job in jobs)
        submission.check(jobs)
        new = [job for job in submission.resolved(jobs) if self._book.find(job.id) is None]
        # Where some are there already a crash had interrupted their submission, and it goes on.
        if new and len(new) == len(jobs) and self.drained:
            raise errors.Refused("the job queue is drained and takes no jobs: see `roundsman queue undrain`")
        return new

    def _admit(self, jobs: Sequence[values.Job]) -> None:
        for job in jobs:
            self.jobs[job.id] = job
            self._scheduler.line_up(job.id)
        self._on_change()

    def _tell_end(self) -> None:
        self._on_change()
        self._on_end()


def _is_running(job: values.Job) -> bool:
    return any(opcode.status is values.Status.RUNNING for opcode in job.opcodes)
