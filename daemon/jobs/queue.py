"""The job queue: submission, order, dependencies, cancelation, archive; after a crash every job goes on as it stood.

A job that was submitted is queued. It is let in when its dependencies have ended, no filter holds it and its turn has
come; then it waits for the locks of its next opcode, has them granted, takes a slot and works. After each opcode, and
when its lock attempts are used up, it is back in the queue.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import logging
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors, job_filters
from . import accepting, archiving, book, dependencies, driving, scheduling, slots, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .ports import Ports

LOG = logging.getLogger(__name__)
INSIDE = 16
"""How many opcodes inside the daemon, which need no slot, are at work before others of a worse place begin."""


class Queue:
    """All jobs that are not archived; every change of a job is durable before it has an effect."""

    def __init__(
        self,
        ports: Ports,
        *,
        limit: Callable[[], int],
        archive_after: float = 0,
        on_change: Callable[[], None],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._ports = ports
        self._book = book.Book(ports.store, clock=ports.clock, on_change=on_change)
        self._limit = limit
        self._archive_after = archive_after
        self._tidying: asyncio.Task[None] | None = None
        self._on_change = on_change
        self._on_end = on_end
        self._schedule = scheduling.Schedule()
        self._slots = slots.Slots(limit, urgency=self._urgency)
        self._driver = driving.Driver(
            ports, self._book, schedule=self._schedule, slots=self._slots, submit=self, on_room=self.look
        )
        self._archivist = archiving.Archivist(ports, self._book)
        self._arrivals = accepting.Arrivals(ports.store, self._admit)
        self._drives: dict[int, asyncio.Task[None]] = {}
        self._dependants: dict[int, list[int]] = {}
        self._due: collections.deque[int] = collections.deque()
        self._held: dict[int, job_filters.Verdict] = {}
        self._filters: Mapping[str, job_filters.Filter] = {}
        self._is_looking = False
        self._stopping = False
        self._next_id = 1 + max(ports.store.highest_id(), *accepting.promised(self.jobs.values()), 0)

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
        self._next_id = max([self._next_id, *(one + 1 for one in ids)])

    def add(self, jobs: Iterable[values.Job]) -> None:
        """Submit jobs with reserved numbers: all are durable before the first one starts, or none of them is there.

        Raises:
            InvalidInput: an opcode is unknown, its parameters are wrong, or a dependency makes no sense.
            Refused: the queue is drained. StoreFailed: one could not be made durable.
        """
        new = self._checked(list(jobs))
        if new:
            self._ports.store.save_new(new)
            self._admit(new)

    async def submit(self, jobs: Sequence[values.Job]) -> list[values.Job]:
        """Submit jobs, which get their numbers here; submissions that come together are made durable together.

        Raises:
            InvalidInput, Refused, StoreFailed: as for `add`.
        """
        ids = self.reserve(len(jobs))
        new = self._checked([dataclasses.replace(job, id=number) for job, number in zip(jobs, ids, strict=True)])
        await self._arrivals.take(new)
        return [self.jobs[number] for number in ids]

    async def take(self, jobs: Sequence[values.Job]) -> None:
        """Submit jobs with reserved numbers as `submit` does; those that are there already stay as they are.

        Raises:
            InvalidInput, Refused, StoreFailed: as for `add`.
        """
        await self._arrivals.take(self._checked(jobs))

    def resume(self) -> None:
        """After a start: go on with every job that had not ended; locks are kept only where an opcode is at work."""
        at_work = {driving.owner(job.id) for job in self.jobs.values() if _is_running(job)}
        for owner in self._ports.desk.table.owners():
            if not owner.livelock and owner not in at_work:
                self._ports.desk.release(owner)
        self._filters = self._ports.configuration.current.filters
        for job in list(self.jobs.values()):
            if _is_running(job):
                self._adopt(job)
            elif not job.is_final:
                self._due.append(job.id)
        if self._archive_after:
            self._tidying = asyncio.get_running_loop().create_task(self._archivist.run(after=self._archive_after))
        self.look()

    async def cancel(self, job_id: int, *, kill: bool) -> values.Job:
        """Cancel a job: what has not started never starts; what runs is killed, or finishes when `kill` is false.

        Raises:
            NotFound: there is no such job. Refused: it has ended already. StoreFailed: nothing was done.
        """
        job = self.find(job_id)
        if job.is_final:
            raise errors.Refused(f"job {job_id} has ended: {job.status.value}")
        if not _is_running(job):
            self._book.end_unstarted(job_id, values.Status.CANCELED, "canceled")
            await self._leave(job_id)
        else:
            self._book.change(job_id, lambda one: dataclasses.replace(one, canceling=True))
            if kill:
                self._driver.interrupt(job_id)
                await self._book.until_end(job_id)
        return self.jobs[job_id]

    def change_priority(self, job_id: int, priority: int) -> values.Job:
        """Give the opcodes of a job that are queued or wait another priority.

        Raises:
            NotFound: there is no such job. InvalidInput: there is no such priority. Refused: none of its opcodes waits.
            StoreFailed: nothing was done.
        """
        values.check_priority(priority)
        self.find(job_id).with_priority(priority)
        job = self._book.change(job_id, lambda one: one.with_priority(priority))
        if not _is_running(job):
            self._schedule.reprioritize(job_id, priority)
            self._ports.desk.reprioritize(driving.owner(job_id), priority)
            self.look()
        return job

    async def wait(self, job_id: int, *, seconds: float) -> None:
        """Wait until a job has ended, at most so long."""
        await self._book.wait(job_id, seconds=seconds)

    def now(self) -> float:
        """The clock by which jobs are dated, in unix seconds."""
        return self._ports.clock()

    def unfinished(self, ids: Iterable[int]) -> list[int]:
        """Those of these jobs that have not ended."""
        return [one for one in ids if one in self.jobs and not self.jobs[one].is_final]

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
        """Something has changed that may let jobs begin: see to it as soon as the present event is dealt with."""
        if not self._is_looking and not self._stopping:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def why_held(self, job_id: int) -> str:
        """Which filter holds a job, or ''."""
        verdict = self._held.get(job_id)
        return "" if verdict is None or verdict.decided is None else f"held by filter {verdict.decided.uuid}"

    @property
    def held(self) -> int:
        """How many jobs are held by filters."""
        return len(self._held)

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

    async def stop(self) -> None:
        """Let go of all jobs; their processes run on and are adopted by the next daemon."""
        self._stopping = True
        await self._arrivals.stop()
        work = [*self._drives.values(), *([self._tidying] if self._tidying else [])]
        for one in work:
            one.cancel("the daemon stops")
        if work:
            await asyncio.wait(work)

    def _checked(self, jobs: Sequence[values.Job]) -> list[values.Job]:
        self.keep_numbers(job.id for job in jobs)
        accepting.check(jobs)
        new = [job for job in dependencies.resolved(jobs) if self._book.find(job.id) is None]
        if new and self.drained:
            raise errors.Refused("the job queue is drained and takes no jobs: see `roundsman queue undrain`")
        return new

    def _admit(self, jobs: Sequence[values.Job]) -> None:
        for job in jobs:
            self.jobs[job.id] = job
            self._due.append(job.id)
        self._on_change()
        self.look()

    def _look(self) -> None:
        self._is_looking = False
        if self._stopping:
            return
        if self._ports.configuration.current.filters is not self._filters:
            self._filters = self._ports.configuration.current.filters
            self._due.extend([*self._held, *self._schedule.queued()])
            self._held.clear()
        while self._due:
            self._place(self._due.popleft())
        self._slots.hand_out()
        widths = {scheduling.Lane.SLOT: self._limit(), scheduling.Lane.DAEMON: INSIDE}
        while (job := self._schedule.take(widths)) is not None:
            self._start(job)

    def _place(self, job_id: int) -> None:
        """Find out where an unfinished job that is not at work belongs."""
        job = self.jobs.get(job_id)
        if job is None or job.is_final or job_id in self._drives:
            return
        try:
            if job.canceling:
                self._end_unstarted(job_id, values.Status.CANCELED, "canceled")
                return
            judgement = dependencies.judge(job, self._book.find)
            if judgement.waits_for is not None:
                self._dependants.setdefault(judgement.waits_for, []).append(job_id)
                return
            if judgement.ends is not None:
                self._end_unstarted(job_id, judgement.ends, judgement.text)
                return
            self._line_up(job)
        except errors.StoreFailed:
            LOG.exception("job %s cannot go on, and is tried again in %s s", job_id, driving.RETRY_SECONDS)
            asyncio.get_running_loop().call_later(driving.RETRY_SECONDS, self._try_again, job_id)

    def _try_again(self, job_id: int) -> None:
        self._due.append(job_id)
        self.look()

    def _line_up(self, job: values.Job) -> None:
        self._schedule.drop(job.id)
        verdict = job_filters.judge(self._filters, accepting.subject(job))
        if not job.has_begun and verdict.action is job_filters.Action.PAUSE:
            self._held[job.id] = verdict
        elif not job.has_begun and verdict.action is job_filters.Action.REJECT and verdict.decided is not None:
            self._end_unstarted(job.id, values.Status.CANCELED, f"canceled: filter {verdict.decided.uuid} rejects it")
        else:
            entry = scheduling.Entry(job.id, job.priority, accepting.lane(job), verdict.buckets)
            self._schedule.put(entry)

    def _end_unstarted(self, job_id: int, status: values.Status, text: str) -> None:
        self._book.end_unstarted(job_id, status, text)
        self._ended(job_id)

    def _adopt(self, job: values.Job) -> None:
        """A job whose opcode was at work when the daemon ended: it is, whatever the rules say now."""
        self._schedule.reserve(job.id, job_filters.judge(self._filters, accepting.subject(job)).buckets)
        if accepting.lane(job) is scheduling.Lane.SLOT:
            self._slots.adopt(job.id)
        self._start(job.id)

    def _start(self, job_id: int) -> None:
        drive = asyncio.get_running_loop().create_task(self._driver.work(job_id), name=f"job {job_id}")
        self._drives[job_id] = drive
        drive.add_done_callback(lambda drive: self._returned(job_id, drive))

    def _returned(self, job_id: int, drive: asyncio.Task[None]) -> None:
        if self._stopping:
            return
        if not drive.cancelled() and (defect := drive.exception()) is not None:
            # A job that stands still because of a defect is never silent about it.
            LOG.critical("job %s stands still: this is a defect; a restart takes it up again", job_id, exc_info=defect)
            return
        del self._drives[job_id]
        self._schedule.leaves(job_id)
        self._slots.give_back(job_id)
        if self.jobs[job_id].is_final:
            self._ended(job_id)
        else:
            if not self.jobs[job_id].has_begun:
                self._schedule.give_back(job_id)
            self._due.append(job_id)
        self.look()

    async def _leave(self, job_id: int) -> None:
        """Take a job that has ended out of wherever it waits."""
        drive = self._drives.get(job_id)
        if drive is None:
            self._ended(job_id)
            return
        drive.cancel()
        await asyncio.wait([drive])

    def _ended(self, job_id: int) -> None:
        self._held.pop(job_id, None)
        self._schedule.drop(job_id)
        self._schedule.give_back(job_id)
        self._driver.release(job_id)
        self._book.tell_end(job_id)
        self._due.extend(self._dependants.pop(job_id, ()))
        job = self.jobs[job_id]
        LOG.info("job %s ended: %s %s", job_id, job.status.value, job.text)
        self._on_change()
        self._on_end()
        self.look()

    def _urgency(self, job_id: int) -> int:
        """A job that others wait for is as urgent as the most urgent of them."""
        awaited = self._ports.desk.table.awaited(driving.owner(job_id))
        return self.jobs[job_id].priority if awaited is None else min(awaited, self.jobs[job_id].priority)


def _is_running(job: values.Job) -> bool:
    return any(one.status is values.Status.RUNNING for one in job.opcodes)
