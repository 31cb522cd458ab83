"""The application of the remote API: who asks, whether he may, and then the daemon's answer."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.settings import permissions
from ..serving import problems
from . import authentication, forwarding
from .users import Access

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]


LOG = logging.getLogger("roundsman.access")
LONGEST = 500
"""Characters of a path that the access log has."""
NOBODY = "-"
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


def is_forwarded(path: str) -> bool:
    """Whether a path, with its escapes resolved, is one of the remote API's: plain segments, and no local ones."""
    if path in {"/", "/version", "/2"}:
        return True
    segments = path.removeprefix("/2/").split("/")
    if not path.startswith("/2/") or any(segment in {"", ".", ".."} for segment in segments):
        return False
    return segments[0] not in permissions.LOCAL_ONLY


def is_allowed(access: Access, *, method: str, path: str) -> bool:
    """Whether a user of this access may ask for it."""
    return access is Access.WRITE or permissions.is_reading(method, path)


@dataclass
class _Exchange:
    """A request and its answer, as the access log has them; without query, headers and body, which may hold secrets."""

    scope: Message
    send: Send
    user: str = NOBODY
    status: int = 0
    bytes: int = 0

    async def answer(self, message: Message) -> None:
        """Send a part of the answer, and count it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.bytes += len(message.get("body", b""))
        await self.send(message)

    def log(self, *, seconds: float) -> None:
        """Write the line; status 0 stands for a client that went away before the answer."""
        path = (self.scope.get("raw_path") or b"").decode("latin-1")[:LONGEST]
        address = self.scope["client"][0] if self.scope["client"] else NOBODY
        LOG.info(
            "user=%s address=%s %s %s status=%d bytes=%d seconds=%.3f",
            self.user, address, self.scope["method"], path, self.status, self.bytes, seconds,
        )  # fmt: skip


class Front:
    """An ASGI application; it reads a body only of whom it knows."""

    def __init__(self, authenticator: authentication.Authenticator, daemon: forwarding.Daemon) -> None:
        self._authenticator, self._daemon = authenticator, daemon

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, and log it."""
        exchange, began = _Exchange(scope, send), time.monotonic()
        try:
            await self._answer(scope, receive, exchange)
        finally:
            exchange.log(seconds=time.monotonic() - began)

    async def _answer(self, scope: Message, receive: Receive, exchange: _Exchange) -> None:
        send = exchange.answer
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        method, path = scope["method"], scope["path"]
        given = [value for name, value in headers if name == b"authorization"]
        address = scope["client"][0] if scope["client"] else ""
        try:
            asker = await self._authenticator.asker(given[0] if len(given) == 1 else None, address=address)
        except authentication.Denied as denied:
            await problems.answer(send, denied.status, denied.detail, headers=denied.headers)
            return
        exchange.user = asker.name
        if method not in METHODS:
            allow = (b"allow", ", ".join(sorted(METHODS)).encode())
            await problems.answer(send, 405, f"the method {method} has no meaning here", headers=[allow])
        elif not is_forwarded(path):
            await problems.answer(send, 404, "there is no such resource, or only on the daemon's own machine")
        elif not is_allowed(asker.access, method=method, path=path):
            await problems.answer(send, 403, f"{asker.name} may read, and this is a change")
        else:
            body = await _body(receive)
            if body is not None:
                query = scope["query_string"]
                target = scope["raw_path"] + (b"?" + query if query else b"")
                request = forwarding.Request(method, target, headers, body, asker.name)
                await forwarding.until_gone(receive, self._daemon.forward(request, send))


async def _body(receive: Receive) -> bytes | None:
    """The whole body, whose size is bounded by the server; nothing when the client has gone."""
    pieces = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(pieces)
