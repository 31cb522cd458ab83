"""The job queue as a whole: how it stands, draining it, archiving; and the priority of a job that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from . import bodies
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service

Number = Annotated[int, pydantic.Field(le=2**53)]


class Drained(bodies.Body):
    """Whether the queue takes no jobs."""

    drained: bool


class Priority(bodies.Body):
    """The wanted priority: high, normal or low."""

    priority: Literal[-10, 0, 10]


class Age(bodies.Body):
    """How long ago, in seconds, a job must have ended."""

    older_than: pydantic.FiniteFloat = pydantic.Field(ge=0)


def add(routes: APIRouter, service: Service) -> None:
    """All that is done to the queue, and to jobs in it that wait or have ended."""

    @routes.get("/queue", response_model=dict[str, Any])
    async def info() -> Response:
        return Json(service.queue.summary())

    @routes.put("/queue/drained", response_model=dict[str, Any])
    async def drain(body: Drained) -> Response:
        service.queue.set_drained(body.drained)
        return Json(service.queue.summary())

    @routes.put("/queue/archive", response_model=list[int])
    async def archive_old(body: Age) -> Response:
        return Json(await service.queue.archive_older_than(body.older_than))

    @routes.put("/jobs/{job}/archive", response_model=dict[str, Any])
    async def archive(job: Number) -> Response:
        service.queue.archive(job)
        return Json({"id": job, "archived": True})

    @routes.put("/jobs/{job}/priority", response_model=dict[str, Any])
    async def priority(job: Number, body: Priority) -> Response:
        after = await service.queue.change_priority(job, body.priority)
        return Json({"id": job, "priority": after.priority})
