"""An error as problem details (RFC 9457), with the members that Ganeti's clients read, for a bare ASGI application."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


def start(status: int, *, length: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> dict[str, Any]:
    """The first ASGI message of an answer that is a problem of so many bytes."""
    own = [(b"content-type", b"application/problem+json"), (b"content-length", str(length).encode())]
    return {"type": "http.response.start", "status": status, "headers": [*own, *headers]}


def text(status: int, detail: str) -> bytes:
    """The body of the answer."""
    title = HTTPStatus(status).phrase
    told = {"title": title, "status": status, "detail": detail, "code": status, "message": title, "explain": detail}
    return json.dumps(told).encode()


async def answer(
    send: Callable[[Any], Awaitable[None]], status: int, detail: str, *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send the whole answer."""
    body = text(status, detail)
    await send(start(status, length=len(body), headers=headers))
    await send({"type": "http.response.body", "body": body})
