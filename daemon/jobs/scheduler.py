"""The scheduler: which jobs may begin now and in which order, who gets a free slot, and what ends a wait.

Every unfinished job waits for another job, is held by a filter, is queued, or is at work. A queued job is admitted by
priority, then number; from then on a task works on one opcode, and when that has ended, or its lock attempts are used
up, the job is back in the queue.

An admitted job asks for its locks, and a lock holder that is not at work stands in the way of others: so only as many
jobs are admitted before others as can be at work. One that waits for its locks is not among them and keeps nobody out,
until a thousand wait. A job is measured by the better ones only: a worse one never keeps it out.

A free slot goes to the most urgent job whose locks are granted, then to the lowest number: a job with a slot waits for
no other, so every slot becomes free again. Nothing here looks at all jobs: those that a filter holds, or whose bucket
is full, stand aside until it changes.
"""

from __future__ import annotations

import asyncio
import bisect
import collections
import contextlib
import logging
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import job_filters
from . import opcodes, rules, values
from .rules import BLOCKED_LINE, Entry, Lane, Stand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from .book import Book
    from .ports import Ports, Submit
    from .rules import Line, Place

LOG = logging.getLogger(__name__)
RESERVED = 16
"""How many short and urgent opcodes are at work beside those that have the common slots."""
INSIDE = 16
"""How many opcodes inside the daemon, which need no slot, are at work before others of a worse place begin."""
BLOCKED = 1000
"""How many better jobs may wait for locks before another one is admitted."""


class Scheduler:
    """Lets jobs begin; `limit` is how many opcodes have a common slot.

    Limit, priorities and filters are looked at in every decision, so that a changed one counts at once. Short and
    urgent opcodes have reserved slots: a resync may keep a common one for a day, and a fence must not wait so long.
    """

    def __init__(
        self, ports: Ports, book: Book, *, limit: Callable[[], int], submit: Submit, on_end: Callable[[], None]
    ) -> None:
        self._ports = ports
        self._book = book
        self._limit = limit
        self._on_end = on_end
        self._driver = opcodes.Driver(ports, book, turns=self, submit=submit)
        self._entries: dict[int, Entry] = {}
        self._lines: dict[Line, list[Place]] = {BLOCKED_LINE: []}
        self._lines |= {(stand, lane): [] for stand in (Stand.QUEUED, Stand.ADMITTED) for lane in Lane}
        self._tickets: dict[str, set[int]] = {}
        self._slots: dict[Lane, set[int]] = {Lane.URGENT: set(), Lane.SLOT: set()}
        self._awaiting: dict[Lane, dict[int, asyncio.Future[None]]] = {Lane.URGENT: {}, Lane.SLOT: {}}
        self._due: collections.deque[int] = collections.deque()
        self._filters: Mapping[str, job_filters.Filter] = {}
        self._source: tuple[Mapping[str, job_filters.Filter], bool] | None = None
        self._is_looking = False
        self._is_over = False

    @property
    def held(self) -> Mapping[int, job_filters.Filter]:
        """The jobs that are held, each with the filter that holds it."""
        return {number: entry.held_by for number, entry in self._entries.items() if entry.held_by is not None}

    @property
    def at_work(self) -> int:
        """How many common slots are taken."""
        return len(self._slots[Lane.SLOT])

    @property
    def waiting(self) -> list[int]:
        """The jobs that have their locks and wait for a slot."""
        return [number for waiting in self._awaiting.values() for number in waiting]

    def line_up(self, number: int) -> None:
        """An unfinished job that is not at work waits for its turn."""
        if (job := self._book.jobs.get(number)) is not None and not job.is_final:
            self._entry(number)
            self._due.append(number)
            self.look()

    def adopt(self, job: values.Job) -> None:
        """A job whose opcode was at work when the daemon ended still is, whatever filters and slots there are now."""
        self._renew_filters()
        entry = self._entry(job.id)
        entry.priority, entry.lane = job.priority, rules.lane(job)
        self._take_tickets(entry, rules.verdict(self._filters, job).buckets)
        if entry.lane in self._slots:
            self._slots[entry.lane].add(job.id)
        self._start(entry, self._driver.work(job.id))

    def look(self) -> None:
        """Something may let jobs begin: decide once all that the same event wakes had time to ask for a slot."""
        if not self._is_looking and not self._is_over:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def reprioritize(self, number: int, priority: int) -> None:
        """A job has another priority, wherever it waits; its lock attempts begin anew."""
        entry = self._entry(number)
        line, is_queued = entry.line, entry.is_queued
        self._leave_line(entry)
        entry.priority = priority
        # One that stood aside for a bucket is looked at again.
        self._move(entry, (Stand.QUEUED, entry.lane) if is_queued else line)
        self._ports.desk.reprioritize(values.lock_owner(number), priority)
        seconds = rules.patience(priority)
        if entry.attempts is not None and not entry.attempts.expired():
            entry.attempts.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)
        self.look()

    def interrupt(self, number: int) -> None:
        """End what an opcode does now; it is settled like a lost one, and the job ends whatever is wrong with it."""
        self._driver.interrupt(number)

    async def leave(self, number: int) -> None:
        """Take a job that has ended out of wherever it waits."""
        entry = self._entry(number)
        if entry.task is None:
            self._ended(entry)
        else:
            entry.task.cancel()
            await asyncio.wait([entry.task])
            # Once the daemon stops nobody else does.
            self._driver.release(number)

    async def stop(self) -> None:
        """Let go of all jobs, as they stand."""
        self._is_over = True
        if tasks := [entry.task for entry in self._entries.values() if entry.task is not None]:
            for task in tasks:
                task.cancel("the daemon stops")
            await asyncio.wait(tasks)

    @contextlib.asynccontextmanager
    async def lock_attempts(self, number: int, *, seconds: float | None) -> AsyncIterator[None]:
        """As long as this lasts an admitted job waits for its locks, and keeps nobody out.

        Raises:
            TimeoutError: its attempts at its priority are used up.
        """
        entry = self._entries[number]
        if entry.line == (Stand.ADMITTED, entry.lane):
            self._move(entry, BLOCKED_LINE)
        self.look()
        try:
            async with asyncio.timeout(seconds) as entry.attempts:
                yield
        finally:
            entry.attempts = None
        if entry.line == BLOCKED_LINE:
            self._move(entry, (Stand.ADMITTED, entry.lane))

    async def take_slot(self, number: int) -> None:
        """Wait for a slot for a job that has its locks; one that has a slot keeps it."""
        entry = self._entries[number]
        if number not in self._slots[entry.lane]:
            granted = self._awaiting[entry.lane][number] = asyncio.get_running_loop().create_future()
            self.look()
            try:
                await granted
            except asyncio.CancelledError:
                self._give_slot_back(entry)
                raise
        self._move(entry, None)
        self.look()

    def _entry(self, number: int) -> Entry:
        return self._entries.setdefault(number, Entry(number))

    def _look(self) -> None:
        self._is_looking = False
        try:
            if not self._is_over:
                self._decide()
        except Exception as error:  # noqa: BLE001 - a job that is lost here would wait for ever
            self._ports.failures.end("the job queue", error)

    def _decide(self) -> None:
        if self._renew_filters():
            self._apply_filters()
        while self._due:
            self._place(self._due.popleft())
        self._hand_out_slots()
        while (entry := self._admit_next()) is not None:
            self._start(entry, self._driver.work(entry.number))

    def _renew_filters(self) -> bool:
        """Take the filters of the configuration as it is now; returns whether they may be others than before."""
        cluster, known = self._ports.configuration.current, self._source
        is_emergency = cluster.maintenance.epo is not None
        if known is not None and cluster.filters is known[0] and is_emergency is known[1]:
            return False
        self._source, self._filters = (cluster.filters, is_emergency), rules.filters(cluster)
        return True

    def _apply_filters(self) -> None:
        """New filters count for all that has not begun, also for what waits for its locks or a slot.

        What has begun is not stopped, and has its places in the buckets of new limits.
        """
        stop = {job_filters.Action.PAUSE, job_filters.Action.REJECT}
        for entry in list(self._entries.values()):
            if entry.is_queued or entry.held_by is not None:
                self._due.append(entry.number)
            job = self._book.jobs.get(entry.number)
            if entry.tickets is None or job is None:
                continue
            verdict = rules.verdict(self._filters, job)
            self._take_tickets(entry, verdict.buckets)
            if not job.has_begun and verdict.action in stop and entry.task is not None:
                entry.task.cancel()

    def _place(self, number: int) -> None:
        """Find out where an unfinished job that is not at work belongs."""
        entry, job = self._entries.get(number), self._book.jobs.get(number)
        if entry is None or job is None or job.is_final or entry.task is not None:
            return
        try:
            decision = rules.decide(job, self._filters, self._book.find)
            self._wait_for(entry, decision.waits_for)
            self._leave_line(entry)
            entry.held_by = decision.held_by
            if decision.ends is not None:
                self._start(entry, self._driver.end(number, decision.ends, decision.text))
            elif decision.waits_for is None:
                self._enter(entry, job, decision.buckets)
        except errors.StoreFailed:
            LOG.exception("job %s cannot go on, and is tried again in %s s", number, opcodes.RETRY_SECONDS)
            asyncio.get_running_loop().call_later(opcodes.RETRY_SECONDS, self.line_up, number)

    def _wait_for(self, entry: Entry, number: int | None) -> None:
        """Let a job wait for the end of another unfinished one, or of none any more."""
        if entry.waits_for in self._entries:
            self._entries[entry.waits_for].dependants.pop(entry.number, None)
        entry.waits_for = number
        if number is not None:
            self._entry(number).dependants[entry.number] = None

    def _enter(self, entry: Entry, job: values.Job, buckets: tuple[job_filters.Bucket, ...]) -> None:
        """A job waits for no other: it is queued, unless a filter holds it."""
        if job.has_begun:
            self._take_tickets(entry, buckets)
        if entry.held_by is None:
            entry.priority, entry.lane, entry.buckets = job.priority, rules.lane(job), buckets
            self._move(entry, (Stand.QUEUED, entry.lane))

    def _hand_out_slots(self) -> None:
        """Give the free slots to those who wait."""
        for lane, waiting in self._awaiting.items():
            taken, width = self._slots[lane], self._width(lane)
            while waiting and len(taken) < width:
                number = min(waiting, key=lambda number: (self._urgency(number), number))
                taken.add(number)
                granted = waiting.pop(number)
                if not granted.done():
                    granted.set_result(None)

    def _admit_next(self) -> Entry | None:
        """Admit the next job that may begin."""
        for lane in Lane:
            line = self._lines[Stand.QUEUED, lane]
            while line and self._is_open(line[0], lane):
                entry = self._entries[line[0][1]]
                full = self._full_bucket(entry)
                if full is None:
                    self._move(entry, (Stand.ADMITTED, lane))
                    if entry.tickets is None:
                        self._take_tickets(entry, entry.buckets)
                    return entry
                self._move(entry, (Stand.ASIDE, full))
                self._call_next(entry.buckets)
        return None

    def _is_open(self, place: Place, lane: Lane) -> bool:
        ahead, blocked = self._lines[Stand.ADMITTED, lane], self._lines[BLOCKED_LINE]
        return bisect.bisect_left(ahead, place) < self._width(lane) and bisect.bisect_left(blocked, place) < BLOCKED

    def _width(self, lane: Lane) -> int:
        return {Lane.URGENT: RESERVED, Lane.DAEMON: INSIDE}.get(lane) or self._limit()

    def _urgency(self, number: int) -> int:
        """A job that others wait for is as urgent as the most urgent of them."""
        awaited, own = self._ports.desk.table.awaited(values.lock_owner(number)), self._entries[number].priority
        return own if awaited is None else min(awaited, own)

    def _give_slot_back(self, entry: Entry) -> None:
        if entry.lane in self._slots:
            self._awaiting[entry.lane].pop(entry.number, None)
            self._slots[entry.lane].discard(entry.number)
            self.look()

    def _move(self, entry: Entry, line: Line | None) -> None:
        """A job stands in another line now, at its place, or in none."""
        if entry.line is not None:
            places = self._lines[entry.line]
            del places[bisect.bisect_left(places, entry.place)]
            if not places and entry.line[0] is Stand.ASIDE:
                del self._lines[entry.line]
        entry.line = line
        if line is not None:
            bisect.insort(self._lines.setdefault(line, []), entry.place)

    def _leave_line(self, entry: Entry) -> None:
        """A job stands in no line any more; a place in a bucket that it was called for is for the next one."""
        is_queued = entry.is_queued
        self._move(entry, None)
        if is_queued:
            self._call_next(entry.buckets)

    def _full_bucket(self, entry: Entry) -> str | None:
        needed = entry.buckets if entry.tickets is None else ()
        return next((bucket.name for bucket in needed if not self._has_room(bucket)), None)

    def _has_room(self, bucket: job_filters.Bucket) -> bool:
        return len(self._tickets.get(bucket.name, ())) < bucket.limit

    def _take_tickets(self, entry: Entry, buckets: tuple[job_filters.Bucket, ...] | None) -> None:
        """Give a job its places in these buckets, even where they are full; all others that it had, it gives back."""
        for bucket in entry.tickets or ():
            self._tickets[bucket.name].discard(entry.number)
            if not self._tickets[bucket.name]:
                del self._tickets[bucket.name]
            self._call(bucket.name)
        entry.tickets = buckets
        for bucket in buckets or ():
            self._tickets.setdefault(bucket.name, set()).add(entry.number)

    def _call_next(self, buckets: tuple[job_filters.Bucket, ...]) -> None:
        for bucket in buckets:
            if self._has_room(bucket):
                self._call(bucket.name)

    def _call(self, bucket: str) -> None:
        """Put the first job that stands aside for a bucket back in its line."""
        if aside := self._lines.get((Stand.ASIDE, bucket)):
            entry = self._entries[aside[0][1]]
            self._move(entry, (Stand.QUEUED, entry.lane))

    def _start(self, entry: Entry, work: Coroutine[None, None, None]) -> None:
        entry.task = asyncio.get_running_loop().create_task(work, name=f"job {entry.number}")
        entry.task.add_done_callback(lambda task: self._returned(entry, task))

    def _returned(self, entry: Entry, task: asyncio.Task[None]) -> None:
        """Nobody works on a job any more: it has ended, or is back in the queue."""
        if self._is_over:
            return
        try:
            if not task.cancelled():
                task.result()
            entry.task = None
            self._move(entry, None)
            self._give_slot_back(entry)
            job = self._book.jobs.get(entry.number)
            if job is None or job.is_final:
                self._ended(entry)
            else:
                self._return_to_queue(entry, job)
                self._due.append(job.id)
            self.look()
        except Exception as error:  # noqa: BLE001 - a job that is lost here would wait for ever
            self._ports.failures.end("the job queue", error)

    def _return_to_queue(self, entry: Entry, job: values.Job) -> None:
        index = job.next_opcode
        if index is not None and job.opcodes[index].status is values.Status.WAITING:
            self._book.set_opcode(job.id, index, status=values.Status.QUEUED)
            self._driver.release(job.id)
        if not job.has_begun:
            self._take_tickets(entry, None)

    def _ended(self, entry: Entry) -> None:
        """Forget a job that has ended, and tell all who wait for its end."""
        number = entry.number
        self._ports.failures.recovered(f"job {number}")
        self._leave_line(entry)
        self._take_tickets(entry, None)
        self._wait_for(entry, None)
        del self._entries[number]
        self._driver.release(number)
        self._book.tell_end(number)
        self._due.extend(entry.dependants)
        # Somebody may have archived it the moment it had ended.
        if (job := self._book.jobs.get(number)) is not None:
            LOG.info("job %s ended: %s %s", number, job.status.value, job.text)
        self._on_end()
        self.look()
