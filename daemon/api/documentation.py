"""The OpenAPI document: beside what each resource answers, the errors that any of them may answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from .answers import ProblemDetails

if TYPE_CHECKING:
    from fastapi import FastAPI

READING = (400, 404, 405)
WRITING = (*READING, 403, 409, 423, 507)
MINE = "422"
"""How FastAPI documents a request that it cannot read; `answers` makes it 400."""


def install(app: FastAPI) -> None:
    """Have an application document its errors too."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    told = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = told.setdefault("components", {}).setdefault("schemas", {})
    schemas["ProblemDetails"] = ProblemDetails.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path in told["paths"].values():
        for method, operation in path.items():
            operation["responses"].pop(MINE, None)
            operation["responses"] |= {str(code): _error(code) for code in (READING if method == "get" else WRITING)}
    return told


def _error(code: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    return {"description": HTTPStatus(code).phrase, "content": {"application/problem+json": {"schema": schema}}}
