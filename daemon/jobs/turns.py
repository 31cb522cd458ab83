"""Whose turn it is: every unfinished job waits for another job, is held by a filter, queued, or at work.

A queued job is let in when its turn has come; from then on a task of its own works on one opcode, and when that has
ended, or its lock attempts are used up, the job comes back here.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors, job_filters
from . import opcodes, rules, scheduling, slots, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .book import Book
    from .queue import Ports

LOG = logging.getLogger(__name__)
RESERVED = 16
"""How many short and urgent opcodes are at work beside those that have the common slots."""
INSIDE = 16
"""How many opcodes inside the daemon, which need no slot, are at work before others of a worse place begin."""


class Turns:
    """Lets jobs begin; `limit` is how many opcodes have a common slot, and is asked at every decision.

    Short and urgent opcodes have reserved slots: a resync may keep a common one for a day, and a fence must not wait so
    long.
    """

    def __init__(
        self,
        ports: Ports,
        book: Book,
        *,
        limit: Callable[[], int],
        submit: opcodes.Submit,
        on_end: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._book = book
        self._limit = limit
        self._on_end = on_end
        self._schedule = scheduling.Schedule()
        self._slots = {
            rules.Lane.URGENT: slots.Slots(lambda: RESERVED, urgency=self._urgency, on_change=self.look),
            rules.Lane.SLOT: slots.Slots(limit, urgency=self._urgency, on_change=self.look),
        }
        self._driver = opcodes.Driver(
            ports, book, schedule=self._schedule, slots=self._slots, submit=submit, on_room=self.look
        )
        self._drives: dict[int, asyncio.Task[None]] = {}
        self._still: set[int] = set()
        self._doomed: set[int] = set()
        self._dependants: dict[int, list[int]] = {}
        self._due: collections.deque[int] = collections.deque()
        self._held: dict[int, job_filters.Filter] = {}
        self._rules = rules.Rules(ports.configuration.current)
        self._is_looking = False
        self._is_over = False

    @property
    def held(self) -> Mapping[int, job_filters.Filter]:
        """The jobs that are held, each with the filter that holds it."""
        return self._held

    @property
    def at_work(self) -> int:
        """How many common slots are taken."""
        return len(self._slots[rules.Lane.SLOT].taken)

    @property
    def waiting(self) -> list[int]:
        """The jobs that have their locks and wait for a slot."""
        return [job for one in self._slots.values() for job in one.waiting]

    def line_up(self, job_id: int) -> None:
        """An unfinished job that is not at work waits for its turn."""
        self._due.append(job_id)
        self.look()

    def adopt(self, job: values.Job) -> None:
        """A job whose opcode was at work when the daemon ended still is, whatever the rules say now."""
        self._schedule.reserve(job.id, self._rules.judge(job).buckets)
        lane = rules.lane(job)
        if lane in self._slots:
            self._slots[lane].adopt(job.id)
        self._start(job.id)

    def look(self) -> None:
        """Something has changed that may let jobs begin: see to it as soon as the present event is dealt with."""
        if not self._is_looking and not self._is_over:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def reprioritize(self, job_id: int, priority: int) -> None:
        """A job has another priority, wherever it waits."""
        self._schedule.reprioritize(job_id, priority)
        self._driver.reprioritize(job_id, priority)
        self.look()

    def interrupt(self, job_id: int) -> None:
        """End what an opcode does now; it is settled like a lost one, and the job ends whatever is wrong with it."""
        self._doomed.add(job_id)
        self._driver.interrupt(job_id)
        if job_id in self._still:
            self._still.remove(job_id)
            self._start(job_id)

    async def leave(self, job_id: int) -> None:
        """Take a job that has ended out of wherever it waits."""
        drive = self._drives.get(job_id)
        if drive is None:
            self._ended(job_id)
        elif job_id in self._still:
            self._let_go(job_id)
        else:
            drive.cancel()
            await asyncio.wait([drive])

    async def stop(self) -> None:
        """Let go of all jobs, as they stand."""
        self._is_over = True
        drives = list(self._drives.values())
        for drive in drives:
            drive.cancel("the daemon stops")
        if drives:
            await asyncio.wait(drives)

    def _look(self) -> None:
        try:
            self._let_in()
        except Exception as error:  # noqa: BLE001 - a job that is lost here would wait for ever
            self._ports.failures.end("the job queue", error)

    def _let_in(self) -> None:
        self._is_looking = False
        if self._is_over:
            return
        if self._rules.renewed(self._ports.configuration.current):
            self._apply_filters()
        while self._due:
            self._place(self._due.popleft())
        for one in self._slots.values():
            one.hand_out()
        widths = {
            rules.Lane.URGENT: RESERVED,
            rules.Lane.SLOT: self._limit(),
            rules.Lane.DAEMON: INSIDE,
        }
        while (job := self._schedule.take(widths)) is not None:
            self._start(job)

    def _apply_filters(self) -> None:
        """New rules count for all that has not begun, also for what waits for its locks or a slot.

        What has begun is not stopped, and has its places in the buckets of new limits.
        """
        self._due.extend([*self._held, *self._schedule.queued()])
        self._held.clear()
        stop = {job_filters.Action.PAUSE, job_filters.Action.REJECT}
        for job_id in self._schedule.placed():
            job = self._book.jobs.get(job_id)
            if job is None:
                continue
            verdict = self._rules.judge(job)
            self._schedule.reserve(job_id, verdict.buckets)
            if not job.has_begun and verdict.action in stop and job_id in self._drives:
                self._drives[job_id].cancel()

    def _place(self, job_id: int) -> None:
        """Find out where an unfinished job that is not at work belongs."""
        job = self._book.jobs.get(job_id)
        if job is None or job.is_final or job_id in self._drives:
            return
        try:
            if job.canceling:
                self._end_unstarted(job_id, values.Status.CANCELED, "canceled")
                return
            judgement = rules.judge(job, self._book.find)
            if judgement.waits_for is not None:
                self._dependants.setdefault(judgement.waits_for, []).append(job_id)
                return
            if judgement.ends is not None:
                self._end_unstarted(job_id, judgement.ends, judgement.text)
                return
            self._enter(job)
        except errors.StoreFailed:
            LOG.exception("job %s cannot go on, and is tried again in %s s", job_id, opcodes.RETRY_SECONDS)
            asyncio.get_running_loop().call_later(opcodes.RETRY_SECONDS, self.line_up, job_id)

    def _enter(self, job: values.Job) -> None:
        self._schedule.drop(job.id)
        verdict = self._rules.judge(job)
        if job.has_begun:
            self._schedule.reserve(job.id, verdict.buckets)
        if verdict.decided is rules.EMERGENCY:
            self._held[job.id] = rules.EMERGENCY
        elif not job.has_begun and verdict.action is job_filters.Action.PAUSE and verdict.decided is not None:
            self._held[job.id] = verdict.decided
        elif not job.has_begun and verdict.action is job_filters.Action.REJECT and verdict.decided is not None:
            self._end_unstarted(job.id, values.Status.CANCELED, f"canceled: filter {verdict.decided.uuid} rejects it")
        else:
            entry = scheduling.Entry(job.id, job.priority, rules.lane(job), verdict.buckets)
            self._schedule.put(entry)

    def _end_unstarted(self, job_id: int, status: values.Status, text: str) -> None:
        self._book.end_unstarted(job_id, status, text)
        self._ended(job_id)

    def _start(self, job_id: int) -> None:
        drive = asyncio.get_running_loop().create_task(self._driver.work(job_id), name=f"job {job_id}")
        self._drives[job_id] = drive
        drive.add_done_callback(lambda drive: self._returned(job_id, drive))

    def _returned(self, job_id: int, drive: asyncio.Task[None]) -> None:
        try:
            self._take_back(job_id, drive)
        except Exception as error:  # noqa: BLE001 - a job that is lost here would wait for ever
            self._ports.failures.end("the job queue", error)

    def _take_back(self, job_id: int, drive: asyncio.Task[None]) -> None:
        if self._is_over:
            return
        if not drive.cancelled() and (defect := drive.exception()) is not None:
            # A job that stands still because of a defect is never silent about it.
            LOG.critical("job %s is stuck because of an internal error", job_id, exc_info=defect)
            self._ports.failures.failed(
                f"job {job_id}",
                f"it is stuck because of an internal error: {defect!r}",
                remedy=f"restart roundsmand to retry it, or end it with `roundsman jobs cancel {job_id}`",
            )
            if job_id in self._doomed:
                self._give_up(job_id, defect)
            else:
                self._still.add(job_id)
            return
        self._let_go(job_id)

    def _give_up(self, job_id: int, defect: BaseException) -> None:
        """A job that was to be ended is, although what it did could not be settled; its processes have ended."""
        folder = self._ports.store.run_folder(job_id, self._book.jobs[job_id].next_opcode or 0)
        text = f"canceled; a defect kept it from being settled, so what {folder} records may be unknown: {defect!r}"
        try:
            self._book.end_unstarted(job_id, values.Status.CANCELED, text)
        except errors.StoreFailed:
            LOG.exception("job %s cannot end, and is tried again in %s s", job_id, opcodes.RETRY_SECONDS)
            asyncio.get_running_loop().call_later(opcodes.RETRY_SECONDS, self._give_up, job_id, defect)
        else:
            self._let_go(job_id)

    def _let_go(self, job_id: int) -> None:
        """Nobody works on a job any more: it has ended, or is back in the queue."""
        del self._drives[job_id]
        self._still.discard(job_id)
        self._schedule.leaves(job_id)
        for one in self._slots.values():
            one.give_back(job_id)
        job = self._book.jobs.get(job_id)
        if job is None or job.is_final:
            self._ended(job_id)
        else:
            self._return_to_queue(job)
            self._due.append(job_id)
        self.look()

    def _return_to_queue(self, job: values.Job) -> None:
        index = job.next_opcode
        if index is not None and job.opcodes[index].status is values.Status.WAITING:
            self._book.set_opcode(job.id, index, is_durable=False, status=values.Status.QUEUED)
            self._driver.release(job.id)
        if not job.has_begun:
            self._schedule.give_back(job.id)

    def _ended(self, job_id: int) -> None:
        self._ports.failures.recovered(f"job {job_id}")
        self._held.pop(job_id, None)
        self._doomed.discard(job_id)
        self._schedule.drop(job_id)
        self._schedule.give_back(job_id)
        self._driver.release(job_id)
        self._book.tell_end(job_id)
        self._due.extend(self._dependants.pop(job_id, ()))
        job = self._book.jobs.get(job_id)
        if job is not None:
            # Somebody may have archived it the moment it had ended.
            LOG.info("job %s ended: %s %s", job_id, job.status.value, job.text)
        self._on_end()
        self.look()

    def _urgency(self, job_id: int) -> int:
        """A job that others wait for is as urgent as the most urgent of them."""
        awaited = self._ports.desk.table.awaited(values.lock_owner(job_id))
        return self._book.jobs[job_id].priority if awaited is None else min(awaited, self._book.jobs[job_id].priority)
