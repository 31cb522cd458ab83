"""Opcodes that the daemon carries out itself: changes, submissions and delays."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

import pydantic
import pydantic_core

from ...plugins.module_utils.domain import errors
from ...plugins.plugin_utils import durable_files, sealed_json
from ...plugins.plugin_utils.opcodes import contract
from . import planned, values

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from pathlib import Path
    from typing import Protocol

    from ...plugins.module_utils.domain import changes
    from ...plugins.module_utils.domain import cluster as clusters
    from .book import Book
    from .ports import Ports

    class Submit(Protocol):
        """What submitting needs of the queue."""

        def reserve(self, count: int) -> list[int]:
            """Numbers for new jobs."""

        def take(self, jobs: Sequence[values.Job]) -> Awaitable[None]:
            """Make jobs durable and let them begin; those that are there already stay as they are."""


DRY = "dry run, nothing is changed"
DONE_BEFORE = "it was committed before the daemon started again"
_JOBS = pydantic.TypeAdapter(dict[str, tuple[values.Job, ...]])


class Inside:
    """What is done here may be done again after a crash: it states absolute values, or wrote its plan down first."""

    def __init__(self, ports: Ports, book: Book, *, submit: Submit) -> None:
        self._ports = ports
        self._book = book
        self._submit = submit
        self._delays: dict[int, asyncio.Event] = {}

    async def change(self, job: int, index: int, made: contract.ChangeKind) -> None:
        """Commit what an opcode changes; a dry run commits nothing, and tells what it would change."""
        since = self._book.jobs[job].received
        is_dry = self._book.jobs[job].opcodes[index].dry_run
        has_begun = self._book.jobs[job].opcodes[index].status is values.Status.RUNNING
        removal = made if isinstance(made, contract.RemovalKind) and not is_dry else None
        if removal is not None and has_begun and removal.is_removed(self._ports.configuration.current):
            self._end(job, index, None, text=DONE_BEFORE)
            return
        # A removal begins durably: after a crash it is known that what is missing was there when it began.
        self._begin(job, index, is_durable=removal is not None)
        result: Any = None
        lines = [DRY] if is_dry else []

        def decide(cluster: clusters.Cluster) -> Sequence[changes.Change]:
            nonlocal result
            stated = made.changes(cluster, self._ports.facts, since=since)
            if isinstance(made, contract.ToldKind):
                lines[is_dry:] = made.told(cluster, stated)
            if isinstance(made, contract.ResultKind):
                result = made.result(cluster, stated)
            elif is_dry:
                result = [{"change": type(one).__name__, **dataclasses.asdict(one)} for one in stated]
            return [] if is_dry else stated

        if isinstance(made, contract.HearingKind):
            await self._ports.facts.take_all()
        await self._ports.configuration.commit(decide, by=f"job {job}")
        self._end(job, index, result, text="\n".join(lines))

    async def submit(self, job: int, index: int, made: contract.SubmitKind) -> None:
        """Submit what an opcode plans. The plan is written down first, so that a crash repeats none of its jobs."""
        run = self._ports.store.run_folder(job, index)
        one = self._book.jobs[job]
        opcode = one.opcodes[index]
        if opcode.status is values.Status.RUNNING:
            jobs = _read(run / "jobs.json")
        else:
            jobs = self._planned(one, index, made)
            if opcode.dry_run:
                self._begin(job, index, is_durable=False)
                self._end(job, index, {"jobs": [], "planned": [_told(each) for each in jobs]})
                return
            run.mkdir(mode=0o750, parents=True, exist_ok=True)
            durable_files.replace(run / "jobs.json", sealed_json.seal(_JOBS.dump_json({"jobs": jobs})))
            self._begin(job, index, is_durable=True, result={"jobs": [[True, each.id] for each in jobs]})
        await self._submit.take(jobs)
        text = "" if jobs else "nothing to do: nothing was planned, and no job submitted"
        self._end(job, index, {"jobs": [[True, each.id] for each in jobs]}, text=text)

    async def delay(self, job: int, index: int, made: contract.DelayKind) -> None:
        """Wait, and no longer than until the job is canceled."""
        self._begin(job, index, is_durable=False)
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
                self._book.end(job, index, values.Status.CANCELED, "canceled while it waited")
                return
        self._end(job, index, None)

    def interrupt(self, job: int) -> None:
        """End the delay of a job, if it is in one."""
        if job in self._delays:
            self._delays[job].set()

    def _begin(self, job: int, index: int, *, is_durable: bool, **fields: Any) -> None:
        if self._book.jobs[job].opcodes[index].status is not values.Status.RUNNING:
            self._book.begin(job, index, is_durable=is_durable, **fields)

    def _end(self, job: int, index: int, result: Any, *, text: str = "") -> None:
        plain = pydantic_core.to_jsonable_python(result)
        self._book.end(job, index, values.Status.SUCCESS, text, result=plain)

    def _planned(self, one: values.Job, index: int, made: contract.SubmitKind) -> tuple[values.Job, ...]:
        cluster = self._ports.configuration.current
        drafts, now = made.jobs(cluster, self._ports.facts), self._ports.clock()
        opcode = one.opcodes[index]
        numbers = list(range(-len(drafts), 0)) if opcode.dry_run else self._submit.reserve(len(drafts))
        trail = (*one.reason, values.Reason(f"gnt:opcode:{opcode.kind}", f"job={one.id};index={index}", int(now * 1e9)))
        priority = opcode.priority + opcode.aged
        source = f"gnt:opcode:{opcode.kind}"
        return planned.numbered(cluster, drafts, numbers, trail=trail, source=source, now=now, priority=priority)


def _told(job: values.Job) -> list[dict[str, Any]]:
    return [{"kind": one.kind, "params": dict(one.params)} for one in job.opcodes]


def _read(path: Path) -> tuple[values.Job, ...]:
    try:
        return _JOBS.validate_json(sealed_json.unseal(path.read_bytes()))["jobs"]
    except (FileNotFoundError, errors.InvalidInput, pydantic.ValidationError, KeyError) as error:
        raise errors.Failed(f"{path} is damaged, and what was planned is not submitted: {error}") from error
