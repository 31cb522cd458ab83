"""Everything that somebody who took over the remote API's process might try: prints what came of each attempt.

Usage: python3 break_out.py PID_OF_ROUNDSMAND (as roundsman-rapi, without the sandbox of its unit, which would help)
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PID = int(sys.argv[1])
RUN, LOG, LIB = Path("/run/roundsman"), Path("/var/log/roundsman"), Path("/var/lib/roundsman")
ETC, OWN = Path("/etc/roundsman"), Path("/var/log/roundsman-rapi")
PTRACE_ATTACH = 16
FOLDERS = (
    *(LOG, RUN, RUN / "livelocks", RUN / "socket", RUN / "rapi"),
    *(LIB, LIB / "queue", LIB / "spool", LIB / "tmp", LIB / ".ssh"),
    *(ETC, ETC / "os", ETC / "iallocators", ETC / "node-diagnose-commands", ETC / "node-repair-commands"),
)
SECRETS = (
    *(LIB / "hmac.key", LIB / "config.data", LIB / ".ssh/id_ed25519", ETC / "bmc.json"),
    *(LOG / "audit.log", LOG / "roundsmand.log", Path(f"/proc/{PID}/environ"), Path(f"/proc/{PID}/mem")),
)
HEADERS = {"no": {}, "forged": {"X-Roundsman-User": "root", "X-Forwarded-For": "0", "Forwarded": "for=0"}}
ABSENT = (
    *("POST /2/hold", "POST /2/record", "POST /2/adopt"),
    *("GET /2/config", "PUT /2/config?force=1", "GET /2/config/history"),
    *("GET /2/%63onfig", "GET //2/config", "GET /2/./config", "GET http://localhost/2/config"),
    *("GET /1/page", "GET /ui"),
)
found: dict[str, str] = {}


class Asked(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=60)
        self._path = str(path)

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def attempt(name: str, act: Callable[..., object], *arguments: object) -> None:
    """Note what an act returns, or the class of the error that it raises."""
    try:
        found[name] = str(act(*arguments))
    except OSError as error:
        found[name] = type(error).__name__


def ask(request: str, headers: dict[str, str], body: object = None) -> int:
    """The status of an answer at the remote API's own socket."""
    method, _, path = request.partition(" ")
    connection = Asked(RUN / "rapi/roundsmand.sock")
    connection.request(method, path, json.dumps(body or {}), {"Content-Type": "application/json", **headers})
    return connection.getresponse().status


def trace() -> None:
    """Become the daemon's debugger."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, PID, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def sudo() -> None:
    """Run a command as the daemon's user."""
    if subprocess.run(["sudo", "-n", "-u", "roundsman", "true"], capture_output=True, check=False).returncode:
        raise PermissionError


attempt("connect to the local socket", Asked(RUN / "socket/roundsmand.sock").connect)
attempt("use the own socket", ask, "GET /2/nodes", {})
(OWN / "x.yml").write_text("[]")
for kind, headers in HEADERS.items():
    for request in ABSENT:
        attempt(f"{request}, {kind} headers", ask, request, headers)
    for playbook in (OWN / "x.yml", ETC / "os/../../../var/log/roundsman-rapi/x.yml"):
        new = {"name": "web1", "disk_template": "diskless", "os_playbook": str(playbook)}
        attempt(f"os_playbook {playbook}, {kind} headers", ask, "POST /2/instances", headers, new)
for folder in FOLDERS:
    attempt(f"write into {folder}", (folder / "x.yml").write_text, "[]")
    attempt(f"make a link in {folder}", (folder / "victim").symlink_to, "/tmp/victim")
for secret in SECRETS:
    attempt(f"read {secret}", secret.read_bytes)
for log in ("roundsmand.log", "audit.log"):
    attempt(f"rename {log}", (LOG / log).rename, OWN / "old")
attempt("remove the own socket", (RUN / "rapi/roundsmand.sock").unlink)
for folder in (LIB / "queue", LOG, Path(f"/proc/{PID}/fd")):
    attempt(f"list {folder}", os.listdir, folder)
attempt("trace the daemon", trace)
for number in (0, signal.SIGTERM, signal.SIGKILL):
    attempt(f"send signal {int(number)} to the daemon", os.kill, PID, number)
attempt("become the daemon's user", lambda: os.setuid(os.stat(LIB).st_uid))
attempt("become the administrators' group", lambda: os.setgid(os.stat(LIB / "spool").st_gid))
attempt("use sudo", sudo)
print(json.dumps(found))
