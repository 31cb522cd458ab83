"""One opcode of a job at work: its locks, its slot, what it does, and how it ended."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import errors, locks
from ...plugins.plugin_utils.opcodes import contract, registry
from . import accepting, ageing, inside, mending, process, running, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .book import Book
    from .inside import Submit
    from .ports import Ports
    from .scheduling import Lane, Schedule
    from .slots import Slots

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 5


class Driver:
    """Works on one opcode at a time of each job that was let in; between two, a job is back in the queue."""

    def __init__(
        self,
        ports: Ports,
        book: Book,
        *,
        schedule: Schedule,
        slots: Mapping[Lane, Slots],
        submit: Submit,
        on_room: Callable[[], None],
    ) -> None:
        self._ports = ports
        self._on_room = on_room
        self._book = book
        self._schedule = schedule
        self._slots = slots
        self._inside = inside.Inside(ports, book, submit=submit)
        self._attempts: dict[int, asyncio.Timeout] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def work(self, job: int) -> None:
        """Work on the next opcode until it has ended, or its lock attempts are used up.

        State that cannot be written now is tried again, for nothing is lost.
        """
        index = self._book.jobs[job].next_opcode
        while index is not None and self._book.jobs[job].opcodes[index].status not in values.FINAL:
            try:
                is_over = await self._opcode(job, index)
                self._ports.failures.recovered(f"job {job}")
                if not is_over:
                    return
            except (errors.StoreFailed, OSError) as error:
                self._ports.failures.failed(
                    f"job {job}", error, remedy=f"fix the cause; the job is retried every {RETRY_SECONDS} s"
                )
                await asyncio.sleep(RETRY_SECONDS)
        self.release(job)

    def release(self, job: int) -> None:
        """Give back what a job holds and waits for."""
        try:
            self._ports.desk.release(values.lock_owner(job))
        except errors.StoreFailed:
            # They are free, and the next change of the table writes it down.
            LOG.exception("the locks of job %s are free, but that could not be written", job)

    def reprioritize(self, job: int, priority: int) -> None:
        """Let a job wait for its locks with another priority; its attempts begin anew."""
        self._ports.desk.reprioritize(values.lock_owner(job), priority)
        attempts, seconds = self._attempts.get(job), ageing.patience(priority)
        if attempts is not None and not attempts.expired():
            attempts.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    def interrupt(self, job: int) -> None:
        """Have what an opcode does now ended, be it processes or a delay; it is settled like a lost one."""
        one = self._book.jobs[job]
        index = one.next_opcode
        if index is not None and one.opcodes[index].run:
            ending = asyncio.create_task(process.end_run(self._ports.store.run_folder(job, index)))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
        self._inside.interrupt(job)

    async def _opcode(self, job: int, index: int) -> bool:
        """Returns whether the opcode has ended; without that the job is back in the queue."""
        opcode = self._book.jobs[job].opcodes[index]
        try:
            if opcode.kind == values.UNREADABLE:
                text = await mending.clear_up(self._ports, job, values.lock_owner(job))
                self._book.end(job, index, values.Status.ERROR, "; ".join(filter(None, [opcode.text, text])))
                return True
            made = registry.make(opcode.kind, opcode.params)
            if not await self._locked(job, index, made):
                return False
            await self._carry_out(job, index, made)
        except errors.StoreFailed:
            raise
        except (errors.Refused, errors.Failed) as error:
            self._book.end(job, index, values.Status.ERROR, str(error))
        return True

    async def _locked(self, job: int, index: int, made: registry.Made) -> bool:
        opcode, mine = self._book.jobs[job].opcodes[index], values.lock_owner(job)
        is_running = opcode.status is values.Status.RUNNING
        if is_running and self._ports.desk.table.locks_of(mine):
            # It was at work when the daemon ended, and kept what it was granted.
            return True
        if not is_running:
            self._book.set_opcode(job, index, is_durable=False, status=values.Status.WAITING)
        wants = made.wants(self._ports.configuration.current)
        if not wants:
            return True
        self._schedule.waits(job)
        self._on_room()
        try:
            async with asyncio.timeout(None if is_running else ageing.patience(opcode.priority)) as attempts:
                self._attempts[job] = attempts
                await self._acquire(job, index, made)
        except TimeoutError:
            self.release(job)
            self._book.change(job, lambda one: ageing.aged(one, index))
            return False
        finally:
            self._attempts.pop(job, None)
        self._schedule.goes_on(job)
        return True

    async def _acquire(self, job: int, index: int, made: registry.Made) -> None:
        """Wait for the locks that an opcode needs when it has them: what it is about may move while it waits."""
        is_settled = False
        while not is_settled:
            opcode, wants = self._book.jobs[job].opcodes[index], made.wants(self._ports.configuration.current)
            if not self._has(job, wants):
                self.release(job)
            await self._ports.desk.acquire(values.lock_owner(job), wants, priority=opcode.priority, purpose=opcode.kind)
            is_settled = self._has(job, made.wants(self._ports.configuration.current))

    def _has(self, job: int, wants: Mapping[str, locks.Mode]) -> bool:
        held = self._ports.desk.table.locks_of(values.lock_owner(job))
        return all(locks.covers(held, lock, mode) for lock, mode in wants.items())

    async def _carry_out(self, job: int, index: int, made: Any) -> None:
        if self._book.jobs[job].opcodes[index].status is not values.Status.RUNNING and (
            text := made.moot(self._ports.configuration.current)
        ):
            self._book.end(job, index, values.Status.SUCCESS, text)
        elif isinstance(made, contract.ChangeKind):
            await self._inside.change(job, index, made)
        elif isinstance(made, contract.SubmitKind):
            await self._inside.submit(job, index, made)
        else:
            await self._slots[accepting.lane(self._book.jobs[job])].take(job)
            self._schedule.leaves(job)
            self._on_room()
            if isinstance(made, contract.DelayKind):
                await self._inside.delay(job, index, made)
            else:
                await running.run(self._ports, self._book, made, job=job, index=index, owner=values.lock_owner(job))
