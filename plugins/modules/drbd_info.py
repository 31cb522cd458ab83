# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that tells how the DRBD resources of a node are."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: drbd_info
short_description: Read the state of the DRBD resources of this node
version_added: 0.1.0
description:
  - Reads the state of DRBD resources, from the JSON of version 9 or the text of version 8.4.
  - For a resource without its peer it reads the generation identifiers too, which show whose data are newer.
options:
  resources:
    description: The resources to read; all of them if the list is empty.
    type: list
    elements: str
    default: []
  settle:
    description:
      - Seconds to wait for connections that are being established, as after a repair. A node may wait for its peer
        for ever.
    type: int
    default: 0
  hypervisor:
    description: The hypervisor of the instances whose resources they are; with C(fake) the disks are simulated.
    type: str
    choices: [fake, kvm]
    default: kvm
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Reads in check mode too.
    support: full
  diff_mode:
    details: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: See how the resources are
  roundsman.cluster.drbd_info:
  register: drbd
"""

RETURN = r"""
version:
  description: The major version of DRBD in the kernel; null if there is none.
  returned: success
  type: int
sides:
  description: >-
    The resources that are up, each with its C(resource), C(role), C(connection), C(peer_role) and C(volumes); a volume
    has its C(number), C(minor), C(disk), C(peer_disk), C(replication), C(out_of_sync) (KiB), C(done) (percent),
    C(paused_by_user) and C(generation). The words are those of version 9.
  returned: success
  type: list
  elements: dict
unread:
  description: The resources that are up and cannot be read, as one with several peers, by name with the reason.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_options
from ..module_utils.domain.values import errors
from ..module_utils.storage import drbd_node, drbd_repairing, drbd_sides, programs


def main() -> None:
    spec = {
        "resources": {"type": "list", "elements": "str", "default": []},
        "settle": {"type": "int", "default": 0},
        "hypervisor": {**instance_options.SPEC["hypervisor"], "required": False, "default": "kvm"},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    wanted = module.params["resources"]
    root = instance_options.root()
    try:
        runner = programs.runner_for(root, hypervisor=module.params["hypervisor"])
        node = drbd_node.DrbdNode(runner, proc=root / drbd_node.PROC)
        found = drbd_repairing.settled(node, wanted, time_limit=module.params["settle"])
        sides = [side for side in found.sides if not wanted or side.resource in wanted]
        told = [drbd_sides.encode(drbd_repairing.parted(node, side) or side) for side in sides]
        version = node.version()
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    unread = {name: reason for name, reason in found.unread.items() if not wanted or name in wanted}
    module.exit_json(changed=False, version=version, sides=told, unread=unread)


if __name__ == "__main__":
    main()
