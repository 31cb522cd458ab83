from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import front, listening, requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

GET = b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(folder: Path, *, controllers: Sequence[str] = (), **seconds: float) -> AsyncIterator[int]:
    ((_, listener),) = listening.sockets(["127.0.0.1"], 0, known={}).items()
    server = await asyncio.start_server(
        front.Front(folder, controllers=controllers, **seconds).serve, sock=listener, limit=requests.HEAD_LIMIT
    )
    async with server:
        yield listener.getsockname()[1]


async def answer(port: int, data: bytes, *, address: str = "127.0.0.1") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_who_never_says_what_is_wanted_is_sent_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, request_seconds=0.05) as port:
            assert (await answer(port, b"GET / HT")).startswith(b"HTTP/1.1 408 ")

    asyncio.run(scenario())


def test_a_request_without_an_end_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as port:
            assert (await answer(port, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000))[:13] in {b"HTTP/1.1 431 ", b""}
            assert (await answer(port, GET)).endswith(b"[1]")

    asyncio.run(scenario())


def test_who_does_not_read_the_answer_is_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "node").mkdir()
        (tmp_path / "node/diagnose").write_bytes(b"x" * 64 * 1024 * 1024)
        async with serving(tmp_path, answer_seconds=0.1) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(b"GET /1/report/node/diagnose HTTP/1.1\r\n\r\n")
            await reader.readexactly(1)
            await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=60)  # that of the connection
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await asyncio.wait_for(reader.readexactly(64 * 1024 * 1024), 60)
            writer.close()

    asyncio.run(scenario())


def test_one_address_cannot_take_all_connections(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as port, contextlib.AsyncExitStack() as held:
            for _ in range(front.MOST_OF_ONE):
                _reader, writer = await asyncio.open_connection("127.0.0.1", port)
                held.callback(writer.close)
            assert await answer(port, GET) == b""
            assert (await answer(port, GET, address="127.0.0.9")).endswith(b"[1]")

    asyncio.run(scenario())


async def take_all(port: int, held: contextlib.AsyncExitStack, addresses: Sequence[str]) -> None:
    """Open as many connections as each address may have, and send nothing; those over a limit are closed at once."""
    for address in addresses:
        for _ in range(front.MOST_OF_ONE):
            with contextlib.suppress(ConnectionError):
                _reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
                held.callback(writer.close)


def test_the_controller_is_answered_while_others_take_all_they_can(tmp_path: Path) -> None:
    async def scenario() -> None:
        others = [f"127.0.1.{number}" for number in range(1, 9)]
        async with (
            serving(tmp_path, controllers=["127.0.0.9"], request_seconds=600) as port,
            contextlib.AsyncExitStack() as held,
        ):
            await take_all(port, held, others)
            assert await answer(port, GET, address="127.0.0.8") == b""
            for _ in range(20):
                assert (await answer(port, GET, address="127.0.0.9")).endswith(b"[1]")

    asyncio.run(scenario())


def test_the_controllers_address_has_no_more_than_its_share(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            serving(tmp_path, controllers=["127.0.0.9"], request_seconds=600) as port,
            contextlib.AsyncExitStack() as held,
        ):
            await take_all(port, held, ["127.0.0.9"])
            assert await answer(port, GET, address="127.0.0.9") == b""
            assert (await answer(port, GET, address="127.0.0.8")).endswith(b"[1]")

    asyncio.run(scenario())


def test_in_ipv6_a_client_has_a_64_and_a_controller_its_own_address(tmp_path: Path) -> None:
    one = front.Front(tmp_path, controllers=["2001:db8:0:1::9"])
    assert one._client("2001:db8:0:1::1") == one._client("2001:db8:0:1:ffff::2%eth0") == "2001:db8:0:1::/64"
    assert one._client("2001:db8:0:2::1") == "2001:db8:0:2::/64"
    assert one._client("2001:0db8:0:1:0:0:0:9") == "2001:db8:0:1::9"
    assert one._client("::ffff:192.0.2.1") == one._client("192.0.2.1") == "192.0.2.1"


def test_all_connections_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "MOST", 1)

    async def scenario() -> None:
        async with serving(tmp_path) as port, contextlib.AsyncExitStack() as held:
            _reader, writer = await asyncio.open_connection("127.0.0.1", port)
            held.callback(writer.close)
            assert await answer(port, GET, address="127.0.0.9") == b""

    asyncio.run(scenario())


def test_a_place_that_was_given_back_can_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "MOST", 1)

    async def scenario() -> None:
        async with serving(tmp_path) as port:
            for _ in range(5):
                assert (await answer(port, GET)).endswith(b"[1]")

    asyncio.run(scenario())
