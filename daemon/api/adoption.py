"""Nodes and instances that were there before their cluster; for local administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pydantic
from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from ..jobs import values
from . import asking, bodies, submissions
from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service


class Adopt(bodies.Body):
    """Nodes, each as its UUID and its fields, and instances as the configuration has them."""

    nodes: list[tuple[str, dict[str, Any]]] = pydantic.Field(default=[])
    instances: list[dict[str, Any]] = pydantic.Field(default=[])


def add(routes: APIRouter, service: Service) -> None:
    """The resource of `roundsman cluster adopt`."""

    @routes.post("/adopt", response_model=int)
    async def adopt(body: Adopt, asked: asking.Parameters) -> Response:
        opcodes = [values.Opcode("cluster_adopt", {"nodes": body.nodes, "instances": body.instances})]
        reason = asked.because("cluster adopt")
        return Json((await submissions.submit(service, opcodes, reason=reason, dry_run=asked.dry_run)).id)
