"""A small Redfish service for tests, over TLS: documents by path, one system, sessions, and what is wrong with them."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.server
import json
import os
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.remote import certificate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS = "127.0.79.1"
ROOT, SYSTEM, MANAGER = "/redfish/v1/", "/redfish/v1/Systems/1", "/redfish/v1/Managers/1"
SESSIONS = "/redfish/v1/SessionService/Sessions"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
OFFERED = "ResetType@Redfish.AllowableValues"


MOST_FLOODED = 96 * 2**20


class Service:
    """What the BMC knows; `wrong` holds a status and a body by path, `resets` what it was asked for.

    Answers at the paths in `endless` do not end, and `flooded` counts what was taken of them, MOST_FLOODED at most;
    `headers` are those of every document. What comes by a method or to
    the reset's path in `mute` is carried out and not answered.
    """

    def __init__(self) -> None:
        self.port = 0
        self.resets: list[str] = []
        self.sessions: set[str] = set()
        self.opened = 0
        self.wrong: dict[str, tuple[int, bytes]] = {}
        self.follows = True
        self.mute: set[str] = set()
        self.headers: dict[str, str] = {}
        self.endless: set[str] = set()
        self.flooded = 0
        self.system: dict[str, Any] = {
            "PowerState": "On",
            "Status": {"Health": "OK"},
            "Manufacturer": "Acme",
            "Model": "A1",
            "Actions": {"#ComputerSystem.Reset": {"target": RESET, OFFERED: ["On", "ForceOff", "ForceRestart"]}},
            "Links": {"ManagedBy": [{"@odata.id": MANAGER}]},
        }
        self.documents: dict[str, Any] = {
            ROOT: {
                "Systems": {"@odata.id": "/redfish/v1/Systems"},
                "Managers": {"@odata.id": "/redfish/v1/Managers"},
                "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
            },
            "/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}]},
            "/redfish/v1/Managers": {"Members": [{"@odata.id": MANAGER}]},
            SYSTEM: self.system,
            MANAGER: {"FirmwareVersion": "2.71"},
        }

    def reset(self, kind: str) -> None:
        """Take a reset, and follow it unless the node does not."""
        self.resets.append(kind)
        if self.follows:
            self.system["PowerState"] = "Off" if kind in {"ForceOff", "GracefulShutdown"} else "On"

    @property
    def offered(self) -> list[str]:
        """The resets that the BMC says it has; they can be changed in place."""
        words: list[str] = self.system["Actions"]["#ComputerSystem.Reset"][OFFERED]
        return words


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Service]:
    """A service with a certificate of its own."""
    service = Service()
    path = folder / "certificate.pem"
    certificate.make(path, names=[ADDRESS], now=dt.datetime.now(dt.timezone.utc))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    handler = type("Handler", (_Handler,), {"service": service})
    with http.server.ThreadingHTTPServer((ADDRESS, 0), handler) as server, pytest.MonkeyPatch.context() as here:
        # pyghmi reads all authorities that a machine knows for each connection: much of a second, for nothing.
        here.setenv("SSL_CERT_FILE", os.devnull)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    service: Service

    def do_GET(self) -> None:
        if self.path in self.service.endless:
            self._flood()
            return
        document = self.service.documents.get(self.path)
        self._answer(200 if document is not None else 404, document if document is not None else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == SESSIONS and SESSIONS not in self.service.wrong:
            self.service.opened += 1
            own = f"{SESSIONS}/{self.service.opened}"
            self.service.sessions.add(own)
            self._answer(201, {}, {"X-Auth-Token": f"token{self.service.opened}", "Location": own})
            return
        if self.path == RESET and RESET not in self.service.wrong:
            self.service.reset(body["ResetType"])
            if RESET in self.service.mute:
                self.close_connection = True
                return
        self._answer(204, None)

    def do_DELETE(self) -> None:
        self.service.sessions.discard(self.path)
        if "DELETE" in self.service.mute:
            self.close_connection = True
            return
        self._answer(204, None)

    def _flood(self) -> None:
        self.send_response(200)
        self.end_headers()
        part = b'["x"],' * 10_000
        with contextlib.suppress(OSError):
            self.wfile.write(b'{"PowerState": "Off", "x": [')
            while self.service.flooded < MOST_FLOODED:
                self.wfile.write(part)
                self.service.flooded += len(part)

    def _answer(self, status: int, document: Any, headers: dict[str, str] | None = None) -> None:
        status, body = self.service.wrong.get(
            self.path, (status, b"" if document is None else json.dumps(document).encode())
        )
        self.send_response(status)
        for name, value in {**(headers or {}), **self.service.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing."""
