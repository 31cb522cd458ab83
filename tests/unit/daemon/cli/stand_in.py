"""A daemon's stand-in: a real HTTP server on a real unix socket, with answers that a test sets."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socketserver
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class StandIn(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """`answers` are bodies by method and path, a list gives one after the other.

    `requests` and `queries` are what was asked.
    """

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        self.answers: dict[tuple[str, str], bytes | list[bytes]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[str] = []
        self.first_look = threading.Event()
        self._path, self.config = tree.Tree(root).socket, tree.Tree(root).config
        self._path.parent.mkdir(parents=True)
        super().__init__(str(self._path), _Handler)

    def server_bind(self) -> None:
        folder = os.open(self._path.parent, os.O_PATH)
        try:
            self.socket.bind(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)

    def put(self, method: str, path: str, value: Any) -> None:
        """Set the answer to one request; a list of values in a tuple is given one after the other."""
        bodies = [json.dumps(one).encode() for one in value] if isinstance(value, tuple) else None
        self.answers[method, path] = json.dumps(value).encode() if bodies is None else bodies

    def asked(self, method: str) -> list[tuple[str, Any]]:
        """The paths and bodies of all requests with this method."""
        return [(path, body) for kind, path, body in self.requests if kind == method]


@contextlib.contextmanager
def serve(root: Path) -> Iterator[StandIn]:
    """Serve below a root until the block ends."""
    with StandIn(root) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    server: StandIn

    def address_string(self) -> str:
        return "local"

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        # As the daemon does it: the path is decoded before it is looked at.
        path = unquote(urlsplit(self.path).path)
        self.server.queries.append(urlsplit(self.path).query)
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append((self.command, path, body))
        if self.command == "GET":
            self.server.first_look.set()
        found = self.server.answers.get((self.command, path))
        if found is None and (self.command, path) == ("GET", "/2/config") and self.server.config.exists():
            found = self.server.config.read_bytes()
        if found is None and (self.command, path) == ("GET", "/1/nodes"):
            found = b"[]"
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        status, kind = (200, "application/json") if found is not None else (404, "application/problem+json")
        if found is None:
            found = json.dumps({"status": 404, "detail": f"there is nothing\nat {path}"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(found)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names that http.server looks for
