"""The process `roundsman-rapi` over TLS on loopback, and a stand-in for the daemon on a real unix socket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from ansible_collections.roundsman.cluster.daemon.lab import processes
from ansible_collections.roundsman.cluster.daemon.remote import users
from ansible_collections.roundsman.cluster.daemon.serving import peer_sockets
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "ansible_collections.roundsman.cluster.daemon.remote"
PASSWORDS = {"rita": "reads: ümläut", "wim": "writes: all"}


class Quiet(uvicorn.Server):
    """A server in a thread that leaves signals alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class StandIn:
    """Answers on the daemon's socket, and keeps what it was asked."""

    where: tree.Tree
    asked: list[dict[str, Any]] = field(default_factory=list)
    waits: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    changed: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        target = scope["raw_path"].decode()
        query = scope["query_string"].decode()
        self.asked.append(
            {"method": scope["method"], "target": target, "query": query, "headers": headers, "body": body}
        )
        if target.endswith("/wait"):
            self.waits.set()
            if query == "forever":
                await receive()
                self.left.set()
                return
            await asyncio.to_thread(self.changed.wait, 60)
        own = [(b"content-type", b"application/json"), (b"x-own", b"kept"), (b"connection", b"x-hop"), (b"x-hop", b"1")]
        status = 423 if target == "/2/locked" else 200
        await send({"type": "http.response.start", "status": status, "headers": own})
        await send({"type": "http.response.body", "body": b'{"number": ', "more_body": True})
        await send({"type": "http.response.body", "body": str(len(self.asked)).encode() + b"}"})

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Serve at the socket; afterwards its folder is gone, as after the end of a unit."""
        listener = peer_sockets.listening(self.where.rapi_socket)
        server = Quiet(uvicorn.Config(self, lifespan="off", log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield
        finally:
            server.should_exit = True
            thread.join()
            shutil.rmtree(self.where.rapi_socket.parent)


@dataclass
class Front:
    """The running process."""

    where: tree.Tree
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def client(self, user: str = "", *, password: str | None = None, source: str = "127.0.0.1") -> httpx.Client:
        """A client of the front, who trusts its certificate and comes from an address of loopback."""
        trusted = ssl.create_default_context(cafile=str(self.where.rapi_certificate))
        given = PASSWORDS.get(user, "") if password is None else password
        transport = httpx.HTTPTransport(verify=trusted, local_address=source)
        return httpx.Client(
            transport=transport,
            base_url=f"https://127.0.0.1:{self.port}",
            headers={"authorization": basic(user, given)} if user else {},
            timeout=60,
        )

    def descriptors(self) -> int:
        """How many the process has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def memory(self) -> int:
        """Bytes of memory that the process had at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        found = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(found.split()[1]) * 1024


def basic(user: str, password: str) -> str:
    """The header of basic authentication, in UTF-8."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def prepared(root: Path) -> tree.Tree:
    """A root with a certificate and two users: rita reads, wim writes."""
    where = tree.Tree(root)
    where.lib.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", MODULE, "--root", str(root), "--make-certificate"], check=True)
    for name, access in (("rita", users.Access.READ), ("wim", users.Access.WRITE)):
        users.add(where.rapi_users, name, password=PASSWORDS[name], access=access)
    return where


@contextlib.contextmanager
def front(where: tree.Tree, *options: str) -> Iterator[Front]:
    """Start the process and wait until it serves."""
    port, log = processes.free_port(), where.root / "rapi.log"
    reading, writing = os.pipe()
    command = [sys.executable, "-m", MODULE, "--root", str(where.root), "--bind", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--log-file", str(log), "--ready-fd", str(writing), *options],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with open(reading, "rb") as ready:  # noqa: PTH123 - a descriptor
            assert ready.readline() == b"ready\n", log.read_text()
        yield Front(where, port, process, log)
    finally:
        process.terminate()
        assert process.wait(timeout=60) == 0, log.read_text()


def problem(answer: httpx.Response) -> dict[str, Any]:
    """The members of an error, of which each has to be there."""
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = json.loads(answer.content)
    assert told["status"] == told["code"] == answer.status_code
    assert (told["title"], told["detail"]) == (told["message"], told["explain"])
    return told
