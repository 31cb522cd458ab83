"""One opcode of a job at work: its locks, its slot, what it does, and how it ended.

Changes, submissions and delays are carried out here, inside the daemon; plays in processes (`plays.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import pydantic_core

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.cluster import locks
from ...plugins.plugin_utils.opcodes import contract, registry
from ...plugins.plugin_utils.opcodes.contract import Execution
from . import plays, process, recovery, rules, settling, submission, values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...plugins.plugin_utils.cluster import changes
    from ...plugins.plugin_utils.cluster import cluster as clusters
    from .book import Book
    from .ports import Ports, Submit, Turns

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 5
DRY = "dry run, nothing is changed"
DONE_BEFORE = "it was committed before the daemon started again"


class Driver:
    """Works on one opcode at a time of each job that was let in; between two, a job is back in the queue."""

    def __init__(self, ports: Ports, book: Book, *, turns: Turns, submit: Submit) -> None:
        self._ports = ports
        self._book = book
        self._turns = turns
        self._inside = Inside(ports, book, submit=submit)
        self._interrupted: dict[int, asyncio.Event] = {}
        self._endings: set[asyncio.Task[None]] = set()

    async def work(self, job: int) -> None:
        """Work on the next opcode until it has ended, or its lock attempts are used up.

        A defect leaves the job as it stands, which is reported, until it is interrupted: then it is tried once more.
        """
        interrupted = self._interrupted[job] = asyncio.Event()
        try:
            while True:
                try:
                    await self._work(job)
                except errors.StateUnknown:
                    # The daemon ends, and the next one goes on with what is on the disk.
                    raise
                except Exception as defect:  # noqa: BLE001 - a job that stands still is never silent about it
                    self._report_stuck(job, defect)
                    if interrupted.is_set():
                        await self._give_up(job, defect)
                        return
                    await interrupted.wait()
                else:
                    return
        except asyncio.CancelledError:
            # The daemon stops, perhaps while the end was being written.
            if (known := self._book.jobs.get(job)) is None or known.is_final:
                self.release(job)
            raise
        finally:
            del self._interrupted[job]

    async def _work(self, job: int) -> None:
        """State that cannot be written now is tried again, for nothing is lost."""
        index = self._book.jobs[job].next_opcode
        while index is not None and not self._is_over(job, index):
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
        # On a full disk they are free all the same, and the next change of the table writes it down.
        with contextlib.suppress(errors.StoreFailed):
            await self._ports.desk.written()

    def _is_over(self, job: int, index: int) -> bool:
        # Somebody may have archived it the moment it had ended.
        known = self._book.jobs.get(job)
        return known is None or known.opcodes[index].status in values.FINAL

    def _report_stuck(self, job: int, defect: Exception) -> None:
        LOG.critical("job %s is stuck because of an internal error", job, exc_info=defect)
        self._ports.failures.failed(
            f"job {job}",
            f"it is stuck because of an internal error: {defect!r}",
            remedy=f"restart roundsmand to retry it, or end it with `roundsman jobs cancel {job}`",
        )

    async def _give_up(self, job: int, defect: Exception) -> None:
        """A job that was to be ended is, although what it did could not be settled; its processes have ended."""
        folder = self._ports.store.run_folder(job, self._book.jobs[job].next_opcode or 0)
        text = f"canceled; a defect kept it from being settled, so what {folder} records may be unknown: {defect!r}"
        while not self._book.jobs[job].is_final:
            try:
                await self._book.end_unstarted(job, values.Status.CANCELED, text)
            except errors.StoreFailed:
                LOG.exception("job %s cannot end, and is tried again in %s s", job, RETRY_SECONDS)
                await asyncio.sleep(RETRY_SECONDS)

    async def end(self, job: int, status: values.Status, text: str) -> None:
        """End a job that nobody works on; where that cannot be written it stands as before, and is looked at again."""
        try:
            await self._book.end_unstarted(job, status, text)
        except errors.StoreFailed:
            LOG.exception("job %s cannot end, and is tried again in %s s", job, RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)

    def release(self, job: int) -> None:
        """Give back what a job holds and waits for."""
        self._ports.desk.release(values.lock_owner(job))

    def interrupt(self, job: int) -> None:
        """Have what an opcode does now ended, be it processes or a delay; it is settled like a lost one."""
        current = self._book.jobs[job]
        index = current.next_opcode
        if index is not None and current.opcodes[index].run:
            ending = asyncio.create_task(process.end_run(self._ports.store.run_folder(job, index)))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
        self._inside.interrupt(job)
        if job in self._interrupted:
            self._interrupted[job].set()

    async def _opcode(self, job: int, index: int) -> bool:
        """Returns whether the opcode has ended; without that the job is back in the queue."""
        opcode = self._book.jobs[job].opcodes[index]
        try:
            if opcode.kind == values.UNREADABLE:
                text = await settling.clear_up(self._ports, job, values.lock_owner(job))
                await self._book.end(job, index, values.Status.ERROR, "; ".join(filter(None, [opcode.text, text])))
                return True
            made = registry.make(opcode.kind, opcode.params)
            if not await self._locked(job, index, made):
                return False
            await self._carry_out(job, index, made)
        except errors.StoreFailed:
            raise
        except (errors.Refused, errors.Failed) as error:
            await self._book.end(job, index, values.Status.ERROR, str(error))
        return True

    async def _locked(self, job: int, index: int, made: registry.Made) -> bool:
        opcode, mine = self._book.jobs[job].opcodes[index], values.lock_owner(job)
        is_running = opcode.status is values.Status.RUNNING
        if is_running and self._ports.desk.table.locks_of(mine):
            # It was at work when the daemon ended, and kept what it was granted.
            return True
        if not is_running:
            self._book.set_opcode(job, index, status=values.Status.WAITING)
        wants = made.wants(self._ports.configuration.current)
        if not wants:
            return True
        try:
            seconds = None if is_running else rules.patience(opcode.priority)
            async with self._turns.lock_attempts(job, seconds=seconds):
                await self._acquire(job, index, made)
        except TimeoutError:
            self.release(job)
            await self._book.change(job, lambda job: rules.aged(job, index))
            return False
        return True

    async def _acquire(self, job: int, index: int, made: registry.Made) -> None:
        """Be granted the locks that an opcode needs when it has them: what it is about may move while it waits."""
        is_settled = False
        while not is_settled:
            opcode, wants = self._book.jobs[job].opcodes[index], made.wants(self._ports.configuration.current)
            if not self._has(job, wants):
                self.release(job)
            owner = values.lock_owner(job)
            await self._ports.desk.wait_for_grant(owner, wants, priority=opcode.priority, purpose=opcode.kind)
            is_settled = self._has(job, made.wants(self._ports.configuration.current))

    def _has(self, job: int, wants: Mapping[str, locks.Mode]) -> bool:
        held = self._ports.desk.table.locks_of(values.lock_owner(job))
        return all(locks.covers(held, lock, mode) for lock, mode in wants.items())

    async def _carry_out(self, job: int, index: int, made: registry.Made) -> None:
        status = self._book.jobs[job].opcodes[index].status
        is_repeated = recovery.recover(status=status, execution=made.execution) is recovery.Step.REPEAT
        if status is not values.Status.RUNNING and (text := made.moot(self._ports.configuration.current)):
            await self._book.end(job, index, values.Status.SUCCESS, text)
            return
        if made.execution in {Execution.PLAY, Execution.DELAY}:
            await self._turns.take_slot(job)
        # It has its slot while it waits for the disk: nobody less urgent gets that meanwhile.
        await self._ports.desk.written(values.lock_owner(job))
        if made.execution is Execution.CHANGE:
            await self._inside.change(job, index, made, is_repeated=is_repeated)
        elif made.execution is Execution.SUBMIT:
            await self._inside.submit(job, index, made, is_repeated=is_repeated)
        elif made.execution is Execution.DELAY:
            await self._inside.delay(job, index, made)
        else:
            await plays.run(self._ports, self._book, made, job=job, index=index, owner=values.lock_owner(job))


class Inside:
    """What is done here may be done again after a crash: it states absolute values, or wrote its plan down first."""

    def __init__(self, ports: Ports, book: Book, *, submit: Submit) -> None:
        self._ports = ports
        self._book = book
        self._submit = submit
        self._delays: dict[int, asyncio.Event] = {}

    async def change(self, job: int, index: int, made: contract.ChangeOpcode, *, is_repeated: bool) -> None:
        """Commit what an opcode changes; a dry run commits nothing, and tells what it would change."""
        since = self._book.jobs[job].received
        is_dry = self._book.jobs[job].opcodes[index].dry_run
        is_removal = made.removes and not is_dry
        if is_removal and is_repeated and made.is_removed(self._ports.configuration.current):
            await self._end(job, index, None, text=DONE_BEFORE)
            return
        # A removal begins durably: after a crash it is known that what is missing was there when it began.
        await self._begin(job, index, is_durable=is_removal)
        result: Any = None
        lines = [DRY] if is_dry else []

        def decide(cluster: clusters.Cluster) -> Sequence[changes.Change]:
            nonlocal result
            seen = contract.observed(cluster, self._ports.facts)
            stated = made.changes(seen, self._ports.facts, since=since)
            lines[is_dry:] = made.told(seen, stated)
            result = made.result(seen, stated)
            if result is None and is_dry:
                result = [{"change": type(change).__name__, **dataclasses.asdict(change)} for change in stated]
            return [] if is_dry else stated

        if made.hears:
            await self._ports.facts.take_all()
        await self._ports.configuration.commit(decide, by=f"job {job}")
        await self._end(job, index, result, text="\n".join(lines))

    async def submit(self, job: int, index: int, made: contract.SubmitOpcode, *, is_repeated: bool) -> None:
        """Submit what an opcode plans. The plan is written down first, so that a crash repeats none of its jobs."""
        current = self._book.jobs[job]
        opcode = current.opcodes[index]
        if is_repeated:
            jobs = self._ports.store.plan(job, index)
        else:
            jobs = self._planned(current, index, made)
            if opcode.dry_run:
                await self._begin(job, index, is_durable=False)
                await self._end(job, index, {"jobs": [], "planned": [_shown(each) for each in jobs]})
                return
            await self._ports.store.save_plan(job, index, jobs)
            await self._begin(job, index, is_durable=True, result={"jobs": [[True, each.id] for each in jobs]})
        await self._submit.submit(jobs)
        text = "" if jobs else "nothing to do: nothing was planned, and no job submitted"
        await self._end(job, index, {"jobs": [[True, each.id] for each in jobs]}, text=text)

    async def delay(self, job: int, index: int, made: contract.DelayOpcode) -> None:
        """Wait, and no longer than until the job is canceled."""
        await self._begin(job, index, is_durable=False)
        seconds = 0 if self._book.jobs[job].opcodes[index].dry_run else made.seconds()
        if seconds:
            interrupted = self._delays[job] = asyncio.Event()
            if self._book.jobs[job].canceling:
                # It was begun before a restart, or its end could not be written.
                interrupted.set()
            try:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(interrupted.wait(), seconds)
            finally:
                del self._delays[job]
            if interrupted.is_set():
                await self._book.end(job, index, values.Status.CANCELED, "canceled while it waited")
                return
        await self._end(job, index, None)

    def interrupt(self, job: int) -> None:
        """End the delay of a job, if it is in one."""
        if job in self._delays:
            self._delays[job].set()

    async def _begin(self, job: int, index: int, *, is_durable: bool, **fields: Any) -> None:
        if self._book.jobs[job].opcodes[index].status is not values.Status.RUNNING:
            await self._book.begin(job, index, is_durable=is_durable, **fields)

    async def _end(self, job: int, index: int, result: Any, *, text: str = "") -> None:
        plain = pydantic_core.to_jsonable_python(result)
        await self._book.end(job, index, values.Status.SUCCESS, text, result=plain)

    def _planned(self, job: values.Job, index: int, made: contract.SubmitOpcode) -> tuple[values.Job, ...]:
        cluster = self._ports.configuration.current
        drafts, now = made.jobs(cluster, self._ports.facts), self._ports.clock()
        opcode = job.opcodes[index]
        numbers = list(range(-len(drafts), 0)) if opcode.dry_run else self._submit.reserve(len(drafts))
        trail = (*job.reason, values.Reason(f"gnt:opcode:{opcode.kind}", f"job={job.id};index={index}", int(now * 1e9)))
        priority = opcode.priority + opcode.aged
        source = f"gnt:opcode:{opcode.kind}"
        return submission.numbered(cluster, drafts, numbers, trail=trail, source=source, now=now, priority=priority)


def _shown(job: values.Job) -> list[dict[str, Any]]:
    return [{"kind": opcode.kind, "params": dict(opcode.params)} for opcode in job.opcodes]
