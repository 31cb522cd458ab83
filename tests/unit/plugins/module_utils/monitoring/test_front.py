from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import front, listening, requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

GET = b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(folder: Path, *, controllers: Sequence[str] = (), **seconds: Any) -> AsyncIterator[int]:
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


def sealed(status: str, *, at: int = 1) -> bytes:
    """A report with this status, made at a time."""
    text = collected.message(
        collected.DIAGNOSE, node_uuid="n1", timestamp_ns=at, data=f'{{"status": "{status}"}}', problem=None
    )
    return signing.sign(text, key=b"key", now=at).encode()


def publish(folder: Path, body: bytes) -> None:
    """Put a report into its place as the other process does: as a whole."""
    (folder / "node").mkdir(exist_ok=True)
    (folder / "node/new").write_bytes(body)
    (folder / "node/new").replace(folder / "node/diagnose")


def asked(body: bytes, *, seconds: int = 50) -> bytes:
    """The request of somebody who knows this report, and waits for another."""
    path = collected.waiting_path(collected.DIAGNOSE, known=collected.content_digest(body), seconds=seconds)
    return f"GET {path} HTTP/1.0\r\n\r\n".encode()


async def until_waiting(waits: front.Front, count: int) -> None:
    async with asyncio.timeout(60):
        while sum(waits._waiting.values()) != count:  # noqa: ASYNC110 - a front has no event for it
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def waited_for(folder: Path, *, controllers: Sequence[str] = ()) -> AsyncIterator[tuple[front.Front, int]]:
    ((_, listener),) = listening.sockets(["127.0.0.1"], 0, known={}).items()
    waits = front.Front(folder, controllers=controllers, look_seconds=0.01)
    server = await asyncio.start_server(waits.serve, sock=listener, limit=requests.HEAD_LIMIT)
    async with server:
        yield waits, listener.getsockname()[1]


def test_an_answer_waits_until_the_report_says_something_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        publish(tmp_path, sealed("Ok"))
        async with waited_for(tmp_path) as (waits, port):
            waiting = asyncio.create_task(answer(port, asked(sealed("Ok"))))
            await until_waiting(waits, 1)
            publish(tmp_path, sealed("Ok", at=2))
            await asyncio.sleep(0.1)
            assert not waiting.done(), "only its time is another"
            publish(tmp_path, sealed("evacuate", at=3))
            assert (await waiting).endswith(sealed("evacuate", at=3))
            await until_waiting(waits, 0)

    asyncio.run(scenario())


def test_a_report_that_says_something_else_already_or_a_time_that_is_over_is_answered_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        publish(tmp_path, sealed("evacuate"))
        async with waited_for(tmp_path) as (_, port):
            assert (await answer(port, asked(sealed("Ok")))).endswith(sealed("evacuate"))
            assert (await answer(port, asked(sealed("evacuate"), seconds=0))).endswith(sealed("evacuate"))
            unknown = b"GET /1/report/node/nothing?after=" + b"0" * 64 + b"&seconds=0 HTTP/1.0\r\n\r\n"
            assert (await answer(port, unknown)).startswith(b"HTTP/1.1 404 ")

    asyncio.run(scenario())


def test_waiters_are_bounded_and_leave_when_their_clients_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        publish(tmp_path, sealed("Ok"))
        async with waited_for(tmp_path) as (waits, port), contextlib.AsyncExitStack() as held:
            writers = []
            for _ in range(front.MOST_WAITING_OF_ONE):
                _reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(asked(sealed("Ok")))
                writers.append(writer)
                held.callback(writer.close)
            await until_waiting(waits, front.MOST_WAITING_OF_ONE)
            assert (await answer(port, asked(sealed("Ok")))).endswith(sealed("Ok")), "one more is answered at once"
            for number in range(front.MOST_WAITING // 2):
                for _ in range(2):
                    address = (f"127.0.1.{number + 1}", 0)
                    _reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=address)
                    writer.write(asked(sealed("Ok")))
                    held.callback(writer.close)
            await until_waiting(waits, front.MOST_WAITING)
            assert (await answer(port, asked(sealed("Ok")), address="127.0.2.1")).endswith(sealed("Ok"))
            for writer in writers:
                writer.close()
            await until_waiting(waits, front.MOST_WAITING - len(writers))

    asyncio.run(scenario())


def test_where_controllers_are_known_nobody_else_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        publish(tmp_path, sealed("Ok"))
        async with waited_for(tmp_path, controllers=["127.0.0.7"]) as (waits, port):
            assert (await answer(port, asked(sealed("Ok")))).endswith(sealed("Ok"))
            waiting = asyncio.create_task(answer(port, asked(sealed("Ok")), address="127.0.0.7"))
            await until_waiting(waits, 1)
            publish(tmp_path, sealed("evacuate"))
            assert (await waiting).endswith(sealed("evacuate"))

    asyncio.run(scenario())
