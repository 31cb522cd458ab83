"""Requests that wait end with their client, take no descriptors or threads, and are bounded for each user."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api import waiting
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.serving import bounded_serving
from fastapi import FastAPI

from tests.unit.daemon import twins
from tests.unit.daemon.api import reached

if TYPE_CHECKING:
    from pathlib import Path

WAITS = ("/2/jobs/7/log?seconds=60", "/2/jobs/7/wait?timeout=60", "/1/news?after=0&seconds=60")


class Client:
    """One connection to the application, which its test may close."""

    def __init__(self, app: Any, path: str, *, address: str = "") -> None:
        target, _, query = path.partition("?")
        self._scope = {"type": "http", "method": "GET", "path": target, "raw_path": target.encode(), "headers": []}
        self._scope |= {"query_string": query.encode(), "client": (address or str(os.geteuid()), os.getpid())}
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._messages.put_nowait({"type": "http.request", "body": b""})
        self._waits = asyncio.Event()
        self.status, self.headers = 0, list[tuple[bytes, bytes]]()
        self.served = asyncio.ensure_future(app(self._scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._messages.empty():
            self._waits.set()
        return await self._messages.get()

    async def _send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.headers += message.get("headers", ())

    async def until_it_waits(self) -> None:
        """Return once the application has read the request, and looks whether the client goes away."""
        await asyncio.wait_for(self._waits.wait(), twins.LIMIT)
        assert not self.served.done()

    async def close(self) -> None:
        """Go away, and see the request end."""
        self._messages.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(self.served, twins.LIMIT)


@pytest.mark.parametrize("path", WAITS)
def test_a_wait_ends_when_its_client_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    async def act(one: reached.Reached) -> None:
        await _run_job(one)
        app = apps.make_app(one.running, door=Door.SOCKET)
        one.running.news.number = 0
        client = Client(app, path)
        await client.until_it_waits()
        await client.close()

    reached.reach(tmp_path, monkeypatch, act, is_local=True, outcomes={"power": "held"})


def test_followers_take_no_descriptors_and_threads_and_one_too_many_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(one: reached.Reached) -> None:
        await _run_job(one)
        app = apps.make_app(one.running, door=Door.REMOTE)
        first = Client(app, WAITS[0])
        await first.until_it_waits()
        before = _used()
        clients = [first, *(Client(app, WAITS[0]) for _ in range(49))]
        await asyncio.gather(*(client.until_it_waits() for client in clients))
        # Fewer where what earlier tests have left ends in between.
        assert all(now <= then for now, then in zip(_used(), before, strict=True))
        further = Client(app, WAITS[0])
        await asyncio.wait_for(further.served, twins.LIMIT)
        assert further.status == 429
        await asyncio.gather(*(client.close() for client in clients))
        again = Client(app, WAITS[0])
        await again.until_it_waits()
        await again.close()

    reached.reach(tmp_path, monkeypatch, act, is_local=True, outcomes={"power": "held"})


def test_addresses_that_wait_leave_connections_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_PUBLIC", 60)

    async def act(one: reached.Reached) -> None:
        app = apps.make_app(one.running, door=Door.PUBLIC)
        one.running.news.number = 0
        clients = [Client(app, WAITS[2], address="192.0.2.1") for _ in range(50)]
        await asyncio.gather(*(client.until_it_waits() for client in clients))
        further = [Client(app, WAITS[2], address="192.0.2.1")]
        more = [Client(app, WAITS[2], address=f"2001:db8:0:{number}::1") for number in range(10)]
        await asyncio.gather(*(client.until_it_waits() for client in more))
        further.append(Client(app, WAITS[2], address="192.0.2.3"))
        for client in further:
            await asyncio.wait_for(client.served, twins.LIMIT)
            assert (client.status, dict(client.headers).get(b"connection")) == (429, b"close")
        await asyncio.gather(*(client.close() for client in (*clients, *more)))
        again = Client(app, WAITS[2], address="192.0.2.1")
        await again.until_it_waits()
        await again.close()

    reached.reach(tmp_path, monkeypatch, act, is_local=False)


def test_fewer_may_wait_than_there_are_connections() -> None:
    assert 0.6 * apps.LIMITS[Door.PUBLIC].connections >= waiting.MOST_PUBLIC
    assert 5 * waiting.MOST[Door.PUBLIC] < waiting.MOST_PUBLIC


def test_at_the_public_door_the_machine_itself_finds_a_place_whoever_has_the_others() -> None:
    gate = bounded_serving.Server(FastAPI(), limits=apps.LIMITS[Door.PUBLIC]).gate
    gate.keep_for(["127.0.0.1"])
    others = (f"192.0.2.{number}" for number in range(1, 255) for _ in range(100))
    assert sum(gate.admit(address) is not None for address in others) < apps.LIMITS[Door.PUBLIC].connections
    assert [gate.admit("127.0.0.1") is not None for _ in range(21)] == [*[True] * 20, False]


async def _run_job(one: reached.Reached) -> None:
    node = one.running.configuration.current.node("node2").uuid
    await one.running.queue.submit([twins.job(7, values.Opcode("power", {"node": node, "command": "status"}))])
    await twins.until_held(one.twin)


def _used() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208 - counted only
