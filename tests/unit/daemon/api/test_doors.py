"""Who a request comes from is decided by its socket, and by what the kernel says of its peer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import app as apps
from ansible_collections.roundsman.cluster.daemon.api.asking import Door, Requesting
from ansible_collections.roundsman.cluster.daemon.serving import peer_sockets
from fastapi import FastAPI

from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LOCAL_ONLY = [
    ("POST", "/2/hold", {"owner": "x", "livelock": "x", "wants": {}}),
    ("POST", "/2/confirm-boots", {"owner": "x", "livelock": "x", "nodes": []}),
    ("POST", "/2/record", {"owner": "x", "livelock": "x", "changes": [{}]}),
    ("POST", "/2/adopt", {}),
    ("GET", "/2/config", None),
    ("PUT", "/2/config?force=1", {}),
    ("GET", "/2/config/history", None),
]


@pytest.mark.parametrize(("method", "path", "body"), LOCAL_ONLY)
def test_behind_the_remote_door_there_are_no_resources_of_plays_by_hand_and_of_the_whole_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    async def act(one: Reached) -> None:
        assert (await one.refused(method, path, body))[0] == 404
        answer = await one.client.request(method, path.replace("/2/", "//2/"), json=body)
        assert answer.status_code == 404

    reach(tmp_path, monkeypatch, act, is_local=True, door=Door.REMOTE)


def test_both_doors_serve_the_same_api_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[Door, set[str]] = {}

    async def act(one: Reached) -> None:
        for door in (Door.SOCKET, Door.REMOTE):
            found[door] = set(apps.make_app(one.running, door=door).openapi()["paths"])

    reach(tmp_path, monkeypatch, act, is_local=True)
    missing = found[Door.SOCKET] - found[Door.REMOTE]
    assert {path for path in missing if path.startswith("/2")} == {path.partition("?")[0] for _, path, _ in LOCAL_ONLY}
    assert found[Door.REMOTE] < found[Door.SOCKET]


def probe(door: Door) -> FastAPI:
    app = FastAPI()
    app.state.door = door

    @app.get("/")
    async def told(who: Requesting) -> dict[str, Any]:
        return {"door": who.door.value, "user": who.user, "uid": who.uid, "pid": who.pid, "root": who.is_root}

    return app


@contextlib.asynccontextmanager
async def serving(path: Path, door: Door) -> AsyncIterator[None]:
    server, listener = apps.socket_server(probe(door), door=door), peer_sockets.listening(path)
    # Only this test lets others in: uids are what it is about.
    await asyncio.to_thread(path.chmod, 0o666)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def answered(path: Path, request: bytes, *, uid: int) -> bytes:
    """What a process of a user gets for a request."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if uid != os.geteuid():
                os.setresuid(uid, uid, uid)
            with socket.socket(socket.AF_UNIX) as asked:
                asked.settimeout(60)
                asked.connect(str(path))
                asked.sendall(request)
                while data := asked.recv(65536):
                    os.write(writing, data)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:  # noqa: PTH123 - a descriptor
        answer = stream.read()
    os.waitpid(child, 0)
    return answer


def ask(folder: Path, *headers: str, door: Door, uid: int) -> dict[str, Any]:
    """What the daemon knows of the process of `uid` that sends these headers."""
    request = "\r\n".join(["GET / HTTP/1.1", "host: x", "connection: close", *headers, "", ""]).encode()

    async def act() -> bytes:
        path = folder / "probe.sock"
        async with serving(path, door):
            return await asyncio.to_thread(answered, path, request, uid=uid)

    head, _, body = asyncio.run(act()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    told: dict[str, Any] = json.loads(body)
    return told


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    # Every user may pass through the folders above it, and so reach the socket.
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if folder.stat().st_uid == os.geteuid() and str(folder).count("/") > 1:
            folder.chmod(folder.stat().st_mode | 0o011)
    return tmp_path


@pytest.mark.parametrize("door", [Door.SOCKET, Door.REMOTE])
def test_a_socket_refuses_more_than_it_may_keep(open_folder: Path, door: Door) -> None:
    """A body is refused before it is read, and the connection of one uid that is too many is closed at once."""
    path, most = open_folder / "probe.sock", apps.LIMITS[door].connections_of_one

    def connected(kept: contextlib.ExitStack) -> socket.socket:
        one = kept.enter_context(socket.socket(socket.AF_UNIX))
        # Without a time limit a connection waits for its place in the queue of the socket.
        one.connect(str(path))
        return one

    def is_full() -> bool:
        with contextlib.ExitStack() as kept:
            for _ in range(most):
                connected(kept)
            one = connected(kept)
            # It ends at once, unless the server keeps the connection or has yet to accept all those before it.
            one.settimeout(60)
            with contextlib.suppress(TimeoutError, ConnectionResetError):
                return one.recv(1) == b""
            return False

    def refused() -> bytes:
        announced = f"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {apps.LIMITS[door].body + 1}\r\n\r\n"
        with contextlib.ExitStack() as kept:
            one = connected(kept)
            one.settimeout(60)
            one.sendall(announced.encode() + b"{}")
            return one.recv(65536)

    async def act() -> tuple[bytes, bool]:
        async with serving(path, door):
            return await asyncio.to_thread(refused), await asyncio.to_thread(is_full)

    answer, is_closed = asyncio.run(act())
    assert answer.startswith(b"HTTP/1.1 413"), answer[:200]
    assert is_closed


FORGED = ("X-Roundsman-User: root", "X-Forwarded-For: 0", "Forwarded: for=0", "X-Real-IP: 0")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")
def test_the_kernel_says_who_asks_at_the_local_socket_whatever_the_headers_say(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    for headers in ((), FORGED):
        told = ask(open_folder, *headers, door=Door.SOCKET, uid=65534)
        assert (told["door"], told["user"], told["uid"], told["root"]) == ("socket", "nobody", 65534, False)
    assert ask(open_folder, door=Door.SOCKET, uid=54321)["user"] == "uid 54321"


def test_the_daemons_own_user_is_root_at_the_local_socket_only(open_folder: Path) -> None:
    own = os.geteuid()
    told = ask(open_folder, *FORGED, door=Door.SOCKET, uid=own)
    assert (told["uid"], told["root"]) == (own, True)
    assert told["pid"] not in {0, os.getpid()}
    for headers, user in (
        ((), "unknown"),
        (("X-Roundsman-User: ann",), "ann"),
        (("X-Roundsman-User: ann", "X-Roundsman-User: bob"), "unknown"),
        (("X-Roundsman-User: an\x1b]0;n",), "unknown"),
        (("X-Roundsman-User: " + "a" * 201,), "unknown"),
    ):
        told = ask(open_folder, *headers, door=Door.REMOTE, uid=own)
        assert (told["door"], told["user"], told["uid"], told["root"]) == ("remote", user, own, False)
