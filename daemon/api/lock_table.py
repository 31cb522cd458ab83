"""The lock table, for administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ..locks import listing
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service


def add(routes: APIRouter, service: Service) -> None:
    """Who holds and who waits, since when and what for."""

    @routes.get("/locks")
    async def locks() -> Response:
        cluster = service.configuration.current

        def name_of(uuid: str) -> str:
            found = cluster.nodes.get(uuid) or cluster.instances.get(uuid) or cluster.nodegroups.get(uuid)
            return found.name if found else uuid

        return Json(listing.rows(service.desk.table, name_of=name_of))
