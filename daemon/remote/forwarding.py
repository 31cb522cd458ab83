"""Handing a request on to the daemon's socket, and its answer back, piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from ...plugins.plugin_utils import unix_sockets
from ..serving import problems

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

LOG = logging.getLogger(__name__)
TIMES = httpx.Timeout(connect=5, write=10, pool=5, read=90)
"""Seconds; the daemon lets a client that waits for a change wait 60."""
AT_ONCE = 200
ASKED = frozenset(
    {b"accept", b"accept-language", b"content-type", b"if-modified-since", b"if-none-match", b"user-agent"}
)
"""What of a client's headers is handed on: nothing by which it could say who it is, or how the bytes travel."""
OWN = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer",
        b"transfer-encoding", b"upgrade", b"date", b"server",
    }
)  # fmt: skip
"""What of the daemon's headers belongs to its own connection."""


@dataclass(frozen=True)
class Request:
    """What is asked for; `target` is path and query as they were sent."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    user: str


class Daemon:
    """The daemon behind a socket of any path; the socket, and its folder, may be replaced by the next daemon's."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._folder: object = None
        self._client: httpx.AsyncClient | None = None
        self._names = contextlib.ExitStack()

    async def forward(self, request: Request, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer as the daemon does; where it does not, 503, or 504 when it takes too long."""
        try:
            client = await self._connected()
            asked = client.build_request(
                request.method,
                "http://roundsmand/",
                headers=_handed_on(request),
                content=request.body,
                # The very bytes, so that what was looked at is what the daemon reads.
                extensions={"target": request.target},
            )
            answer = await client.send(asked, stream=True)
        except httpx.ReadTimeout:
            await problems.answer(send, 504, "roundsmand took too long")
            return
        except (httpx.HTTPError, OSError) as error:
            LOG.warning("the daemon cannot be asked: %s", error)
            await problems.answer(send, 503, "roundsmand does not answer: is it running?")
            return
        try:
            await _hand_back(answer, send)
        except httpx.HTTPError as error:
            # Its beginning was sent: uvicorn closes the connection, and the client sees that it was cut off.
            LOG.warning("the daemon's answer broke off: %s", error)
        finally:
            await answer.aclose()

    async def close(self) -> None:
        """Let go of the connections."""
        self._names.close()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _connected(self) -> httpx.AsyncClient:
        found = self._socket.parent.stat()
        folder = (found.st_dev, found.st_ino)
        if self._client is not None and folder == self._folder:
            return self._client
        stale, self._client = self._client, None
        self._names.close()
        name = self._names.enter_context(unix_sockets.short_name(self._socket))
        self._folder = folder
        transport = httpx.AsyncHTTPTransport(uds=name, limits=httpx.Limits(max_connections=AT_ONCE))
        self._client = client = httpx.AsyncClient(transport=transport, timeout=TIMES, trust_env=False)
        if stale is not None:
            await stale.aclose()
        return client


async def until_gone(receive: Callable[[], Awaitable[Any]], work: Awaitable[None]) -> None:
    """Do the work unless the client goes away before; its body must have been read."""
    working = asyncio.ensure_future(work)
    going = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({working, going}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        going.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    if not working.cancelled():
        working.result()


def _handed_on(request: Request) -> list[tuple[bytes, bytes]]:
    kept = [(name, value) for name, value in request.headers if name in ASKED]
    return [*kept, (b"accept-encoding", b"identity"), (b"x-roundsman-user", request.user.encode())]


async def _hand_back(answer: httpx.Response, send: Callable[[Any], Awaitable[None]]) -> None:
    raw = [(name.lower(), value) for name, value in answer.headers.raw]
    named = {token.strip().lower() for name, value in raw if name == b"connection" for token in value.split(b",")}
    headers = [(name, value) for name, value in raw if name not in OWN and name not in named]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    async for piece in answer.aiter_raw():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
