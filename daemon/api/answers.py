"""How every resource answers: JSON by orjson, errors as problem details (RFC 9457).

Beside the members of RFC 9457 an error has those of Ganeti's remote API, `code`, `message` and `explain`, by which its
clients tell it; unlike there the text is not escaped for HTML. A wrong method is 405 with `Allow`, where Ganeti says
501: its clients look at the number only to tell it, and for HTTP 501 is a method that no resource has.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
import pydantic
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ...plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from fastapi import FastAPI, Request


REST = 4.0
"""For how many times the time that a shared answer took no further one is made."""
SLICE, MOST_WORK = 0.01, 5.0
"""Seconds: how long an answer is made before the daemon does other work, and how long in all."""


async def in_slices(
    rows: Iterable[Any],
    make: Callable[[Any], bytes | None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bytes:
    """A JSON list of what is made of each row, save None; after each slice comes a rest that is as long.

    Raises:
        InvalidInput: it is too much work.
    """
    made, work, began = list[bytes](), 0.0, clock()
    for row in rows:
        if (text := make(row)) is not None:
            made.append(text)
        if (spent := clock() - began) < SLICE:
            continue
        work += spent
        if work > MOST_WORK:
            raise errors.InvalidInput(f"the answer takes longer than {MOST_WORK:g} s: use fewer fields or operators")
        await sleep(spent)
        began = clock()
    return b"[" + b",".join(made) + b"]"


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


@dataclass
class _Awaited:
    """An answer that is yet to be made, and how many requests wait for it."""

    making: asyncio.Task[bytes]
    requests: int = 0


class SharedByName:
    """Answers that anybody may ask for, each about one object: to make one keeps the daemon from all other work.

    Requests for a name that come before its answer is made share it, so each is answered with what is true after it
    came. One is made at a time, and making all of them takes at most one part in `1 + REST` of the time, however often
    and for however many names they are asked for. An answer that no request waits for any more is not made.
    """

    def __init__(
        self,
        make: Callable[[str], Any],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._make, self._clock, self._sleep = make, clock, sleep
        self._next: dict[str, _Awaited] = {}
        self._turn = asyncio.Lock()
        self._due = 0.0

    async def get(self, name: str) -> bytes:
        """The next one to be made for a name, as JSON text."""
        if name not in self._next:
            self._next[name] = _Awaited(asyncio.get_running_loop().create_task(self._made(name)))
        awaited = self._next[name]
        awaited.requests += 1
        try:
            # The end of one request does not end that of the others.
            return await asyncio.shield(awaited.making)
        finally:
            awaited.requests -= 1
            if not awaited.requests and self._next.get(name) is awaited:
                del self._next[name]
                awaited.making.cancel()

    async def _made(self, name: str) -> bytes:
        async with self._turn:
            await self._sleep(max(0.0, self._due - self._clock()))
            del self._next[name]
            began = self._clock()
            try:
                return encoded(self._make(name))
            finally:
                now = self._clock()
                self._due = now + REST * (now - began)


class Shared:
    """An answer about the whole cluster, made as those of `SharedByName` are."""

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._answers = SharedByName(lambda _: make(), clock=clock, sleep=sleep)

    async def get(self) -> Response:
        """The next one to be made."""
        return Listed(await self._answers.get(""))


class Listed(Response):
    """A list or an object that is JSON text already."""

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
        (errors.Forbidden, 403),
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
