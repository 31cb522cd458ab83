# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that reads what a host has before it is a node: domains of libvirt, DRBD resources, volumes, sizes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: host_inventory_info
short_description: Read the domains, disks and sizes of a host that shall become a node
version_added: 0.1.0
description:
  - Reads the domains of libvirt with their definitions, the DRBD resources, the logical volumes, and how large the host
    is. Nothing is changed.
options:
  folder:
    description:
      - Folder on the controller into which the result is put, as C(HOST.json), with the variables by which the host is
        reached, or with the reason why it could not be read.
      - Where it is empty, and in check mode, the result is only returned.
    type: path
    default: ''
  file_dir:
    description: The folder of disks that are files, for how much disk there is where there is no volume group.
    type: str
    default: /var/lib/roundsman/disks
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Changes nothing anyway.
    support: full
  diff_mode:
    details: Has no differences to show.
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: See what is there
  roundsman.cluster.host_inventory_info:
  register: seen
"""

RETURN = r"""
hostname:
  description: What the host calls itself, as DRBD's configuration does.
  returned: success
  type: str
libvirt:
  description: Its memory (MiB), its CPUs and its domains.
  returned: success
  type: dict
storage:
  description: DRBD resources, volumes and volume groups (MiB), and the files that domains have as disks.
  returned: success
  type: dict
"""

import pathlib
import platform

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.domain.values import errors
from ..module_utils.hypervisor import found_domains, virsh
from ..module_utils.storage import found_disks, programs


def main() -> None:
    spec = {"file_dir": {"type": "str", "default": "/var/lib/roundsman/disks"}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        domains = found_domains.found(virsh.Virsh())
        paths = {disk["source"] for domain in domains["domains"] for disk in domain["disks"] if disk["type"] == "file"}
        mounts = pathlib.Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
        disks = found_disks.found(programs.Programs(), sorted(paths), mounts=mounts, folder=module.params["file_dir"])
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, hostname=platform.node(), libvirt=domains, storage=disks)


if __name__ == "__main__":
    main()
