from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.serving import bounded_serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LONG = {"header_seconds": 60.0, "body_seconds": 60.0, "idle_seconds": 60.0, "stalled_seconds": 60.0}
SOON = 0.2


class Application:
    """Reads the body, then answers its size; `large` bytes come before."""

    def __init__(self, *, large: int = 0) -> None:
        self.large = large
        self.sizes: list[int] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_asked = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message["body"]), message["more_body"]
        self.sizes.append(size)
        self.is_asked.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(self.large >> 16):
            await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
        await send({"type": "http.response.body", "body": str(size).encode()})


@contextlib.asynccontextmanager
async def served(app: Any, **limits: Any) -> AsyncIterator[tuple[bounded_serving.Server, int]]:
    """The server and its port."""
    chosen = bounded_serving.Limits(**{**LONG, **limits})
    server = bounded_serving.Server(app, limits=chosen, log_config=None)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield server, port
    finally:
        server.should_exit = True
        await task


def noting_free(server: bounded_serving.Server) -> asyncio.Event:
    """An event for the first connection that frees its place."""
    freed, admit = asyncio.Event(), server.gate.admit

    def noting(address: str) -> Callable[[], None] | None:
        free = admit(address)
        return None if free is None else lambda: (free(), freed.set())[0]  # type: ignore[func-returns-value]

    server.gate.admit = noting  # type: ignore[method-assign]
    return freed


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            data += piece
    return data


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


async def drip(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, piece: bytes) -> None:
    """Send a piece again and again until the server has had enough."""
    closed = asyncio.ensure_future(until_closed(reader))
    with contextlib.suppress(ConnectionError):
        while not closed.done():
            writer.write(piece)
            await writer.drain()
            await asyncio.wait({closed}, timeout=SOON / 10)
    await closed
    writer.close()


@pytest.mark.parametrize("beginning", [b"", b"GET / HT"])
def test_a_header_that_does_not_come_closes_the_connection(beginning: bytes) -> None:
    async def test() -> None:
        async with served(Application(), header_seconds=SOON) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(beginning)
            assert await until_closed(reader) == b""
            writer.close()

    run(test)


def test_a_header_that_drips_in_does_not_put_off_its_deadline() -> None:
    async def test() -> None:
        async with served(Application(), header_seconds=SOON, header=1 << 30) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\n")
            await drip(writer, reader, b"X-More: 1\r\n")

    run(test)


def test_the_second_header_on_a_connection_has_its_deadline_too() -> None:
    async def test() -> None:
        async with served(Application(), header_seconds=SOON) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            await reader.readuntil(b"0\r\n\r\n")
            writer.write(b"GET / HT")
            assert await until_closed(reader) == b""
            writer.close()

    run(test)


def test_a_body_that_drips_in_does_not_put_off_its_deadline() -> None:
    async def test() -> None:
        app = Application()
        async with served(app, body_seconds=SOON) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            await drip(writer, reader, b"x")
            assert app.sizes == []

    run(test)


def test_an_idle_connection_is_closed() -> None:
    async def test() -> None:
        async with served(Application(), idle_seconds=SOON) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert (await until_closed(reader)).startswith(b"HTTP/1.1 200")
            writer.close()

    run(test)


def test_who_does_not_read_the_answer_is_cut() -> None:
    async def test() -> None:
        async with served(Application(large=64 << 20), stalled_seconds=SOON) as (server, port):
            is_freed = noting_free(server)
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(GET)
                await is_freed.wait()
            assert server.gate.open == 0

    run(test)


def test_an_answer_may_take_longer_than_any_deadline() -> None:
    async def test() -> None:
        app = Application()
        app.may_answer.clear()
        short = dict.fromkeys(LONG, 0.05)
        async with served(app, **short) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            await app.is_asked.wait()
            for _ in range(3):
                # Each of them outlasts a deadline.
                other, closing = await asyncio.open_connection("127.0.0.1", port)
                await until_closed(other)
                closing.close()
            app.may_answer.set()
            assert (await until_closed(reader)).startswith(b"HTTP/1.1 200")
            writer.close()

    run(test)


def test_one_connection_too_many_is_closed_at_once_and_a_free_place_is_taken_again() -> None:
    async def test() -> None:
        async with served(Application(), connections=2) as (server, port):
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for reader, writer in held:
                writer.write(GET)
                await reader.readuntil(b"0\r\n\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await until_closed(reader) == b""
            writer.close()
            assert server.gate.open == 2
            for reader, writer in held:
                writer.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                await until_closed(reader)
                writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()

    run(test)


def test_a_body_over_the_limit_is_refused_and_not_read_whole() -> None:
    async def test() -> None:
        app = Application()
        async with served(app, body=1000) as (_, port):
            for kind in (b"Content-Length: 10000000", b"Transfer-Encoding: chunked"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"POST / HTTP/1.1\r\nHost: x\r\n" + kind + b"\r\n\r\n3E9\r\n" + b"x" * 1001 + b"\r\n")
                head, _, body = (await reader.readuntil(b"}")).partition(b"\r\n\r\n")
                assert b" 413 " in head.splitlines()[0]
                assert b"1000 bytes" in body
                writer.close()
            assert app.sizes == []

    run(test)


@pytest.mark.parametrize("size", [0, 1000])
def test_a_body_within_the_limit_is_passed_on(size: int) -> None:
    async def test() -> None:
        app = Application()
        async with served(app, body=1000) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert app.sizes == [size]
            writer.close()

    run(test)


def test_other_addresses_of_the_loopback_network_leave_places_for_the_machine_itself() -> None:
    async def test() -> None:
        async with (
            served(Application(), connections=6, connections_of_one=6, connections_kept=2) as (_, port),
            contextlib.AsyncExitStack() as opened,
        ):
            for number in range(2, 8):
                _, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.0.{number}", 0))
                opened.callback(writer.close)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.9", 0))
            opened.callback(writer.close)
            assert await until_closed(reader) == b""
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.callback(writer.close)
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")

    run(test)
