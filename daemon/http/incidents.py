"""Incidents: what nodes asked for; a person cancels an open one and acknowledges one that is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.module_utils.domain import changes, incidents, lifecycle
from ..maintenance import views
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ...plugins.module_utils.domain import cluster as clusters
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
        def canceled(cluster: clusters.Cluster) -> list[changes.Change]:
            return [changes.IncidentStands(incidents.cancel(cluster.incident(uuid), now=service.queue.now()))]

        known = service.configuration.current.incident(uuid)
        cluster = await service.configuration.commit(canceled)
        service.rounds.wake()
        return Json(views.incident(cluster, cluster.incident(known.uuid)))

    @routes.put("/incidents/{uuid}/ack", response_model=dict[str, Any])
    async def ack(uuid: str) -> Response:
        known = service.configuration.current.incident(uuid)
        await service.configuration.commit(lambda cluster: lifecycle.acknowledge(cluster, known.uuid))
        service.rounds.wake()
        return Json({"uuid": known.uuid, "acknowledged": True})
