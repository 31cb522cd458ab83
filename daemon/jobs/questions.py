"""Jobs that only answer a question, as Ganeti's `GET /2/instances/NAME/info` makes them for anybody who may read.

They are bounded in number and age: one unfinished job for each question, some for each user, and those that have ended
are removed with their files, not archived.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import values

if TYPE_CHECKING:
    from . import book

KINDS = frozenset({"instance_query_data"})
UNFINISHED, UNFINISHED_OF_USER = 200, 50
"""Jobs that may wait or run at once, of all users and of one."""
KEPT, SECONDS = 500, 600.0
"""Jobs that are kept after their end, and for how many seconds."""
LEAST_SECONDS = 60.0
"""Younger ones are kept in any case, for those who asked read the answer after the end."""


class Questions:
    """The jobs of a queue that only answer questions; all of them are submitted under the lock `submitting`."""

    def __init__(self, known: book.Book, archivist: book.Archivist) -> None:
        self._book = known
        self._archivist = archivist
        self._numbers: list[int] | None = None
        self.submitting = asyncio.Lock()

    def unfinished(self, opcode: values.Opcode) -> values.Job | None:
        """The job that is going to answer the same question."""
        return next((job for job in self._jobs(is_final=False) if _is_same(job.opcodes[0], opcode)), None)

    def objection(self, user: str) -> str:
        """Why this user has to wait before asking one more question; '' if nothing is against it."""
        unfinished = self._jobs(is_final=False)
        own = sum(_user(job) == user for job in unfinished)
        if own >= UNFINISHED_OF_USER:
            return f"{own} of these jobs of {user} have not ended: wait until some have ended, then retry"
        if len(unfinished) >= UNFINISHED:
            return f"{len(unfinished)} of these jobs have not ended: wait until some have ended, then retry"
        return ""

    async def add(self, job: values.Job) -> None:
        """Count a job that was submitted, and of those that ended a while ago remove the oldest, so that `KEPT` stay.

        Raises:
            StoreFailed: one could not be removed.
        """
        self._known().append(job.id)
        ended = self._jobs(is_final=True)
        await self._archivist.remove(
            [known.id for known in ended[:-KEPT] if known.ended <= job.received - LEAST_SECONDS]
        )

    async def remove_ended_before(self, moment: float) -> None:
        """Remove the jobs that ended before a moment (unix seconds).

        Raises:
            StoreFailed: one could not be removed.
        """
        await self._archivist.remove([job.id for job in self._jobs(is_final=True) if job.ended <= moment])

    def _jobs(self, *, is_final: bool) -> list[values.Job]:
        """Those that have ended or not, by number."""
        self._numbers = [number for number in self._known() if number in self._book.jobs]
        return [job for job in map(self._book.jobs.__getitem__, self._numbers) if job.is_final is is_final]

    def _known(self) -> list[int]:
        """Their numbers; all jobs are looked at only once, for those of before a restart."""
        if self._numbers is None:
            self._numbers = sorted(number for number, job in self._book.jobs.items() if _is_question(job))
        return self._numbers


def _is_question(job: values.Job) -> bool:
    return all(opcode.kind in KINDS for opcode in job.opcodes)


def _is_same(one: values.Opcode, other: values.Opcode) -> bool:
    return (one.kind, one.params, one.dry_run) == (other.kind, other.params, other.dry_run)


def _user(job: values.Job) -> str:
    return next((entry.text for entry in job.reason if entry.source.startswith(values.CLIENT)), "")
