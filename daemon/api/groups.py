"""Node groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ...plugins.plugin_utils.cluster import cluster as clusters
from .answers import Json
from .fields import definition
from .fields import groups as fields

if TYPE_CHECKING:
    from fastapi import APIRouter

    from .snapshots import Snapshot, Snapshots


def add(routes: APIRouter, snapshots: Snapshots) -> None:
    """The groups with their nodes."""

    @routes.get("/groups", response_model=list[dict[str, Any]])
    async def listed(*, bulk: bool = False) -> Response:
        seen = snapshots.newest()
        found = sorted(seen.cluster.nodegroups.values(), key=lambda group: clusters.natural(group.name))
        if bulk:
            return Json([_told(seen, group) for group in found])
        return Json([{"name": group.name, "uri": f"/2/groups/{group.name}"} for group in found])

    @routes.get("/groups/{name}", response_model=dict[str, Any])
    async def info(name: str) -> Response:
        seen = snapshots.newest()
        return Json(_told(seen, seen.cluster.group(name)))


def _told(seen: Snapshot, group: clusters.Group) -> dict[str, Any]:
    return definition.told(fields.FIELDS, fields.BULK, seen, group)
