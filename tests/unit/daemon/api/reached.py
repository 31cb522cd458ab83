"""A service on a lab's folder, reached as over the network or through the socket, without either."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree


class Reached:
    """What a test asks of the daemon."""

    def __init__(self, running: service.Service, twin: twins.Processes, client: httpx.AsyncClient) -> None:
        self.running = running
        self.twin = twin
        self.client = client

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.client.request(method, path, json=body)

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the sentence of an answer that must be an error in the one form."""
        answer = await self.ask(method, path, body)
        assert answer.headers["content-type"] == "application/problem+json"
        told = answer.json()
        assert set(told) == {"title", "status", "detail", "code", "message", "explain"}
        assert told["status"] == told["code"] == answer.status_code >= 400
        assert told["detail"] == told["explain"] != ""
        return answer.status_code, told["detail"]


def reach(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Reached], Awaitable[None]],
    *,
    is_local: bool,
    door: Door | None = None,
    uid: int | None = None,
    outcomes: dict[str, str] | None = None,
    pairs: Sequence[tuple[str, str]] = (("node2", "node3"),),
) -> None:
    """Assemble a service on a new lab, and act on it; as the user who runs the tests, or as `uid`."""
    chosen = door or (Door.SOCKET if is_local else Door.PUBLIC)
    peer = (str(os.geteuid() if uid is None else uid), os.getpid())

    async def scenario() -> None:
        lab = twins.lab(folder, pairs=pairs)
        running, twin = twins.assemble(lab, monkeypatch, outcomes=outcomes)
        transport = httpx.ASGITransport(app=apps.make_app(running, door=chosen), client=peer)
        async with httpx.AsyncClient(transport=transport, base_url="http://daemon") as client:
            await act(Reached(running, twin, client))
        await running.queue.stop()

    asyncio.run(scenario())


def wrong_rows(
    folder: Path, rows: Sequence[Any], check: Callable[..., Awaitable[None]], **options: Any
) -> dict[str, AssertionError]:
    """What is wrong with which rows of a table: all are checked on one service, as none of them changes anything."""
    found: dict[str, AssertionError] = {}

    async def act(one: Reached) -> None:
        for row in rows:
            try:
                await check(one, *row)
            except AssertionError as error:
                found[repr(row)] = error

    with pytest.MonkeyPatch.context() as patch:
        reach(folder, patch, act, is_local=True, **options)
    return found


async def makes_no_job(one: Reached, asked: tuple[str, str, Any], status: int, told: str) -> None:
    """Ask for what is refused, with a text that begins as `told`."""
    found = await one.refused(*asked)
    assert (found[0], found[1][: len(told)]) == (status, told)
    assert (await one.ask("GET", "/2/jobs")).json() == []


def is_right(row: Sequence[Any], wrong: dict[str, AssertionError]) -> None:
    """Fail with what is wrong with a row, if anything is."""
    if repr(row) in wrong:
        raise wrong[repr(row)]


@contextlib.contextmanager
def livelock(where: tree.Tree, name: str) -> Iterator[None]:
    """Hold a livelock as a play by hand does."""
    where.livelocks.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(where.livelocks / name, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)
