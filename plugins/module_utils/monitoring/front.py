"""The part of the agent that faces the network: it hands out files that another process has signed, and knows no key.

Every connection is for one request and has a deadline, so that nobody holds the agent by being slow.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import signal
import socket
import sys
from collections import Counter
from typing import Optional, Sequence, Tuple

from ..domain.agent import collected
from ..domain.values import origins
from . import following, publishing, requests

LOG = logging.getLogger("roundsman-agent")
MOST = 128
MOST_OF_ONE = 16
RESERVED = 16
"""Connections of all that only the controllers can have, however many clients there are."""
MOST_WAITING = 32
MOST_WAITING_OF_ONE = 2
"""Clients whose answers wait for a change, in all and of one address; more are answered at once."""
MOST_QUESTIONS = 8
"""Questions about the leader that are under way at once; each may wait for the node's disk."""
LOOK_SECONDS = 1.0
"""Seconds between two looks at a report for which somebody waits: the least from one early answer to the next."""
REQUEST_SECONDS = 5.0
ANSWER_SECONDS = 20.0
_TITLES = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_NO_REPORT = b"Unable to produce a report for the requested resource"
_NOTHING = b"Resource not found"
Answer = Tuple[int, bytes]


class Channel:
    """The way to the process that has the key: one question at a time, each of which ends with an answer."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003 - the way of sockets
        self._end = end
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, data: bytes, *, path: str, seconds: float) -> Answer:
        """The answer to a question at this path.

        503 where many wait already, or the other process takes too long or is gone.
        """
        if self._waiting >= MOST_QUESTIONS:
            return 503, b""
        self._waiting += 1
        asking = asyncio.ensure_future(self._ask(data, following.PATHS.index(path)))
        asking.add_done_callback(self._has_ended)
        try:
            # An answer that comes too late is read all the same, or the next question would get it.
            given = await asyncio.wait_for(asyncio.shield(asking), seconds)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            return 503, b""
        return (200, given) if given else (403, b"")

    def _has_ended(self, asking: "asyncio.Future[bytes]") -> None:
        self._waiting -= 1
        if not asking.cancelled():
            asking.exception()

    async def _ask(self, data: bytes, kind: int) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._turn:
            await loop.sock_sendall(self._end, following.QUESTION.pack(kind, len(data)) + data)
            (size,) = following.LENGTH.unpack(await self._exactly(following.LENGTH.size))
            return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            part = await asyncio.get_running_loop().sock_recv(self._end, size - len(found))
            if not part:
                raise asyncio.IncompleteReadError(bytes(found), size)
            found += part
        return bytes(found)


class Front:
    """Answers from a folder of reports; questions about the leader go through a channel."""

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        controllers: Sequence[str] = (),
        request_seconds: float = REQUEST_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        look_seconds: float = LOOK_SECONDS,
        channel: Optional[Channel] = None,
    ) -> None:
        self._folder = folder
        self._channel = channel
        self._controllers = frozenset(map(origins.address, controllers))
        self._request_seconds = request_seconds
        self._answer_seconds = answer_seconds
        self._look_seconds = look_seconds
        self._open: "Counter[str]" = Counter()
        self._waiting: "Counter[str]" = Counter()

    def answer(self, path: str) -> Answer:
        """The status and body for a path, as Ganeti's monitoring agent gives them."""
        if path == "/":
            return 200, b"[1]"
        if path in {"/1", "/1/"}:
            return 200, b"null"
        if path == "/1/list/collectors":
            listed = self._read(publishing.LIST)
            return (200, listed) if listed is not None else (404, _NOTHING)
        if path == "/1/report/all":
            return 200, b"[" + b",".join(self._all()) + b"]"
        name = requests.report_file(path)
        found = self._read(name) if name else None
        if found is not None:
            return 200, found
        return 404, _NO_REPORT if path.startswith("/1/report/") else _NOTHING

    async def serve(self, connection: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection, or break it off at its deadline."""
        peer = writer.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        client = self._client(address)
        if not self._has_room(client):
            writer.transport.abort()
            return
        self._open[client] += 1
        try:
            await self._serve(connection, writer, client)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
            LOG.debug("a connection of %s came to nothing", address)
        finally:
            # Not closed gently: that waits for a client which does not read.
            writer.transport.abort()
            self._open[client] -= 1
            self._open += Counter()  # forgets who has none

    def _client(self, address: str) -> str:
        """Whom a connection counts for: a controller's address counts for itself, in IPv6 too."""
        own = origins.address(address)
        return own if own in self._controllers else origins.origin(address)

    def _has_room(self, client: str) -> bool:
        """Whether a client may have one more connection; others cannot take those that controllers have reserved."""
        if self._open[client] >= MOST_OF_ONE:
            return False
        if client in self._controllers:
            return sum(self._open[address] for address in self._controllers) < RESERVED
        others = sum(count for address, count in self._open.items() if address not in self._controllers)
        return others < (MOST - RESERVED if self._controllers else MOST)

    async def _serve(self, connection: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str) -> None:
        has_body = True
        # What is on its way is waited for to the last byte.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            head = await asyncio.wait_for(connection.readuntil(b"\r\n\r\n"), self._request_seconds)
            asked = requests.parse(head)
            has_body = asked.has_body
            if asked.length:
                status, body = await self._question(asked, connection, client)
            else:
                await self._wait(asked, connection, client)
                status, body = self.answer(asked.path)
        except requests.BadRequest as e:
            status, body = e.status, _TITLES[e.status].encode()
        except asyncio.LimitOverrunError:
            status, body = 431, _TITLES[431].encode()
        except asyncio.TimeoutError:
            status, body = 408, _TITLES[408].encode()
        writer.write(_head(status, body) + (body if has_body else b""))
        await asyncio.wait_for(writer.drain(), self._answer_seconds)

    async def _question(self, asked: requests.Asked, connection: asyncio.StreamReader, client: str) -> Answer:
        """Pass a question about the leader on; where controllers are known, it has to come from one."""
        if self._channel is None or (self._controllers and client not in self._controllers):
            return 403, b""
        data = await asyncio.wait_for(connection.readexactly(asked.length), self._request_seconds)
        return await self._channel.ask(data, path=asked.path, seconds=self._answer_seconds)

    async def _wait(self, asked: requests.Asked, connection: asyncio.StreamReader, client: str) -> None:
        """Wait until the report that is asked for says something else than what is known, or the time is over.

        There is a bounded number of waiters, and where controllers are known they only: others are answered at once.
        """
        name = requests.report_file(asked.path)
        may_wait = not self._controllers or client in self._controllers
        has_room = self._waiting[client] < MOST_WAITING_OF_ONE and sum(self._waiting.values()) < MOST_WAITING
        if not (asked.after and name and may_wait and has_room):
            return
        end, seen = asyncio.get_running_loop().time() + asked.seconds, None
        self._waiting[client] += 1
        try:
            while not connection.at_eof():
                now = self._version(name)
                if now != seen and collected.content_digest(self._read(name) or b"") != asked.after:
                    return
                seen, left = now, end - asyncio.get_running_loop().time()
                if left <= 0:
                    return
                await asyncio.sleep(min(left, self._look_seconds))
        finally:
            self._waiting[client] -= 1
            self._waiting += Counter()

    def _version(self, name: str) -> Optional[Tuple[int, int]]:
        """Which version of a report there is: each is a file of its own."""
        try:
            found = (self._folder / name).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read(self, name: str) -> Optional[bytes]:
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def _all(self) -> Sequence[bytes]:
        listed = json.loads(self._read(publishing.LIST) or b"[]")
        found = (self._read("{}/{}".format(folder, name)) for name, folder, _kind in listed)
        return [report for report in found if report is not None]


def _head(status: int, body: bytes) -> bytes:
    kind = "application/json" if status == 200 else "text/plain"  # noqa: PLR2004 - success
    lines = [
        "HTTP/1.1 {} {}".format(status, _TITLES[status]),
        "Content-Type: " + kind,
        "Content-Length: {}".format(len(body)),
        "Cache-Control: no-store",
        "Connection: close",
        *(["Allow: GET, HEAD"] if status == 405 else []),  # noqa: PLR2004 - a method that changes something
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def run(
    folder: pathlib.Path,
    listeners: Sequence[socket.socket],
    *,
    parent: int,
    questions: socket.socket,
    controllers: Sequence[str] = (),
) -> None:
    """Serve until SIGTERM, or until the other end of the descriptor `parent` is closed: its process is gone."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_reader(parent, stopping.set)
    front = Front(folder, controllers=controllers, channel=Channel(questions))
    servers = [
        await asyncio.start_server(front.serve, sock=listener, limit=requests.HEAD_LIMIT, backlog=MOST)
        for listener in listeners
    ]
    await stopping.wait()
    for server in servers:
        server.close()


def main(words: Sequence[str]) -> None:
    """Run as a process of its own.

    The words are folder, controllers, the parent's descriptor, that of the channel and those of the listening sockets.
    """
    folder, controllers, parent, channel, *listeners = words
    try:
        sockets = [socket.socket(fileno=int(descriptor)) for descriptor in listeners]
        known = [address for address in controllers.split(",") if address]
        questions = socket.socket(fileno=int(channel))
        asyncio.run(run(pathlib.Path(folder), sockets, parent=int(parent), questions=questions, controllers=known))
    except OSError as e:
        sys.exit("roundsman-agent: {}".format(e))
