# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that hands a running instance over to another node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: instance_migrate
short_description: Migrate a running instance from this node to another
version_added: 0.1.0
description:
  - Moves a running instance without stopping it. It is run on the node that the instance leaves.
options:
  target_address:
    description: Where the hypervisor of the target node is reached.
    type: str
    required: true
  hvparams:
    description: The hypervisor parameters of the instance.
    type: dict
    default: {}
extends_documentation_fragment: roundsman.cluster.instance
attributes:
  check_mode:
    description: Says whether the instance is here to be migrated.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Migrate an instance
  roundsman.cluster.instance_migrate:
    instance: instance3
    hypervisor: fake
    target_address: /srv/lab/nodes/node4/wire
"""

RETURN = r"""
migrated:
  description: Whether it was here; when false, it ran on the target already.
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
        "target_address": {"type": "str", "required": True},
        "hvparams": {"type": "dict", "default": {}},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    options = module.params
    root = instance_options.root()
    try:
        hypervisor = drivers.get(options["hypervisor"], root, opcode=options["opcode"])
        if module.check_mode:
            is_here = options["instance"] in hypervisor.running()
            module.exit_json(changed=is_here, migrated=is_here)
        migrated = hypervisor.migrate(options["instance"], options["target_address"], hvparams=options["hvparams"])
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=migrated, migrated=migrated)


if __name__ == "__main__":
    main()
