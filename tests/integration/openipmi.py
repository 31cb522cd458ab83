"""OpenIPMI's BMC simulator `ipmi_sim`, which nobody here wrote: one process and one loopback address for each BMC."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADDRESS = "127.0.77.1"
USERNAME, PASSWORD = "admin", "s3cret"
# A presence ping (ASF 2.0, 3.2.4.2): the simulator serves as soon as it answers one.
PING = bytes.fromhex("0600ff06000011be80000000")
CHASSIS = """#!/bin/sh
# Called as: address of the controller, `get` or `set`, then names, each with its value for `set`.
shift
case $1 in
get) echo "power:$(cat {state})" ;;
set) echo "$3" >{state} ;;
esac
"""
LAN = """name "bmc"
set_working_mc 0x20
  startlan 1
    addr {address} {port}
    priv_limit admin
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{script} 0x20"
  user 2 true "{username}" "{password}" admin 10 none md2 md5 straight
"""
CONTROLLER = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""


class Bmc:
    """One BMC of OpenIPMI; `power` reads and writes what its chassis is."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self._state = folder / "power"

    @property
    def is_on(self) -> bool:
        """Whether the chassis is on."""
        return self._state.read_text().strip() == "1"


@contextlib.contextmanager
def running(folder: Path, *, program: str) -> Iterator[Bmc]:
    """A BMC whose node is on; `program` is the path of `ipmi_sim`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((ADDRESS, 0))
        port = probe.getsockname()[1]
    state, script = folder / "power", folder / "chassis"
    state.write_text("1\n")
    script.write_text(CHASSIS.format(state=state))
    script.chmod(0o755)
    login = {"username": USERNAME, "password": PASSWORD}
    (folder / "lan").write_text(LAN.format(address=ADDRESS, port=port, script=script, **login))
    (folder / "controller").write_text(CONTROLLER)
    command = [program, "-n", "-c", str(folder / "lan"), "-f", str(folder / "controller"), "-s", str(folder)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _await_pong(port)
            yield Bmc(folder, port)
        finally:
            process.terminate()


def _await_pong(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.1)
        for _ in range(200):
            with contextlib.suppress(OSError):
                asker.sendto(PING, (ADDRESS, port))
                asker.recv(100)
                return
    raise AssertionError("ipmi_sim does not answer")
