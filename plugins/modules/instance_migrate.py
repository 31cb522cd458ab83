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
  - Moves a running instance without stopping it. Run it on the source node.
  - For V(kvm) libvirt of this node reaches libvirt of the other one by I(hvparams.migration_transport), which is
    V(ssh) (as root, memory goes through that connection), V(tls) or V(tcp).
  - While replicated disks are handed over both nodes may write them. The migration is aborted once the target is not
    connected or not up to date, because the instance would go on there without its last writes.
  - A migration that has not ended after I(hvparams.migration_limit) seconds (1800 unless set) is aborted; the
    instance keeps running on the source, and the task fails.
  - libvirt continues a migration whose task was killed. The next task about this instance on this node awaits or
    aborts it first; meanwhile M(roundsman.cluster.instance_info) returns its progress.
options:
  target_address:
    description: Where the hypervisor of the target node is reached, for V(kvm) its IP address or name.
    type: str
    required: true
  hvparams:
    description: The hypervisor parameters of the instance.
    type: dict
    default: {}
  uuid:
    description: The UUID of the instance, after which its disks are named.
    type: str
    default: ''
  disk_template:
    description: How the disks are stored; replicas are looked at for V(drbd).
    type: str
    default: diskless
  disks:
    description: The disks in their order, as M(roundsman.cluster.instance_disks) takes them.
    type: list
    elements: dict
    default: []
    suboptions:
      size:
        description: The size in MiB.
        type: int
        required: true
      name:
        description: The name of an adopted disk, for V(drbd) that of its resource.
        type: str
        default: ''
      minor:
        description: The number of the DRBD device.
        type: int
extends_documentation_fragment:
  - roundsman.cluster.instance
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Says whether the instance is here to be migrated.
    support: full
  diff_mode:
    details: Shows where the instance runs before and after.
    support: full
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Migrate an instance
  roundsman.cluster.instance_migrate:
    instance: instance3
    hypervisor: kvm
    target_address: 192.0.2.4
    hvparams: {migration_transport: tls, migration_limit: "600"}
"""

RETURN = r"""
migrated:
  description: Whether it was here; when false, it ran on the target already.
  returned: success
  type: bool
target_lacks:
  description: >-
    Why the target may lack writes of an instance that was handed over all the same; empty where it has all. It is
    looked at four times a second.
  returned: success
  type: str
progress:
  description: >-
    How far it was when it was looked at last: C(seconds), C(memory_total) and C(memory_remaining) in MiB, and
    C(iteration), the number of the pass over its memory. Empty when it was done sooner.
  returned: always
  type: dict
"""

from typing import Mapping

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, instance_options
from ..module_utils.domain.values import errors
from ..module_utils.hypervisor import drivers
from ..module_utils.storage import disks, peer_data


def main() -> None:
    spec = {
        **instance_options.SPEC,
        "target_address": {"type": "str", "required": True},
        **{key: instance_options.FACTS[key] for key in ("hvparams", "uuid")},
        "disk_template": {"type": "str", "default": "diskless"},
        "disks": {"type": "list", "elements": "dict", "default": [], "options": disks.DISK},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    given, root, name = module.params, instance_options.root(), module.params["instance"]
    lock = instance_lock.held(name, root, opcode=given["opcode"])
    texts = {key: str(value) for key, value in given["hvparams"].items()}
    its = disks.Disks(
        instance=name,
        uuid=given["uuid"],
        disks=tuple(disks.Disk(disk["size"], disk["name"], disk["minor"]) for disk in given["disks"]),
    )
    diff = {"before": "running here\n", "after": f"running at {given['target_address']}\n"}
    progress: Mapping[str, float] = {}
    try:
        hypervisor = drivers.get(given["hypervisor"], root, opcode=given["opcode"])
        if module.check_mode:
            is_here = name in hypervisor.running()
            module.exit_json(
                changed=is_here, migrated=is_here, target_lacks="", progress={}, diff=diff if is_here else {}
            )
        peers = peer_data.PeerData(its, given["disk_template"], root=root, hypervisor=given["hypervisor"])
        with lock:
            try:
                migrated = hypervisor.migrate(name, given["target_address"], hvparams=texts, target_lacks=peers.lacks)
            finally:
                progress = hypervisor.progress
        target_lacks = peers.lacks() if migrated else ""
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error), progress=progress)
    module.exit_json(
        changed=migrated, migrated=migrated, target_lacks=target_lacks, progress=progress, diff=diff if migrated else {}
    )


if __name__ == "__main__":
    main()
