"""The job queue: dependencies, locks, one process per opcode, adoption after a crash, cancelation."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import changes, errors
from ...plugins.plugin_utils.opcodes import contract, registry
from .. import faults
from ..locks import table
from . import lookup, process, settling, values
from .runs import run_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from .ports import Ports

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 5


class Queue:
    """All jobs that are not archived; every change of a job is durable before it has an effect."""

    def __init__(
        self, ports: Ports, *, limit: int, on_change: Callable[[], None], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self.jobs: dict[int, values.Job] = ports.store.load()
        self._ports = ports
        self._slots = asyncio.Semaphore(limit)
        self._on_change = on_change
        self._on_end = on_end
        self._ended: dict[int, asyncio.Event] = {}
        self._drives: dict[int, asyncio.Task[None]] = {}
        self._stopping = False
        self._next_id = ports.store.highest_id() + 1

    def reserve(self, count: int) -> list[int]:
        """Numbers for new jobs."""
        ids = list(range(self._next_id, self._next_id + count))
        self._next_id += count
        return ids

    def add(self, jobs: Iterable[values.Job]) -> None:
        """Submit jobs: all are durable before the first one starts.

        Raises:
            InvalidInput: an opcode is unknown or its parameters are wrong; no job is submitted.
            StoreFailed: one could not be made durable; none starts.
        """
        new = [job for job in jobs if job.id not in self.jobs]
        for job in new:
            for opcode in job.opcodes:
                registry.make(opcode.kind, opcode.params)
        for job in new:
            self._ports.store.save(job)
        for job in new:
            self.jobs[job.id] = job
            self._next_id = max(self._next_id, job.id + 1)
            self._start(job.id)
        self._on_change()

    def resume(self) -> None:
        """After a start: go on with every job that had not ended; locks are kept only where an opcode is at work."""
        at_work = {_owner(job.id) for job in self.jobs.values() if _is_running(job)}
        for owner in self._ports.desk.table.owners():
            if not owner.livelock and owner not in at_work:
                self._ports.desk.release(owner)
        for job in self.jobs.values():
            if not job.is_final:
                self._start(job.id)

    async def cancel(self, job_id: int, *, kill: bool) -> values.Job:
        """Cancel a job: what has not started never starts; what runs is killed, or finishes when `kill` is false.

        Raises:
            NotFound: there is no such job. Refused: it has ended already.
        """
        job = self.jobs.get(job_id)
        if job is None:
            raise errors.NotFound(f"there is no job {job_id}")
        if job.is_final:
            raise errors.Refused(f"job {job_id} has ended: {job.status.value}")
        self._replace(dataclasses.replace(job, canceling=True))
        index = job.next_opcode
        if index is None or job.opcodes[index].status is not values.Status.RUNNING:
            drive = self._drives[job_id]
            drive.cancel()
            await asyncio.wait([drive])
            if not self.jobs[job_id].is_final:
                # It was canceled before its first step, which then never comes.
                self._start(job_id)
                await self._event(job_id).wait()
        elif kill and job.opcodes[index].run:
            process.end_all_of(self._ports.store.run_folder(job_id, index))
            await self._event(job_id).wait()
        return self.jobs[job_id]

    async def wait(self, job_id: int, *, seconds: float) -> None:
        """Wait until a job has ended, at most so long."""
        if not self.jobs[job_id].is_final:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._event(job_id).wait(), seconds)

    def now(self) -> float:
        """The clock by which jobs are dated, in unix seconds."""
        return self._ports.clock()

    def unfinished(self, ids: Iterable[int]) -> list[int]:
        """Those of these jobs that have not ended."""
        return [one for one in ids if one in self.jobs and not self.jobs[one].is_final]

    async def stop(self) -> None:
        """Let go of all jobs; their processes run on and are adopted by the next daemon."""
        self._stopping = True
        drives = list(self._drives.values())
        for drive in drives:
            drive.cancel("the daemon stops")
        if drives:
            await asyncio.wait(drives)

    def _event(self, job_id: int) -> asyncio.Event:
        return self._ended.setdefault(job_id, asyncio.Event())

    def _start(self, job_id: int) -> None:
        drive = asyncio.get_running_loop().create_task(self._drive(job_id), name=f"job {job_id}")
        drive.add_done_callback(_tell_defect)
        self._drives[job_id] = drive

    async def _drive(self, job_id: int) -> None:
        """Work on a job until it has ended; state that cannot be written now is tried again, for nothing is lost."""
        while not self.jobs[job_id].ended:
            try:
                self._end(job_id, await self._stopped(job_id))
            except (errors.StoreFailed, OSError):
                LOG.exception("job %s cannot go on, and is tried again in %s s", job_id, RETRY_SECONDS)
                await asyncio.sleep(RETRY_SECONDS)

    async def _stopped(self, job_id: int) -> str:
        try:
            return await self._advance(job_id)
        except asyncio.CancelledError:
            # When the daemon stops, what runs is left to the next one, canceled or not.
            if self._stopping or not self.jobs[job_id].canceling:
                raise
            return "canceled"

    async def _advance(self, job_id: int) -> str:
        stopped = "" if self.jobs[job_id].canceling else await self._dependencies(job_id)
        while not stopped and (index := self.jobs[job_id].next_opcode) is not None:
            if self.jobs[job_id].canceling and self.jobs[job_id].opcodes[index].status is not values.Status.RUNNING:
                return "canceled"
            await self._opcode(job_id, index)
            ended = self.jobs[job_id].opcodes[index].status
            stopped = "" if ended is values.Status.SUCCESS else f"opcode {index + 1} ended in {ended.value}"
        return stopped

    async def _dependencies(self, job_id: int) -> str:
        for dependency in self.jobs[job_id].depends:
            other = self.jobs.get(dependency.job)
            if other is None:
                return self._fail(job_id, f"it depends on job {dependency.job}, which is not there")
            if not other.is_final:
                await self._event(other.id).wait()
            status = self.jobs[other.id].status
            if status in dependency.statuses:
                continue
            if status is values.Status.CANCELED:
                return f"canceled: job {other.id} was canceled"
            return self._fail(job_id, f"it depends on job {other.id}, which ended in {status.value}")
        return ""

    async def _opcode(self, job_id: int, index: int) -> None:
        job, owner = self.jobs[job_id], _owner(job_id)
        opcode = job.opcodes[index]
        try:
            made = registry.make(opcode.kind, opcode.params)
            if opcode.status is not values.Status.RUNNING:
                self._set(job_id, index, durable=False, status=values.Status.WAITING)
            wants = made.wants(self._ports.configuration.current)
            await self._ports.desk.acquire(
                owner, wants, priority=opcode.priority, purpose=f"{opcode.kind}", time_limit=None
            )
            if isinstance(made, contract.ChangeKind):
                await self._change(job_id, index, made)
            else:
                await self._run(job_id, index, made)
        except errors.StoreFailed:
            raise
        except (errors.Refused, errors.Failed) as error:
            self._set(job_id, index, status=values.Status.ERROR, text=str(error), ended=self._ports.clock())
        self._ports.desk.release(owner)

    async def _change(self, job_id: int, index: int, made: contract.ChangeKind) -> None:
        since = self.jobs[job_id].received
        if text := made.moot(self._ports.configuration.current):
            self._succeed(job_id, index, text)
            return
        self._set(job_id, index, status=values.Status.RUNNING, started=self._ports.clock())
        await self._ports.configuration.commit(lambda cluster: made.changes(cluster, self._ports.facts, since=since))
        self._succeed(job_id, index, "")

    async def _run(self, job_id: int, index: int, made: contract.PlayKind) -> None:
        run = self._ports.store.run_folder(job_id, index)
        opcode = self.jobs[job_id].opcodes[index]
        if opcode.status is not values.Status.RUNNING:
            if text := made.moot(self._ports.configuration.current):
                self._succeed(job_id, index, text)
                return
            spec = self._spec(job_id, made)
            async with self._slots:
                self._set(job_id, index, status=values.Status.RUNNING, started=self._ports.clock(), run=str(index))
                self._ports.processes.start(run, spec)
                await self._ports.processes.ended(run)
        elif process.standing(run) is process.Standing.NEVER_RAN and not self.jobs[job_id].canceling:
            self._ports.processes.start(run, self._spec(job_id, made))
            await self._ports.processes.ended(run)
        else:
            await self._ports.processes.ended(run)
        await self._settle(job_id, index, run, made)

    def _spec(self, job_id: int, made: contract.PlayKind) -> process.Spec:
        granted = self._ports.desk.table.locks_of(_owner(job_id))
        return run_spec(self._ports.configuration.current, made, granted=granted, environment=self._ports.environment)

    async def _settle(self, job_id: int, index: int, run: Path, made: contract.PlayKind) -> None:
        faults.point("before-settling")
        settlement, standing = settling.settle(run), process.standing(run)
        refused = list(settlement.unreadable)

        def recorded(cluster: clusters.Cluster) -> list[changes.Change]:
            applicable, others = changes.sort_out(cluster, settlement.recorded, now=self._ports.clock())
            refused.extend(others)
            return applicable

        await self._ports.configuration.commit(recorded)
        text = "; ".join(filter(None, [settlement.text, *refused]))
        status = values.Status.SUCCESS if settlement.succeeded and not refused else values.Status.ERROR
        if self.jobs[job_id].canceling and standing is not process.Standing.ENDED:
            text, status = f"canceled while it ran: {text}", values.Status.CANCELED
        if not settlement.succeeded and standing is not process.Standing.NEVER_RAN and made.about():
            text += "; " + await lookup.look_for(made, folder=run / "lookup", ports=self._ports, owner=_owner(job_id))
        self._set(job_id, index, status=status, text=text, ended=self._ports.clock())

    def _succeed(self, job_id: int, index: int, text: str) -> None:
        self._set(job_id, index, status=values.Status.SUCCESS, text=text, ended=self._ports.clock())

    def _fail(self, job_id: int, text: str) -> str:
        index = self.jobs[job_id].next_opcode
        if index is not None:
            self._set(job_id, index, status=values.Status.ERROR, text=text, ended=self._ports.clock())
        return text

    def _end(self, job_id: int, stopped: str) -> None:
        job = self.jobs[job_id]
        opcodes = tuple(
            one
            if one.status in values.FINAL
            else dataclasses.replace(one, status=values.Status.CANCELED, text=stopped, ended=self._ports.clock())
            for one in job.opcodes
        )
        self._replace(dataclasses.replace(job, opcodes=opcodes, ended=self._ports.clock()))
        self._ports.desk.release(_owner(job_id))
        self._drives.pop(job_id, None)
        self._event(job_id).set()
        LOG.info("job %s ended: %s %s", job_id, self.jobs[job_id].status.value, self.jobs[job_id].text)
        self._on_change()
        self._on_end()

    def _set(self, job_id: int, index: int, *, durable: bool = True, **fields: Any) -> None:
        job = self.jobs[job_id]
        opcodes = list(job.opcodes)
        opcodes[index] = dataclasses.replace(opcodes[index], **fields)
        self._replace(dataclasses.replace(job, opcodes=tuple(opcodes)), durable=durable)
        self._on_change()

    def _replace(self, job: values.Job, *, durable: bool = True) -> None:
        if durable:
            self._ports.store.save(job)
        self.jobs[job.id] = job


def _owner(job_id: int) -> table.Owner:
    return table.Owner(f"job {job_id}")


def _tell_defect(drive: asyncio.Task[None]) -> None:
    """A job that stands still because of a defect is never silent about it."""
    if not drive.cancelled() and (defect := drive.exception()) is not None:
        LOG.critical(
            "%s stands still: this is a defect; a restart takes it up again", drive.get_name(), exc_info=defect
        )


def _is_running(job: values.Job) -> bool:
    return any(one.status is values.Status.RUNNING for one in job.opcodes)
