"""Ganeti's own client library, as Debian packages it, against a lab."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import os
import ssl
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import unix_sockets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import labs

PYTHON = "/usr/bin/python3"
SESSION = Path(__file__).with_name("ganeti_session.py")
UNPACKED = os.environ.get("GANETI_CLIENT", "")
"""Where the packages were unpacked, for who may not install them."""


def _environment() -> dict[str, str]:
    if not UNPACKED:
        return dict(os.environ)
    packages = f"{UNPACKED}/usr/lib/python3/dist-packages"
    libraries = ":".join(str(one) for one in Path(UNPACKED, "usr/lib").glob("*-linux-gnu"))
    return {**os.environ, "PYTHONPATH": packages, "LD_LIBRARY_PATH": libraries}


def _is_there() -> bool:
    probe = [PYTHON, "-c", "import pycurl, ganeti.rapi.client"]
    if not Path(PYTHON).exists():
        return False
    return subprocess.run(probe, env=_environment(), capture_output=True, check=False).returncode == 0


@pytest.fixture
def client_library() -> None:
    """Ganeti's client; where CI runs it must be there."""
    if _is_there():
        return
    text = "GANETI'S CLIENT IS NOT TESTED: apt-get install python3-ganeti-rapi, or name its folder as GANETI_CLIENT"
    if os.environ.get("CI") == "true":
        pytest.fail(text)
    pytest.skip(text)


@contextlib.contextmanager
def served_by_tls(one: labs.Running, folder: Path) -> Iterator[int]:
    """The daemon's socket behind TLS on loopback, which is all that Ganeti's client speaks; gives the port."""
    pair = folder / "server.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=lab"]
    subprocess.run([*command, "-keyout", pair, "-out", folder / "crt"], check=True, capture_output=True)
    pair.write_bytes(pair.read_bytes() + (folder / "crt").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    carrier = _Carrier(one.where.socket, context)
    thread = threading.Thread(target=lambda: asyncio.run(carrier.serve()))
    thread.start()
    try:
        yield carrier.port.result(timeout=20)
    finally:
        carrier.stop()
        thread.join()


class _Carrier:
    """Carries bytes between TLS and the socket."""

    def __init__(self, path: Path, context: ssl.SSLContext) -> None:
        self.port: concurrent.futures.Future[int] = concurrent.futures.Future()
        self._path, self._context = path, context
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    async def serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0, ssl=self._context)
        self.port.set_result(server.sockets[0].getsockname()[1])
        await self._over.wait()
        server.close()

    def stop(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._over.set)

    async def _carry(self, outer: asyncio.StreamReader, outer_out: asyncio.StreamWriter) -> None:
        with unix_sockets.short_name(self._path) as name:
            inner, inner_out = await asyncio.open_unix_connection(name)
        await asyncio.wait(
            [asyncio.ensure_future(_copy(outer, inner_out)), asyncio.ensure_future(_copy(inner, outer_out))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        inner_out.close()
        outer_out.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()


@pytest.mark.usefixtures("client_library")
def test_ganetis_own_client_lists_drains_tags_evacuates_and_waits(
    lab: Callable[..., labs.Running], tmp_path: Path
) -> None:
    one = lab(nodes=4, pairs=(("node2", "node3"), ("node3", "node2")))
    with served_by_tls(one, tmp_path) as port:
        done = subprocess.run(
            [PYTHON, str(SESSION), str(port), "node2"],
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
    assert done.returncode == 0, done.stderr + one.told()
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["version"], told["nodes"]) == (2, ["node1", "node2", "node3", "node4"])
    assert (told["bulk"]["node1"], told["role"]) == ("M", "drained")
    assert told["drained"]["status"] == told["tagged"] == told["untagged"] == "success"
    assert told["drained"]["ops"][0]["reason"][0][:2] == ["gnt:user", "a disk is dying"]
    assert told["tags"] == ["sdb"]
    assert told["absent"] == [["OpExecError", ["Tag(s) 'nosuch' not found"]]]
    assert told["before"]
    assert set(told["moves"]) == {"success"}, one.get("/1/jobs")[-1]
    assert told["after"] == []
    assert len(told["moves"]) == len(told["evacuation"][0]["jobs"]) == len(told["before"])
    assert (told["tried"][0]["jobs"], len(told["tried"][0]["planned"])) == ([], len(told["moves"]))
    assert told["query"]["data"] == [[[0, "node2"], [0, True]]]
    assert told["canceled"][0] is False
    assert told["filter"] == "PAUSE"
    assert told["error"] == [404, "404 Not Found: there is no node 'nosuch'"]
    node = one.cluster().node("node2")
    assert (node.tags, one.cluster().primaries(node.uuid)) == (("sdb",), [])
    assert one.wrong() == []
