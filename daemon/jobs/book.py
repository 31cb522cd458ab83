"""The jobs that are not archived, as they stand: on disk first, then for all who ask."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import secret_values
from . import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from .store import Store


class Book:
    """Every job by its number; whoever changes one, changes it here."""

    def __init__(self, store: Store, *, clock: Callable[[], float], on_change: Callable[[], None]) -> None:
        self.jobs: dict[int, values.Job] = store.load()
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._ends: dict[int, asyncio.Event] = {}

    def find(self, number: int) -> values.Job | None:
        """A job of the queue or of the archive.

        Raises:
            StoreFailed: the archive cannot be read.
        """
        return self.jobs.get(number) or self._store.archived(number)

    def change(self, number: int, rule: Callable[[values.Job], values.Job], *, is_durable: bool = True) -> values.Job:
        """Give a job another value, durably unless a restart may well forget it.

        Raises:
            StoreFailed: it could not be written, and stands as before.
        """
        job = rule(self.jobs[number])
        if is_durable:
            self._store.save(job)
        self.jobs[number] = job
        self._on_change()
        return job

    def set_opcode(self, number: int, index: int, *, is_durable: bool = True, **fields: Any) -> None:
        """Change fields of one opcode of a job."""

        def rule(job: values.Job) -> values.Job:
            return job.with_opcode(index, dataclasses.replace(job.opcodes[index], **fields))

        self.change(number, rule, is_durable=is_durable)

    def begin(self, number: int, index: int, *, is_durable: bool, **fields: Any) -> None:
        """An opcode is at work; the reason trail says so, as in Ganeti."""
        now = self._clock()

        def rule(job: values.Job) -> values.Job:
            opcode = dataclasses.replace(job.opcodes[index], status=values.Status.RUNNING, started=now, **fields)
            entry = values.Reason(f"gnt:opcode:{opcode.kind}", f"job={number};index={index}", int(now * 1e9))
            return dataclasses.replace(job.with_opcode(index, opcode), reason=(*job.reason, entry))

        self.change(number, rule, is_durable=is_durable)

    def end(self, number: int, index: int, status: values.Status, text: str, *, result: Any = None) -> None:
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

        self.change(number, rule)

    def end_unstarted(self, number: int, status: values.Status, text: str) -> None:
        """A job ends without any opcode of it going on.

        Raises:
            StoreFailed: it could not be written; the job stands as before.
        """
        now = self._clock()

        def rule(job: values.Job) -> values.Job:
            index = job.next_opcode
            if index is not None and status is values.Status.ERROR:
                ended = dataclasses.replace(job.opcodes[index], status=status, text=text, ended=now)
                job = job.with_opcode(index, ended)
            return dataclasses.replace(job, canceling=job.canceling or status is values.Status.CANCELED).over(
                now=now, text=text
            )

        self.change(number, rule)

    def tell_end(self, number: int) -> None:
        """Wake those who wait for the end of a job."""
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
