"""A server of HTTP that nobody can fill: every connection, every request and every wait has its bound.

uvicorn has no deadline for a header or a body, counts connections only after the TLS handshake, and answers instead of
closing when there are too many (docs/decisions/http-server.md).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http import h11_impl

from . import bounded_connections, problems

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Awaitable, Callable, Iterator

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Application = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "::1")
READ_AFTER_REFUSAL = 16 << 20
"""Bytes of a body that is too large which are still read: a sender that is cut while it writes may lose the answer."""


@dataclass(frozen=True)
class Limits:
    """Bytes, seconds and numbers of connections."""

    body: int = 1 << 20
    header: int = 32 << 10
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: float = 15.0
    stalled_seconds: float = 30.0
    connections: int = 500
    connections_of_one: int = 100
    connections_kept: int = 0
    """Of all connections so many for each of 127.0.0.1, ::1 and the addresses that are listened at."""


class _Stage(Enum):
    """What a connection waits for."""

    HEADER = "header"
    BODY = "body"
    ANSWER = "answer"
    IDLE = "idle"
    CLOSING = "closing"


class _Protocol(h11_impl.H11Protocol):
    """uvicorn's protocol with a deadline for each stage but the application's own work."""

    def __init__(self, *, free: Callable[[], None], limits: Limits, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._free, self._limits = free, limits
        self._stage: _Stage | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._free()
        self._cancel()
        self.resume_writing()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look(is_idle=True)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._limits.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _look(self, *, is_idle: bool = False) -> None:
        stage = self._found(is_idle=is_idle)
        # A stage that lasts keeps its deadline: bytes that drip in do not put it off.
        if stage is self._stage:
            return
        self._stage = stage
        self._cancel()
        seconds = {
            _Stage.HEADER: self._limits.header_seconds,
            _Stage.BODY: self._limits.body_seconds,
            _Stage.CLOSING: self._limits.stalled_seconds,
        }.get(stage)
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _found(self, *, is_idle: bool) -> _Stage:
        if self.transport.is_closing():
            return _Stage.CLOSING
        if self.conn.their_state is h11.SEND_BODY:
            return _Stage.BODY
        if self.cycle is not None and not self.cycle.response_complete:
            return _Stage.ANSWER
        return _Stage.IDLE if is_idle else _Stage.HEADER

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Serves listening sockets within limits, and leaves signals to its process."""

    def __init__(self, app: Any, *, limits: Limits, **config: Any) -> None:
        super().__init__(
            uvicorn.Config(
                BodyLimit(app, most=limits.body),
                http="h11",
                ws="none",
                lifespan="off",
                access_log=False,
                proxy_headers=False,
                timeout_keep_alive=limits.idle_seconds,  # type: ignore[arg-type] # seconds of any kind
                h11_max_incomplete_event_size=limits.header,
                timeout_graceful_shutdown=2,
                **config,
            )
        )
        self.limits = limits
        self.gate = bounded_connections.Gate(
            most=limits.connections, most_of_one=limits.connections_of_one, kept=limits.connections_kept
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of them."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at the sockets, which are given always."""
        names = [listener.getsockname() for listener in sockets or []]
        self.gate.keep_for([*LOOPBACK, *(name[0] for name in names if isinstance(name, tuple))])
        self.servers = [
            bounded_connections.Acceptor(  # type: ignore[misc] # it is closed and waited for, as a server is
                listener,
                gate=self.gate,
                make=self._protocol,
                tls=self.config.ssl,
                handshake_seconds=self.limits.handshake_seconds,
            )
            for listener in sockets or []
        ]
        self.started = True

    def _protocol(self, free: Callable[[], None]) -> asyncio.Protocol:
        state: dict[str, Any] = {}
        return _Protocol(
            free=free, limits=self.limits, config=self.config, server_state=self.server_state, app_state=state
        )


class _TooLarge(Exception):
    """A body has more bytes than it may."""


class BodyLimit:
    """An ASGI application whose requests have bodies of at most so many bytes: 413 comes before the rest is read."""

    def __init__(self, app: Application, *, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, unless its body is announced or found to be too large."""
        if _announced(scope) > self._most:
            await self._refuse(receive, send)
            return
        read, is_answered = 0, False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            await send(message)

        try:
            await self._app(scope, counted, noted)
        except _TooLarge:
            if not is_answered:
                await self._refuse(receive, send)

    async def _refuse(self, receive: Receive, send: Send) -> None:
        body = problems.text(413, f"the body of a request may have {self._most} bytes")
        await send(problems.start(413, length=len(body), headers=[(b"connection", b"close")]))
        await send({"type": "http.response.body", "body": body, "more_body": True})
        left = READ_AFTER_REFUSAL
        while left > 0:
            message = await receive()
            if not message.get("more_body"):
                break
            left -= len(message["body"])
        await send({"type": "http.response.body", "body": b""})


def _announced(scope: Message) -> int:
    # h11 has refused what is no number, and two that differ.
    return next((int(value) for name, value in scope.get("headers", ()) if name == b"content-length"), 0)
