# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that runs a whitelisted repair command, and fails whenever the repair did not succeed.

A refusal is answered at once. Ganeti waits ten seconds while it holds the lock, to slow down somebody who
guesses names over its RPC; this module is reached only through Ansible, by one who may run anything anyway.
"""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: repair_command
short_description: Run a repair command that the node has whitelisted
version_added: 0.1.0
description:
  - Runs one file from C(/etc/roundsman/node-repair-commands), without arguments or environment.
  - Folder and file must belong to the owner that the node's settings name, and nobody else may write them.
  - A refused or failing command fails the task.
options:
  command:
    description: Name of the file.
    type: str
    required: true
  input:
    description:
      - Text given on standard input exactly as it is, usually the whole diagnosis as JSON.
      - Must be text. A dictionary is refused, because writing it out again would change it.
    type: raw
    default: ''
  time_limit:
    description: Seconds after which the command and all its children are killed, and the task fails.
    type: float
    default: 3600
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Verifies the command against the whitelist and does not run it.
    support: full
  diff_mode:
    details: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Repair what the node found
  roundsman.cluster.repair_command:
    command: replace-fan
    input: '{"status": "live-repair", "command": "replace-fan", "details": {"fan": 3}}'
"""

RETURN = r"""
rc:
  description: Exit code of the command, negative for the signal that killed it.
  returned: when the command has ended
  type: int
stdout:
  description: Its standard output, on failure only the end of it.
  returned: when the command has ended
  type: str
stderr:
  description: Its standard error, on failure only the end of it.
  returned: when the command has ended
  type: str
reason:
  description: One word for why the command was refused or failed, such as C(missing), C(exit) or C(timeout).
  returned: failure
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import leader_record, node_settings, whitelist
from ..module_utils.domain.values import errors

TAIL = 4000


def repair(settings: node_settings.Settings, *, command: str, given: str, time_limit: float) -> whitelist.Completed:
    """Run the repair command with the given text on its standard input, byte for byte."""
    return whitelist.execute(
        settings.repair_commands,
        command,
        owner=settings.owner,
        lock_path=settings.repair_lock,
        stdin=given.encode(errors="surrogateescape"),
        time_limit=time_limit,
    )


def main() -> None:
    spec = {
        "command": {"type": "str", "required": True},
        "input": {"type": "raw", "default": ""},
        "time_limit": {"type": "float", "default": 3600.0},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    command, given, limit = (module.params[option] for option in ("command", "input", "time_limit"))
    if not isinstance(given, str):
        module.fail_json(msg="input must be text, it is a " + type(given).__name__, reason="input")
    try:
        settings = node_settings.load(os.environ)
        if module.check_mode:
            path = whitelist.check(settings.repair_commands, command, owner=settings.owner)
            module.exit_json(changed=True, msg="would run {}".format(path))
        leader_record.require_ordered(settings.root)
        done = repair(settings, command=command, given=given, time_limit=limit)
    except errors.RoundsmanError as e:
        module.fail_json(msg="{}: {}".format(command, e), reason=getattr(e, "reason", "settings"))
    stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode:
        ending = "ended with {}".format(done.returncode)
        tails = {"stdout": stdout[-TAIL:], "stderr": stderr[-TAIL:]}
        reason = "killed" if done.returncode < 0 else "exit"
        module.fail_json(msg="{}: {}".format(command, ending), reason=reason, rc=done.returncode, **tails)
    module.exit_json(changed=True, rc=0, stdout=stdout, stderr=stderr)


if __name__ == "__main__":
    main()
