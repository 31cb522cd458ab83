"""How every resource answers: JSON by orjson, errors as problem details (RFC 9457).

Beside the members of RFC 9457 an error has those of Ganeti's remote API, `code`, `message` and `explain`, by which its
clients tell it; unlike there the text is not escaped for HTML. A wrong method is 405 with `Allow`, where Ganeti says
501: its clients look at the number only to tell it, and for HTTP 501 is a method that no resource has.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
import pydantic
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ...plugins.module_utils.domain import errors

if TYPE_CHECKING:
    from fastapi import FastAPI, Request


def encoded(content: Any) -> bytes:
    """The content as JSON, also where somebody gave a job an integer beyond 64 bits or half a character."""
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:
        return json.dumps(content, allow_nan=False).encode()


class Json(Response):
    """A JSON answer; fragments of foreign JSON pass through as they are."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


class Listed(Response):
    """A list that is JSON text already."""

    media_type = "application/json"


class Problem(Json):
    """An error as problem details."""

    media_type = "application/problem+json"


class ProblemDetails(pydantic.BaseModel):
    """What every error says: members of RFC 9457, then the same as Ganeti's clients read it."""

    title: str
    status: int
    detail: str
    code: int
    message: str
    explain: str


def install(app: FastAPI) -> None:
    """Give an application the error handlers."""
    app.add_exception_handler(errors.RoundsmanError, _foreseen)
    app.add_exception_handler(RequestValidationError, _unreadable)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


def _problem(status: int, detail: str) -> Problem:
    # File names and foreign JSON may hold halves of characters, which no answer can.
    text = detail.encode(errors="replace").decode()
    title = HTTPStatus(status).phrase
    told = {"title": title, "status": status, "detail": text, "code": status, "message": title, "explain": text}
    return Problem(told, status_code=status)


async def _foreseen(_request: Request, error: Exception) -> Problem:
    kinds: tuple[tuple[type[Exception], int], ...] = (
        (errors.NotFound, 404),
        (errors.InvalidInput, 400),
        (errors.LockRefused, 423),
        (errors.Refused, 409),
        (errors.StoreFailed, 507),
    )
    return _problem(next((status for kind, status in kinds if isinstance(error, kind)), 500), str(error))


async def _unreadable(_request: Request, error: Exception) -> Problem:
    if not isinstance(error, RequestValidationError):
        raise TypeError(error)
    first = error.errors()[0]
    return _problem(400, "/".join(str(part) for part in first["loc"]) + f": {first['msg']}")


async def _http(_request: Request, error: Exception) -> Problem:
    if not isinstance(error, HTTPException):
        raise TypeError(error)
    answer = _problem(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _unforeseen(_request: Request, error: Exception) -> Problem:
    return _problem(500, f"this is a defect of Roundsman: {type(error).__name__}; see the daemon's log")
