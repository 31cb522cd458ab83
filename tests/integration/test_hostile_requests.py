"""Schemathesis asks all that it can think of at both sockets, and through the front over TLS as each kind of user."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import hypothesis
import pytest
import schemathesis
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door
from ansible_collections.roundsman.cluster.daemon.serving import peer_sockets
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import permissions

from tests import thoroughness
from tests.unit.daemon import twins

from . import fronts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.roundsman.cluster.daemon import service

pytestmark = pytest.mark.thorough
SECONDS = 60
MOST_MEMORY = 256 * 2**20
EVERYWHERE = {"/1/news"}
"""News are awaited as long as the one who asks for them likes."""


@dataclass(frozen=True)
class World:
    """A service that both of its sockets serve, and the front before one of them."""

    running: service.Service
    front: fronts.Front

    def state(self) -> tuple[int, frozenset[int]]:
        """What nobody changes who only reads."""
        return self.running.configuration.current.serial_no, frozenset(self.running.queue.jobs)


def _documented(door: Door) -> dict[str, Any]:
    absent: Any = types.SimpleNamespace(where=tree.Tree(Path("/nowhere")), read_only=lambda: "")
    return apps.make_app(absent, door=door).openapi()


@contextlib.contextmanager
def _served(running: service.Service) -> Iterator[None]:
    """The two sockets, in a thread."""
    own = {Door.SOCKET: running.where.socket, Door.REMOTE: running.where.rapi_socket}
    ready = threading.Event()
    servers = [apps.socket_server(apps.make_app(running, door=door), door=door) for door in own]

    async def serve() -> None:
        listeners = [peer_sockets.listening(path) for path in own.values()]
        ready.set()
        await asyncio.gather(*(one.serve(sockets=[it]) for one, it in zip(servers, listeners, strict=True)))
        await running.queue.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield
    finally:
        for one in servers:
            one.should_exit = True
        thread.join(SECONDS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        running, _ = twins.assemble(twins.lab(tmp_path_factory.mktemp("hostile"), pairs=[("node2", "node3")]), patch)
        where = fronts.prepared(running.where.root)
        with _served(running), fronts.front(where) as front:
            yield World(running, front)


def _ask_all(door: Door, client: httpx.Client, *, examples: int, judge: Callable[[httpx.Response], None]) -> int:
    """Ask for all operations behind a door; returns how many requests that were."""
    document, count = _documented(door), 0
    schema = schemathesis.openapi.from_dict(document)

    def ask(case: schemathesis.Case[Any]) -> None:
        nonlocal count
        request = case.as_transport_kwargs(base_url=str(client.base_url))
        known = {name: request[name] for name in ("headers", "params", "json", "cookies") if request.get(name)}
        with contextlib.suppress(httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError):
            answer = client.request(request["method"], request["url"], content=request.get("data"), **known)
            count += 1
            assert answer.status_code < 500, f"{request['method']} {request['url']} {known}: {answer.text}"
            judge(answer)

    settings = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    for path, methods in document["paths"].items():
        for method in set(methods) if path not in EVERYWHERE else ():

            @settings
            @hypothesis.given(case=schema[path][method].as_strategy())
            def each(case: schemathesis.Case[Any]) -> None:
                ask(case)

            each()
    return count


def test_who_may_only_read_breaks_nothing_over_tls_and_changes_nothing(world: World) -> None:
    before = world.state()

    def judge(answer: httpx.Response) -> None:
        path = answer.request.url.path
        if not permissions.is_reading(answer.request.method, path):
            assert answer.status_code in {400, 403, 404, 405}, (answer.request.method, path)

    with world.front.client("rita") as client:
        assert _ask_all(Door.REMOTE, client, examples=2 * thoroughness.FACTOR, judge=judge) > 50
    assert world.state() == before
    assert world.front.memory() < MOST_MEMORY


def test_who_may_write_breaks_nothing_over_tls(world: World) -> None:
    with world.front.client("wim") as client:
        assert _ask_all(Door.REMOTE, client, examples=2 * thoroughness.FACTOR, judge=lambda _: None) > 50
        assert client.get("/2/info").status_code == 200
    assert world.front.memory() < MOST_MEMORY


@pytest.mark.parametrize("door", [Door.SOCKET, Door.REMOTE])
def test_nothing_breaks_at_the_sockets(world: World, door: Door) -> None:
    path = world.running.where.socket if door is Door.SOCKET else world.running.where.rapi_socket
    transport = httpx.HTTPTransport(uds=str(path))
    headers = {"X-Roundsman-User": "wim"} if door is Door.REMOTE else {}
    with httpx.Client(transport=transport, base_url="http://daemon", headers=headers, timeout=SECONDS) as client:
        assert _ask_all(door, client, examples=2 * thoroughness.FACTOR, judge=lambda _: None) > 50
        assert client.get("/2/info").status_code == 200
    assert world.running.configuration.current.nodes
