# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that says which instances run on a node, and which keep a copy there."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: instance_info
short_description: List the instances that run on this node
version_added: 0.1.0
description:
  - Reads what the hypervisor of the node says; nothing is changed.
options:
  hypervisor:
    description: The hypervisor to ask.
    type: str
    choices: [fake, kvm]
    required: true
  interrupted:
    description: The instance on which a step was interrupted; what it left half done is put in order first.
    type: str
    default: ""
attributes:
  check_mode:
    description: Reads in check mode too.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: See what runs here
  roundsman.cluster.instance_info:
    hypervisor: fake
"""

RETURN = r"""
running:
  description: The names of the instances that run on this node.
  returned: success
  type: list
  elements: str
copies:
  description: The names of the instances that keep a replicated copy of their disks on this node.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_options
from ..module_utils.domain import errors
from ..module_utils.hypervisor import drivers
from ..module_utils.storage import templates


def main() -> None:
    spec = {"hypervisor": instance_options.SPEC["hypervisor"], "interrupted": {"type": "str", "default": ""}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    root, hypervisor = instance_options.root(), module.params["hypervisor"]
    try:
        driver = drivers.get(hypervisor, root, opcode="")
        if module.params["interrupted"] and not module.check_mode:
            driver.recover(module.params["interrupted"])
        running = driver.running()
        copies = templates.replicated(root, hypervisor=hypervisor)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, running=running, copies=copies)


if __name__ == "__main__":
    main()
