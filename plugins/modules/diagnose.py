# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that asks a node for its signed self-diagnosis."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: diagnose
short_description: Ask a node for its signed self-diagnosis
version_added: 0.1.0
description:
  - Runs a diagnose command that the node has whitelisted, and signs what it says with the node's key.
  - >-
    A command that is missing, refused, fails, hangs, or prints no valid diagnosis is reported as a signed
    problem, and is never taken for health.
  - >-
    Fails only when nothing can be signed, because the node's settings (C(/etc/roundsman/node.json)) or its
    key (C(/var/lib/roundsman/node.key)) cannot be used.
options:
  command:
    description:
      - Name of a file in C(/etc/roundsman/node-diagnose-commands) on the node.
      - >-
        Where the node has an agent (C(/etc/roundsman/agent.json)), the agent's own diagnose command is run instead,
        so that agent and controller never run different ones.
      - Where neither names a command, the report is the problem C(not_configured), and never C(Ok).
    type: str
    default: ''
  spool:
    description:
      - Folder on the controller into which the envelope is put, as a new and complete file.
      - A node that cannot be reached leaves a file with its inventory name and the ending C(.unreachable).
      - Where it is empty, and in check mode, the envelope is only returned. The node never sees it.
    type: path
    default: ''
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Can run in check mode and say the same, since it only reads.
    support: full
  diff_mode:
    details: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Ask each node how it is, and put the signed answer where the daemon reads it
  roundsman.cluster.diagnose:
    command: check-hardware
    spool: /var/lib/roundsman/spool
"""

RETURN = r"""
envelope:
  description:
    - The signed report, three strings as JSON, exactly as it has to reach the daemon.
    - Beside the diagnosis it holds the node's boot id and the state of its DRBD replicas. While DRBD does not answer,
      the replicas are left out.
  returned: success
  type: str
command:
  description: The diagnose command that was run, empty if none is configured.
  returned: success
  type: str
status:
  description: What the node asks for.
  returned: when the node could be diagnosed
  type: str
  sample: live-repair
problem:
  description: Why the node could not be diagnosed.
  returned: when it could not
  type: dict
  contains:
    reason:
      description: One word for the cause, such as C(missing), C(exit), C(timeout) or C(not_json).
      type: str
    text:
      description: The cause in a sentence, with the end of what the command wrote on its standard error.
      type: str
"""

import dataclasses
import os
import time
from typing import Any, Dict, Tuple

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import node_diagnosis, node_settings
from ..module_utils.domain.agent import reports
from ..module_utils.domain.values import errors
from ..module_utils.monitoring import agent_settings
from ..module_utils.storage import replica_facts


def main() -> None:
    module = AnsibleModule(argument_spec={"command": {"type": "str", "default": ""}}, supports_check_mode=True)
    try:
        settings = node_settings.load(os.environ)
        key = node_settings.key(settings)
        command, said = _observed(settings, module.params["command"])
        facts = replica_facts.read(settings.root, hypervisor=settings.hypervisor)
        sealed = reports.seal(
            said, node_uuid=settings.node, timestamp_ns=time.time_ns(), key=key, command=command, facts=facts
        )
    except errors.RoundsmanError as e:
        module.fail_json(msg=str(e))
    result: Dict[str, Any] = {"envelope": sealed.envelope, "command": command}
    if isinstance(sealed.said, reports.Problem):
        result["problem"] = dataclasses.asdict(sealed.said)
    else:
        result["status"] = sealed.said.status.value
    module.exit_json(changed=False, **result)


def _observed(settings: node_settings.Settings, asked: str) -> Tuple[str, reports.Outcome]:
    try:
        command = agent_settings.diagnose_command(settings.root / "etc/roundsman/agent.json", otherwise=asked)
    except (errors.StoreFailed, errors.InvalidInput) as e:
        return "", reports.problem("settings", text=str(e))
    return command, node_diagnosis.observe(settings, command=command)


if __name__ == "__main__":
    main()
