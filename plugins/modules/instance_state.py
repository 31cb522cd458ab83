# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that starts and stops an instance on the node it runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: instance_state
short_description: Start or stop an instance on this node
version_added: 0.1.0
description:
  - Makes an instance run, or not run, on the node that the task is run on.
  - It does not know where else the instance may run; the locks and the order of the steps take care of that.
options:
  state:
    description: What the instance shall be.
    type: str
    choices: [started, stopped]
    required: true
  memory:
    description: Its memory in MiB.
    type: int
    default: 0
  vcpus:
    description: Its virtual CPUs.
    type: int
    default: 1
extends_documentation_fragment: roundsman.cluster.instance
attributes:
  check_mode:
    description: Says whether the instance would be started or stopped.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Stop an instance
  roundsman.cluster.instance_state:
    instance: instance3
    hypervisor: fake
    state: stopped
"""

RETURN = r"""
running:
  description: Whether the instance runs on this node now.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_options
from ..module_utils.domain import errors
from ..module_utils.hypervisor import drivers


def main() -> None:
    spec = {
        **instance_options.SPEC,
        "state": {"type": "str", "required": True, "choices": ["started", "stopped"]},
        "memory": {"type": "int", "default": 0},
        "vcpus": {"type": "int", "default": 1},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    name, starts = module.params["instance"], module.params["state"] == "started"
    root = instance_options.root()
    try:
        hypervisor = drivers.get(module.params["hypervisor"], root, opcode=module.params["opcode"])
        if module.check_mode:
            module.exit_json(changed=(name in hypervisor.running()) is not starts, running=name in hypervisor.running())
        facts = {"memory": module.params["memory"], "vcpus": module.params["vcpus"]}
        changed = hypervisor.start(name, facts) if starts else hypervisor.stop(name)
        running = name in hypervisor.running()
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    if running is not starts:
        module.fail_json(msg=f"{name} was to be {module.params['state']}, and is not", changed=changed)
    module.exit_json(changed=changed, running=running)


if __name__ == "__main__":
    main()
