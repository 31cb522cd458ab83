# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The connection plugin of lab nodes: a local process below the node's root, while it has power and a link."""

from __future__ import annotations

DOCUMENTATION = r"""
name: lab_node
short_description: Connect to a simulated node of a lab
version_added: 0.1.0
description:
  - Runs commands on this machine with the root of a lab node, which the modules find in their environment, and with
    the lab's simulated drivers.
  - Refuses to connect when the node's power is off or its link is cut, after it has tried three times.
  - Loses the connection, and the answer with it, when that happens while a command is at work.
  - Lets each command hang, its answer come late or be garbage for as long as the node is made to.
options:
  lab_root:
    description: The folder of the lab node.
    required: true
    vars:
      - name: roundsman_lab_root
author:
  - The Roundsman founders (@roundsman)
"""

import contextlib
import shlex
import time
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

from ...daemon.lab.simulator import fake, simulated_node
from ..plugin_utils import connection_tries

GARBAGE = b"\x00\xff\x1b[2J<<< bus error, core dumped >>>\n"
PAUSE = 0.1
CONTACTS = "lab/contacts"
"""Below the node's root: a line for each connection that was tried, whether the node answers or not."""


class Connection(LocalConnection):  # type: ignore[misc]  # Ansible ships no types
    """A simulated node: it is reached for as long as its `wire` is there."""

    transport = "roundsman.cluster.lab_node"
    has_pipelining = True

    def _connect(self) -> Connection:
        with contextlib.suppress(OSError), (Path(self._root()) / CONTACTS).open("a") as contacts:
            contacts.write("connect\n")
        self._refuse_when_silent()
        super()._connect()
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:  # noqa: FBT001, FBT002 - the signature of Ansible
        self._refuse_when_silent()
        boot = simulated_node.boot_id(self._path())
        hangs = f"while [ -e {shlex.quote(f'{self._root()}/{simulated_node.HANGS}')} ]; do sleep 0.2; done"
        given = simulated_node.environment(self._path()).items()
        command = f"{hangs}; export {' '.join(f'{name}={shlex.quote(text)}' for name, text in given)}; {cmd}"
        code, output, complaint = super().exec_command(command, in_data=in_data, sudoable=sudoable)
        self._delay()
        if not self._answers() or simulated_node.boot_id(self._path()) != boot:
            raise AnsibleConnectionFailure(
                f"lab node {self._path().name}: the connection was lost while a command was at work"
            )
        return code, self._garbled(output), complaint

    def _root(self) -> str:
        return str(self.get_option("lab_root"))

    def _path(self) -> Path:
        return Path(self._root())

    def _answers(self) -> bool:
        fake.come_up(self._path())
        return (self._path() / "wire").exists()

    def _refuse_when_silent(self) -> None:
        if not connection_tries.answers(self._answers):
            raise AnsibleConnectionFailure(
                f"lab node {self._path().name} does not answer in {connection_tries.TRIES} tries: "
                "no power, or its link is cut"
            )

    def _delay(self) -> None:
        """Hold an answer back until its time has come, or the fault is gone."""
        began = time.monotonic()
        while time.monotonic() - began < float(simulated_node.fault(self._path(), simulated_node.LATE) or 0):
            time.sleep(PAUSE)

    def _garbled(self, output: bytes) -> bytes:
        how = simulated_node.fault(self._path(), simulated_node.GARBAGE)
        if how == "before":
            return GARBAGE + output
        if how == "instead":
            return GARBAGE
        return output[: len(output) // 2] if how == "cut" else output
