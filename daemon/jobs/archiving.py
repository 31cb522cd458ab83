"""Which jobs go to the archive, and when; and which leave it for good.

A job keeps the logs and the other files of its runs for as long as it is there, in the queue and in the archive. What
was written last so many seconds ago leaves the archive, with all its files; the newest stays.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors

if TYPE_CHECKING:
    from .book import Book
    from .ports import Ports

PART, CLEARING = "archive of jobs", "removal of old archived jobs"
REMEDY = "make /var/lib/roundsman/queue/archive writable for the daemon, with free space"
INTERVAL = 300.0
CLEARING_INTERVAL = 3600.0
AT_ONCE = 1000


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

    async def run(self, *, after: float) -> None:
        """Archive for ever what ended longer ago than so many seconds."""
        while True:
            try:
                await self.archive_older_than(after)
                self._ports.failures.recovered(PART)
            except errors.StoreFailed as error:
                self._ports.failures.failed(PART, error, remedy=REMEDY)
            await asyncio.sleep(min(INTERVAL, after))

    async def remove_older_than(self, seconds: float) -> list[int]:
        """Remove for good what was archived and ended longer ago, but for what jobs in the queue depend on.

        Raises:
            StoreFailed: the archive cannot be written; the rest is removed the next time.
        """
        needed = {one.job for job in self._book.jobs.values() if not job.is_final for one in job.depends}
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
        return {*maintenance.jobs, *(job for one in maintenance.incidents for job in one.jobs)}
