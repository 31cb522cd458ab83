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
  - Runs commands on this machine with the root of a lab node, which the modules find in their environment.
  - Refuses to connect when the node's power is off or its link is cut, after it has tried three times.
  - Lets each command hang for as long as the node is made to.
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
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as LocalConnection

from ..plugin_utils import connection_tries

HANGS = "lab/hangs"
"""Below the node's root: while this file is there, every command begins and gets no further."""
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
        hangs = f"while [ -e {shlex.quote(f'{self._root()}/{HANGS}')} ]; do sleep 0.2; done"
        command = f"{hangs}; ROUNDSMAN_ROOT={shlex.quote(self._root())}; export ROUNDSMAN_ROOT; {cmd}"
        answer: tuple[int, bytes, bytes] = super().exec_command(command, in_data=in_data, sudoable=sudoable)
        return answer

    def _root(self) -> str:
        return str(self.get_option("lab_root"))

    def _refuse_when_silent(self) -> None:
        wire = Path(self._root()) / "wire"
        if not connection_tries.answers(wire.exists):
            raise AnsibleConnectionFailure(
                f"lab node {wire.parent.name} does not answer in {connection_tries.TRIES} tries: "
                "no power, or its link is cut"
            )
