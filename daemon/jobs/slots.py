"""Slots: how many opcodes are at work at once, and who gets the next free one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Slots:
    """A free slot goes to the most urgent job whose locks are granted, then to the lowest number.

    `limit` and `urgency` are asked at every decision, so that a changed limit or priority counts at once. Whoever has a
    slot has all its locks and waits for no other job: every slot becomes free again, whoever waits for one. Who calls
    `hand_out` after `on_change` does so when all that the same event has woken had time to ask for a slot as well.
    """

    def __init__(
        self, limit: Callable[[], int], *, urgency: Callable[[int], int], on_change: Callable[[], None]
    ) -> None:
        self.taken: set[int] = set()
        self._on_change = on_change
        self._limit = limit
        self._urgency = urgency
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def take(self, job: int) -> None:
        """Wait for a slot; a job that has one keeps it."""
        if job in self.taken:
            return
        waiting = self._waiting[job] = asyncio.get_running_loop().create_future()
        self._on_change()
        try:
            await waiting
        except asyncio.CancelledError:
            self._waiting.pop(job, None)
            self.give_back(job)
            raise

    def adopt(self, job: int) -> None:
        """A job is at work already; it has a slot even when there are too few."""
        self.taken.add(job)

    def give_back(self, job: int) -> None:
        """A job is not at work any more."""
        self.taken.discard(job)
        self._on_change()

    def hand_out(self) -> None:
        """Give the free slots to those who wait."""
        while self._waiting and len(self.taken) < self._limit():
            job = min(self._waiting, key=lambda one: (self._urgency(one), one))
            self.taken.add(job)
            waiting = self._waiting.pop(job)
            if not waiting.done():
                waiting.set_result(None)

    @property
    def waiting(self) -> list[int]:
        """The jobs that have their locks and wait for a slot."""
        return list(self._waiting)
