"""Jobs: what they are, waiting for them, and canceling them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
from fastapi import Query, Request
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain.values import errors
from ..jobs import task_log
from . import asking, bodies, waiting
from .answers import Json
from .fields import definition
from .fields import jobs as fields

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

LONGEST_WAIT = 60.0
Number = Annotated[int, pydantic.Field(le=2**53)]
Seconds = Annotated[pydantic.FiniteFloat, Query(ge=0, description="How long to wait at most; 60 is the most there is.")]
MOST_ARCHIVED = 1000
Archived = Annotated[bool, Query(description="The newest jobs of the archive instead of those in the queue.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ARCHIVED, description="At most so many of the archive.")]
Before = Annotated[int | None, Query(ge=1, le=2**53, description="Of the archive only those with a lower number.")]


class Change(bodies.Body):
    """What a client knows of a job already: it waits until some of it is different."""

    fields: list[str] = pydantic.Field(max_length=100)
    previous_job_info: list[Any] | None = None
    previous_log_serial: int | None = pydantic.Field(default=None, ge=0)


def add(routes: APIRouter, service: Service, *, waits: waiting.Waits) -> None:
    """All resources below `/jobs`."""
    _readable(routes, service)
    _waiting(routes, service, waits)

    @routes.delete("/jobs/{job}", response_model=list[bool | str])
    async def cancel(job: Number, asked: asking.Parameters) -> Response:
        found = service.queue.find(job)
        if found.is_final:
            return Json([False, f"job {job} has ended: {found.status.value}"])
        if asked.dry_run:
            return Json([True, f"job {job} would be canceled"])
        try:
            after = await service.queue.cancel(job, kill=True)
        except errors.Refused as refusal:
            # It has ended while this waited for what was being written of it.
            return Json([False, str(refusal)])
        return Json([True, f"job {job} is {after.status.value}"])


def _readable(routes: APIRouter, service: Service) -> None:
    @routes.get("/jobs", response_model=list[dict[str, Any]])
    async def listed(
        *, bulk: bool = False, archived: Archived = False, limit: Limit = MOST_ARCHIVED, before: Before = None
    ) -> Response:
        if archived:
            found = await service.queue.archived(limit, before=before)
            return Json([fields.ganeti(job) if bulk else {"id": job.id, "uri": f"/2/jobs/{job.id}"} for job in found])
        if bulk:
            return Json([fields.ganeti(job) for job in service.queue.jobs.values()])
        return Json([{"id": number, "uri": f"/2/jobs/{number}"} for number in service.queue.jobs])

    @routes.get("/jobs/{job}", response_model=dict[str, Any])
    async def info(job: Number) -> Response:
        return Json(_whole(service, job))


def _waiting(routes: APIRouter, service: Service, waits: waiting.Waits) -> None:
    @routes.get("/jobs/{job}/wait", response_model=dict[str, Any] | None)
    async def wait(
        request: Request,
        who: asking.Requesting,
        job: Number,
        body: Change | None = None,
        timeout: Seconds = 30,  # noqa: ASYNC109 - the client's own limit
    ) -> Response:
        """Without a body the job as soon as it has ended; with one what has changed, or null, as Ganeti says it."""
        service.queue.find(job)
        seconds = min(timeout, LONGEST_WAIT)
        if body is not None:
            return await waits.answer(request, who, _changed(service, job, body, seconds=seconds))
        return await waits.answer(request, who, _ended(service, job, seconds=seconds))


async def _ended(service: Service, job: int, *, seconds: float) -> dict[str, Any]:
    await service.queue.wait(job, seconds=seconds)
    return _whole(service, job)


def _whole(service: Service, number: int) -> dict[str, Any]:
    job = service.queue.find(number)
    return fields.whole(job, service.queue.folder_of(job))


async def _changed(service: Service, number: int, known: Change, *, seconds: float) -> dict[str, Any] | None:
    for name in known.fields:
        definition.known(fields.FIELDS, name)
    deadline = time.monotonic() + seconds
    while True:
        news, job = service.news.number, service.queue.find(number)
        told = definition.told(fields.FIELDS, known.fields, fields.NOWHERE, job)
        info = [told[name] for name in known.fields]
        if info != known.previous_job_info:
            folder, after = service.queue.folder_of(job), known.previous_log_serial or 0
            log = task_log.job_entries(folder, opcodes=len(job.opcodes), after=after)
            return {"job_info": info, "log_entries": log}
        left = deadline - time.monotonic()
        if left <= 0 or job.is_final:
            return None
        await service.news.after(news, seconds=left)
