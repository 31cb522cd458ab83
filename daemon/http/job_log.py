"""The log of a job: what its plays do on which node, as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from fastapi import Query
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ..jobs import following, task_log
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

LONGEST_WAIT = 60.0
Number = Annotated[int, pydantic.Field(ge=0, le=2**53)]
Serial = Annotated[int, Query(ge=0, le=2**53, description="Only entries with a higher serial number are told.")]
Seconds = Annotated[
    pydantic.FiniteFloat, Query(ge=0, description="How long to wait for the first new entry; at most 60.")
]


class Log(pydantic.BaseModel):
    """Entries are [serial number, [seconds, microseconds], type, text], as in Ganeti's logs of opcodes."""

    status: str
    final: bool
    entries: list[list[Any]]


def add(routes: APIRouter, service: Service) -> None:
    """The log below a job."""

    @routes.get("/jobs/{job}/log", response_model=Log)
    async def log(job: Number, after: Serial = 0, seconds: Seconds = 0) -> Response:
        """New entries as soon as there is one, or none when the job ends or the time is over."""
        told = _told(service, job, after=after)
        if told["entries"] or told["final"] or not seconds:
            return Json(told)
        return Json(await _awaited(service, job, after=after, seconds=min(seconds, LONGEST_WAIT)))


def _told(service: Service, job: int, *, after: int) -> dict[str, Any]:
    one = service.queue.find(job)
    # The status first: what a job wrote before it ended is then told with its end.
    told: dict[str, Any] = {"status": one.status.value, "final": one.is_final}
    folder = service.queue.folder_of(one)
    return {**told, "entries": task_log.of_job(folder, opcodes=len(one.opcodes), after=after)}


async def _awaited(service: Service, job: int, *, after: int, seconds: float) -> dict[str, Any]:
    written, deadline = asyncio.Event(), time.monotonic() + seconds
    with following.lines(service.where.queue / str(job), written.set, loop=asyncio.get_running_loop()):
        while True:
            written.clear()
            number = service.news.number
            told = _told(service, job, after=after)
            left = deadline - time.monotonic()
            if told["entries"] or told["final"] or left <= 0:
                return told
            await _either(written.wait(), service.news.after(number, seconds=left), seconds=left)


async def _either(*waits: Any, seconds: float) -> None:
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
