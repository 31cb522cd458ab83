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
from ..module_utils.domain import errors
from ..module_utils.hypervisor import drivers


def main() -> None:
    spec = {
        **instance_options.SPEC,
        "target_address": {"type": "str", "required": True},
        "hvparams": instance_options.FACTS["hvparams"],
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    given, root, name = module.params, instance_options.root(), module.params["instance"]
    lock = instance_lock.held(name, root, opcode=given["opcode"])
    texts = {key: str(value) for key, value in given["hvparams"].items()}
    diff = {"before": "running here\n", "after": f"running at {given['target_address']}\n"}
    progress: Mapping[str, float] = {}
    try:
        hypervisor = drivers.get(given["hypervisor"], root, opcode=given["opcode"])
        if module.check_mode:
            is_here = name in hypervisor.running()
            module.exit_json(changed=is_here, migrated=is_here, progress={}, diff=diff if is_here else {})
        with lock:
            try:
                migrated = hypervisor.migrate(name, given["target_address"], hvparams=texts)
            finally:
                progress = hypervisor.progress
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error), progress=progress)
    module.exit_json(changed=migrated, migrated=migrated, progress=progress, diff=diff if migrated else {})


if __name__ == "__main__":
    main()
