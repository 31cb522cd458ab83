"""The Redfish emulator of OpenStack's sushy-tools, which nobody here wrote, over TLS: one system, and one user."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import socket
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.remote import certificate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

ADDRESS = "127.0.78.1"
USERNAME, PASSWORD = "admin", "s3cret"
# PASSWORD by bcrypt, as htpasswd writes it, with the fewest rounds: each request is checked anew.
USERS = f"{USERNAME}:$2b$04$fX/FztdOlOfEM3Pgdvfrrusvv51HeqFlhpe533zhkvfxVtF00WNJK\n"
# Its power would take 1 to 11 s to change, by chance.
PROGRAM = """import random, sys
random.randint = lambda low, high: 2
from sushy_tools.emulator.main import main
sys.exit(main())
"""
CONFIG = """
SUSHY_EMULATOR_LISTEN_IP = "{address}"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_SSL_CERT = SUSHY_EMULATOR_SSL_KEY = "{certificate}"
SUSHY_EMULATOR_AUTH_FILE = "{folder}/users"
SUSHY_EMULATOR_STATE_DIR = "{folder}"
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_FAKE_SYSTEMS = [{{
    "uuid": "da69abcc-dae0-4913-9a7b-d344043097c0", "name": "node1", "power_state": "{power}",
    "nics": [{{"mac": "00:5c:52:31:3a:9c", "ip": "192.0.2.1"}}],
}}]
"""


@dataclass(frozen=True)
class Bmc:
    """The emulator's port, its certificate's file and its fingerprint."""

    port: int
    certificate: Path
    fingerprint: str


@contextlib.contextmanager
def running(folder: Path, *, power: str = "On") -> Iterator[Bmc]:
    """A BMC whose system is `On` or `Off`."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port = probe.getsockname()[1]
    own = folder / "certificate.pem"
    certificate.make(own, names=[ADDRESS], now=dt.datetime.now(dt.timezone.utc))
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(_certificate_of(own))).hexdigest()
    (folder / "users").write_text(USERS)
    (folder / "config").write_text(
        CONFIG.format(address=ADDRESS, port=port, certificate=own, folder=folder, power=power)
    )
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--config", folder / "config"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said = _Said(process.stderr)
        try:
            assert said.serves(), "sushy-emulator does not serve:\n" + "".join(said.lines)
            yield Bmc(port, own, fingerprint)
        finally:
            process.terminate()
            said.join()


def _certificate_of(path: Path) -> str:
    """The certificate of a file that holds the key before it."""
    head = "-----BEGIN CERTIFICATE-----"
    return head + path.read_text().partition(head)[2]


class _Said(threading.Thread):
    """Reads what the emulator says, to its end, and notices when it serves."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream, self._ready = stream, threading.Event()
        self._serves = False
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        for line in self._stream:
            self.lines.append(line.decode())
            if b"Running on" in line:
                self._serves = True
                self._ready.set()
        self._ready.set()

    def serves(self) -> bool:
        """Whether it serves, once it does or has ended."""
        return self._ready.wait(60.0) and self._serves
