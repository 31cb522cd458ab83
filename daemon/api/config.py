"""The whole configuration: read, taken over from a document, and the versions that are kept."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations
from fastapi.responses import Response

from ...plugins.plugin_utils import sealed_json
from ...plugins.plugin_utils.config import history, import_rules, used_values
from ..jobs import submission
from . import asking, auditing, permissions
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service


def add(routes: APIRouter, service: Service) -> None:
    """`/2/config`, for local administrators only."""
    path = service.where.config

    @routes.get("/config")
    async def export(version: int | None = None) -> Response:
        found = path if version is None else history.get(path, version).path
        return Response(found.read_bytes(), media_type="application/json")

    @routes.get("/config/history")
    async def versions() -> Response:
        return Json([_version(version) for version in history.versions(path)])

    @routes.put("/config")
    async def take_over(request: Request, who: asking.Requesting, *, force: bool = False) -> Response:
        cluster = readable(await request.body(), is_lab=service.where.lab_file.is_file())
        programs = used_values.programs(cluster) - used_values.programs(service.configuration.current)
        permissions.refuse_programs(service.where, sorted(programs), who)
        rest = contextlib.nullcontext() if force else service.queue.at_rest()
        async with service.rounds.between_steps(), rest:
            after = await service.configuration.replace(cluster, by=f"import {auditing.requester()}")
            auditing.add_text(f"config import: version {after.serial_no}")
            service.queue.keep_numbers(submission.named_numbers(after))
        service.rounds.wake()
        return Json({"serial_no": after.serial_no, "paused": after.maintenance.settings.paused})


def readable(data: bytes, *, is_lab: bool) -> Any:
    """The cluster of a document that was exported, and perhaps edited since: its checksum need not fit.

    Raises:
        InvalidInput: it cannot be represented, or has values that cannot be set; the text names object and field.
    """
    return import_rules.load(sealed_json.opened(data), is_lab=is_lab)


def _version(version: history.Version) -> dict[str, Any]:
    return {"serial_no": version.serial_no, "time": version.time, "size": version.size}
