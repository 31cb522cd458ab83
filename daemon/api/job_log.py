"""The log of a job: what its plays do on which node, as it happens."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from fastapi import Query, Request
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ..jobs import task_log
from . import asking, waiting  # noqa: TC001 - FastAPI reads the annotations
from .answers import Json

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fastapi import APIRouter

    from ..service import Service

LONGEST_WAIT = 60.0
LOOK_SECONDS = 0.25
"""Between two looks for new lines where the machine lets nobody watch folders any more."""
Number = Annotated[int, pydantic.Field(ge=0, le=2**53)]
Serial = Annotated[int, Query(ge=0, le=2**53, description="Only entries with a higher serial number are returned.")]
Seconds = Annotated[
    pydantic.FiniteFloat, Query(ge=0, description="How long to wait for the first new entry; at most 60.")
]


class Log(pydantic.BaseModel):
    """Entries are [serial number, [seconds, microseconds], type, text], as in Ganeti's logs of opcodes."""

    status: str
    final: bool
    entries: list[list[Any]]


def add(routes: APIRouter, service: Service, *, waits: waiting.Waits) -> None:
    """The log below a job."""

    @routes.get("/jobs/{job}/log", response_model=Log)
    async def log(
        request: Request, who: asking.Requesting, job: Number, after: Serial = 0, seconds: Seconds = 0
    ) -> Response:
        """New entries as soon as there is one, or none when the job ends or the time is over."""
        told = _told(service, job, after=after)
        if told["entries"] or told["final"] or not seconds:
            return Json(told)
        awaited = _awaited(service, job, after=after, seconds=min(seconds, LONGEST_WAIT))
        return await waits.answer(request, who, awaited)


def _told(service: Service, number: int, *, after: int) -> dict[str, Any]:
    job = service.queue.find(number)
    # The status first: what a job wrote before it ended is then told with its end.
    told: dict[str, Any] = {"status": job.status.value, "final": job.is_final}
    folder = service.queue.folder_of(job)
    return {**told, "entries": task_log.job_entries(folder, opcodes=len(job.opcodes), after=after)}


async def _awaited(service: Service, job: int, *, after: int, seconds: float) -> dict[str, Any]:
    folder, deadline = service.where.queue / str(job), time.monotonic() + seconds
    known: object = None
    with service.queue.logs.follow(folder) as changed:
        while True:
            number = service.news.number
            changed.clear()
            is_watched = service.queue.logs.watch(folder)
            found, left = (number, task_log.sizes(folder)), deadline - time.monotonic()
            if found != known or left <= 0:
                known, told = found, _told(service, job, after=after)
                if told["entries"] or told["final"] or left <= 0:
                    return told
            seconds = left if is_watched else min(left, LOOK_SECONDS)
            await _first(service.news.after(number, seconds=seconds), changed.wait())


async def _first(*awaited: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them has ended; the others are canceled."""
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
