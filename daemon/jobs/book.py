"""The jobs that are not archived, as they stand: on disk first, then for all who ask; and when they go to the archive.

A job keeps the logs and the other files of its runs for as long as it is there, in the queue and in the archive. What
was written last so many seconds ago leaves the archive, with all its files; the newest stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors, secret_values
from .. import writing
from . import values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from .ports import Ports
    from .store import Store

PART, CLEARING = "archive of jobs", "removal of old archived jobs"
REMEDY = "make /var/lib/roundsman/queue/archive writable for the daemon, with free space"
INTERVAL = 300.0
CLEARING_INTERVAL = 3600.0
AT_ONCE = 1000


class Book:
    """Every job by its number; whoever changes one, changes it here."""

    def __init__(self, store: Store, *, clock: Callable[[], float], on_change: Callable[[], None]) -> None:
        self.jobs: dict[int, values.Job] = {}
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._ends: dict[int, asyncio.Event] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._changing: set[asyncio.Task[values.Job]] = set()

    def load(self) -> None:
        """Read all jobs of the queue.

        Raises:
            StoreFailed: one cannot be read.
        """
        self.jobs.update(self._store.load())

    def find(self, number: int) -> values.Job | None:
        """A job of the queue or of the archive.

        Raises:
            StoreFailed: the archive cannot be read.
        """
        return self.jobs.get(number) or self._store.archived(number)

    async def change(
        self, number: int, rule: Callable[[values.Job], values.Job], *, is_durable: bool = True
    ) -> values.Job:
        """Give a job another value, durably unless a restart may well forget it; its changes come one after the other.

        A rule is given the value that the change before it has left. A caller that is canceled while a value is being
        written has changed it all the same.

        Raises:
            NotFound: it is not in the queue. StoreFailed: it could not be written, and stands as before.
        """
        async with self._turns.setdefault(number, asyncio.Lock()):
            before = self.jobs.get(number)
            if before is None:
                raise errors.NotFound(f"there is no job {number} in the queue")
            job = rule(before)
            if not is_durable:
                return self._replace(job)
            task = asyncio.get_running_loop().create_task(self._written(before, job, rule))
            self._changing.add(task)
            task.add_done_callback(self._changing.discard)
            return await writing.to_its_end(task)

    async def _written(
        self, before: values.Job, job: values.Job, rule: Callable[[values.Job], values.Job]
    ) -> values.Job:
        await self._store.write(job)
        # What a restart may well forget has perhaps changed meanwhile.
        now = self.jobs[job.id]
        return self._replace(job if now is before else rule(now))

    async def landed(self) -> None:
        """Wait until no change is being written."""
        while self._changing:
            await asyncio.wait(self._changing)

    def _replace(self, job: values.Job) -> values.Job:
        self.jobs[job.id] = job
        self._on_change()
        return job

    def set_opcode(self, number: int, index: int, **fields: Any) -> None:
        """Change fields of one opcode of a job that a restart may well forget."""
        job = self.jobs[number]
        self._replace(job.with_opcode(index, dataclasses.replace(job.opcodes[index], **fields)))

    async def begin(self, number: int, index: int, *, is_durable: bool, **fields: Any) -> None:
        """An opcode is at work; the reason trail says so, as in Ganeti."""
        now = self._clock()

        def rule(job: values.Job) -> values.Job:
            opcode = dataclasses.replace(job.opcodes[index], status=values.Status.RUNNING, started=now, **fields)
            entry = values.Reason(f"gnt:opcode:{opcode.kind}", f"job={number};index={index}", int(now * 1e9))
            return dataclasses.replace(job.with_opcode(index, opcode), reason=(*job.reason, entry))

        await self.change(number, rule, is_durable=is_durable)

    async def end(self, number: int, index: int, status: values.Status, text: str, *, result: Any = None) -> None:
        """An opcode has ended; after one that ended badly, or after the last, so has the job; one being canceled too.

        Anybody may read its text: secrets in it are hidden.

        Raises:
            StoreFailed: it could not be written; the opcode stands as before.
        """
        now = self._clock()

        def rule(job: values.Job) -> values.Job:
            told = secret_values.masked(text)
            opcode = dataclasses.replace(job.opcodes[index], status=status, text=told, ended=now, result=result)
            job = job.with_opcode(index, opcode)
            if status is not values.Status.SUCCESS:
                return job.over(now=now, text=f"opcode {index + 1} ended in {status.value}")
            if job.canceling:
                return job.over(now=now, text="canceled")
            return job if job.next_opcode is not None else dataclasses.replace(job, ended=now)

        await self.change(number, rule)

    async def end_unstarted(self, number: int, status: values.Status, text: str) -> None:
        """A job ends without any opcode of it going on.

        Raises:
            StoreFailed: it could not be written; the job stands as before.
        """
        now = self._clock()
        await self.change(number, lambda job: over(job, status, text, now=now))

    def tell_end(self, number: int) -> None:
        """Wake those who wait for the end of a job."""
        self._turns.pop(number, None)
        event = self._ends.pop(number, None)
        if event is not None:
            event.set()

    async def until_end(self, number: int) -> None:
        """Wait until a job has ended."""
        if number in self.jobs and not self.jobs[number].is_final:
            await self._ends.setdefault(number, asyncio.Event()).wait()

    async def wait(self, number: int, *, seconds: float) -> None:
        """Wait until a job has ended, at most so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.until_end(number), seconds)


def over(
    job: values.Job, status: values.Status, text: str, *, now: float, reasons: tuple[values.Reason, ...] = ()
) -> values.Job:
    """A job that has ended without any opcode of it going on, with further reasons."""
    index = job.next_opcode
    if index is not None and status is values.Status.ERROR:
        ended = dataclasses.replace(job.opcodes[index], status=status, text=text, ended=now)
        job = job.with_opcode(index, ended)
    is_canceling = job.canceling or status is values.Status.CANCELED
    return dataclasses.replace(job, canceling=is_canceling, reason=(*job.reason, *reasons)).over(now=now, text=text)


class Archivist:
    """Takes jobs that have ended out of the queue; what maintenance still goes by stays."""

    def __init__(self, ports: Ports, book: Book) -> None:
        self._ports = ports
        self._book = book

    def archive(self, number: int) -> None:
        """Move one job to the archive.

        Raises:
            NotFound: it is not in the queue. Refused: it has not ended, or maintenance goes by it. StoreFailed: the
                archive cannot be written.
        """
        job = self._book.jobs.get(number)
        if job is None:
            raise errors.NotFound(f"there is no job {number} in the queue")
        if not job.is_final:
            raise errors.Refused(f"job {number} has not ended: it is {job.status.value}")
        if number in self._kept():
            raise errors.Refused(f"job {number} belongs to a repair that is not over: it is archived after it")
        self._ports.store.archive.take_in([number], on_moved=self._forget)

    async def archive_older_than(self, seconds: float) -> list[int]:
        """Move all jobs that ended longer ago; returns their numbers.

        Raises:
            StoreFailed: the archive cannot be written; those that were moved are.
        """
        before, kept = self._ports.clock() - seconds, self._kept()
        old = [
            number
            for number, job in self._book.jobs.items()
            if job.is_final and job.ended <= before and number not in kept
        ]
        moved: list[int] = []

        def forget(number: int) -> None:
            self._forget(number)
            moved.append(number)

        for index in range(0, len(old), AT_ONCE):
            # In parts, so that the daemon answers between them.
            part = [number for number in old[index : index + AT_ONCE] if number in self._book.jobs]
            self._ports.store.archive.take_in(part, on_moved=forget)
            await asyncio.sleep(0)
        return moved

    async def remove(self, wanted: Iterable[int]) -> None:
        """Remove ended jobs for good, with their files, without a stay in the archive.

        The newest job of the queue stays, for no later job may get its number again.

        Raises:
            StoreFailed: one could not be removed; it is in the archive then, and is removed from there later.
        """
        newest = max(self._book.jobs, default=0)
        numbers = [number for number in wanted if number != newest and number not in self._kept()]
        if not numbers:
            return
        self._ports.store.archive.take_in(numbers, on_moved=self._forget)
        await asyncio.to_thread(self._ports.store.archive.remove, numbers)

    async def run(self, tidy: Callable[[], Awaitable[None]], *, interval: float) -> None:
        """Tidy the queue for ever."""
        while True:
            try:
                await tidy()
                self._ports.failures.recovered(PART)
            except errors.StoreFailed as error:
                self._ports.failures.failed(PART, error, remedy=REMEDY)
            await asyncio.sleep(min(INTERVAL, interval))

    async def remove_older_than(self, seconds: float) -> list[int]:
        """Remove for good what was archived and ended longer ago, but for what jobs in the queue depend on.

        Raises:
            StoreFailed: the archive cannot be written; the rest is removed the next time.
        """
        needed = {dependency.job for job in self._book.jobs.values() if not job.is_final for dependency in job.depends}
        before = self._ports.clock() - seconds
        return await asyncio.to_thread(self._ports.store.archive.remove_older, than=before, but=needed)

    async def clear(self, *, keep: float) -> None:
        """Remove for ever what ended longer ago than so many seconds."""
        while True:
            try:
                await self.remove_older_than(keep)
                self._ports.failures.recovered(CLEARING)
            except errors.StoreFailed as error:
                self._ports.failures.failed(CLEARING, error, remedy=REMEDY)
            await asyncio.sleep(CLEARING_INTERVAL)

    def _forget(self, number: int) -> None:
        del self._book.jobs[number]

    def _kept(self) -> set[int]:
        maintenance = self._ports.configuration.current.maintenance
        return {*maintenance.jobs, *(job for incident in maintenance.incidents for job in incident.jobs)}
