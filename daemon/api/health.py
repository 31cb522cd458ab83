"""`/1/health`: whether the daemon's own parts work, for monitoring; the health of nodes is not in it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.responses import Response  # noqa: TC002 - FastAPI reads the annotations

from .answers import Json

if TYPE_CHECKING:
    from fastapi import APIRouter

    from ..service import Service


def add(routes: APIRouter, service: Service) -> None:
    """200 with an empty list of failures, or 503 with each failing part, its last error and what helps."""

    @routes.get("/1/health")
    async def health() -> Response:
        failures = service.failures.listed()
        status = HTTPStatus.SERVICE_UNAVAILABLE if failures else HTTPStatus.OK
        word = "failing" if failures else "healthy"
        return Json({"status": word, "failures": failures}, status_code=status)
