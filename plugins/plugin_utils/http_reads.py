"""One request and its small answer: all that a poll of agents needs, at a seventh of what a whole HTTP client costs.

Why so: docs/decisions/node-agent.md.
"""

from __future__ import annotations

import asyncio
import re

from ..module_utils.domain.values import errors, ip_addresses

_HEAD_LIMIT = 16 * 1024
_PART = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r\n")


class Unanswered(OSError):
    """Somebody has accepted the connection, and there was no answer; the message says how it ended."""


async def get(
    host: str, port: int, path: str, *, limit: int, connect_seconds: float, seconds: float
) -> tuple[int, bytes]:
    """The status and body of an answer, the body cut behind `limit` bytes and one more.

    It asks in HTTP/1.0, in which an answer ends with its connection. `host` is an address or a name.

    Raises:
        Unanswered: a connection was accepted, and no answer came, or not in time. OSError, TimeoutError: not even that.
        Failed: the answer is not one of HTTP.
    """
    head = f"GET {path} HTTP/1.0\r\nHost: {_host(host, port)}\r\nAccept: application/json\r\n\r\n"
    return await _asked(host, port, head.encode(), limit=limit, connect_seconds=connect_seconds, seconds=seconds)


async def post(
    host: str, port: int, path: str, body: bytes, *, limit: int, connect_seconds: float, seconds: float
) -> tuple[int, bytes]:
    """The same for a question that has a body.

    Raises:
        Unanswered, OSError, TimeoutError, Failed: as `get`.
    """
    head = f"POST {path} HTTP/1.0\r\nHost: {_host(host, port)}\r\nContent-Length: {len(body)}\r\n\r\n"
    return await _asked(host, port, head.encode() + body, limit=limit, connect_seconds=connect_seconds, seconds=seconds)


def _host(host: str, port: int) -> str:
    return f"{ip_addresses.bracketed(host)}:{port}"


async def _asked(
    host: str, port: int, request: bytes, *, limit: int, connect_seconds: float, seconds: float
) -> tuple[int, bytes]:
    is_connected = False
    try:
        async with asyncio.timeout(seconds):
            async with asyncio.timeout(connect_seconds):
                reader, writer = await asyncio.open_connection(host, port, limit=_HEAD_LIMIT)
            is_connected = True
            try:
                writer.write(request)
                return await _answer(reader, limit=limit)
            finally:
                # All is read that is wanted; nobody waits for a peer that keeps its side open.
                writer.transport.abort()
    except (OSError, EOFError) as error:
        if is_connected:
            raise Unanswered(_ended(error, seconds=seconds)) from error
        raise


def _ended(error: OSError | EOFError, *, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"it accepts connections, and gives no answer within {seconds:g} s"
    return "it hangs up without an answer" if isinstance(error, EOFError) else str(error) or type(error).__name__


async def _answer(reader: asyncio.StreamReader, *, limit: int) -> tuple[int, bytes]:
    status = _status(await _head(reader))
    body = bytearray()
    while len(body) <= limit and (part := await reader.read(_PART)):
        body += part
    return status, bytes(body[: limit + 1])


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise errors.Failed("not an HTTP response") from error
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise errors.Failed("not an HTTP response") from error
        raise


def _status(head: bytes) -> int:
    found = _STATUS.match(head)
    if found is None:
        raise errors.Failed("not an HTTP response")
    return int(found.group(1))
