"""Incidents: what nodes asked for; a person cancels one at any time, and acknowledges one that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ..maintenance import lifecycle
from . import views
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service


def add(routes: APIRouter, service: Service) -> None:
    """The incidents, each by its UUID or the first characters of it."""

    @routes.get("/incidents", response_model=list[dict[str, Any]])
    async def listed() -> Response:
        return Json(views.status(service.configuration.current))

    @routes.get("/incidents/{uuid}", response_model=dict[str, Any])
    async def info(uuid: str) -> Response:
        cluster = service.configuration.current
        return Json(views.incident(cluster, cluster.incident(uuid)))

    @routes.put("/incidents/{uuid}/cancel", response_model=dict[str, Any])
    async def cancel(uuid: str) -> Response:
        """`remaining` says in sentences what canceling does not undo."""
        known = service.configuration.current.incident(uuid)
        now = service.queue.now()
        cluster = await service.configuration.commit(lambda head: lifecycle.cancel(head, known.uuid, now=now))
        service.rounds.wake()
        canceled = cluster.incident(known.uuid)
        remaining = views.remaining(cluster, canceled, service.queue)
        return Json({**views.incident(cluster, canceled), "remaining": remaining})

    @routes.put("/incidents/{uuid}/ack", response_model=dict[str, Any])
    async def ack(uuid: str) -> Response:
        known = service.configuration.current.incident(uuid)
        await service.configuration.commit(lambda cluster: lifecycle.acknowledge(cluster, known.uuid))
        service.rounds.wake()
        return Json({"uuid": known.uuid, "acknowledged": True})
