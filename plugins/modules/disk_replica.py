# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that makes or removes a copy of an instance's disks on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: disk_replica
short_description: Make or remove a copy of an instance's disks on this node
version_added: 0.1.0
description:
  - Makes the node hold, or not hold, a copy of the disks of an instance.
  - A copy that a running instance uses is never removed.
options:
  state:
    description: Whether the node shall hold a copy.
    type: str
    choices: [present, absent]
    required: true
  disk_template:
    description: The disk template of the instance.
    type: str
    default: drbd
  sizes:
    description: The sizes of its disks in MiB.
    type: list
    elements: int
    default: []
extends_documentation_fragment: roundsman.cluster.instance
attributes:
  check_mode:
    description: Says whether a copy would be made or removed.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Take away the copy on the old secondary
  roundsman.cluster.disk_replica:
    instance: instance3
    hypervisor: fake
    state: absent
"""

RETURN = r"""
present:
  description: Whether the node holds a copy now.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_options
from ..module_utils.domain import errors
from ..module_utils.storage import templates


def main() -> None:
    spec = {
        **instance_options.SPEC,
        "state": {"type": "str", "required": True, "choices": ["present", "absent"]},
        "disk_template": {"type": "str", "default": "drbd"},
        "sizes": {"type": "list", "elements": "int", "default": []},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    options, wanted = module.params, module.params["state"] == "present"
    name = options["instance"]
    root = instance_options.root()
    try:
        storage = templates.get(
            options["disk_template"], root, hypervisor=options["hypervisor"], opcode=options["opcode"]
        )
        if module.check_mode:
            module.exit_json(changed=(name in storage.names()) is not wanted, present=name in storage.names())
        changed = storage.create(name, options["sizes"]) if wanted else storage.remove(name)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=changed, present=wanted)


if __name__ == "__main__":
    main()
