# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that says which instances run on a node, and which keep a replica there."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: instance_info
short_description: List the instances that run on this node
version_added: 0.1.0
description:
  - Lists what the hypervisor of the node reports; nothing is changed unless O(interrupted) is given.
options:
  hypervisor:
    description: The hypervisor to ask.
    type: str
    choices: [fake, kvm]
    required: true
  interrupted:
    description:
      - The instance on which a step was interrupted; what that step left unfinished is cleaned up first.
      - For V(kvm) a migration that is still running is awaited, or aborted at its limit. What it left on the other
        node is ended only if the instance certainly runs here; an unclear state is left alone and reported in
        RV(recovered).
    type: str
    default: ""
  load_seconds:
    description: Seconds for which the CPU usage of each instance is measured; 0, the default, measures nothing.
    type: float
    default: 0
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
- name: See what runs here
  roundsman.cluster.instance_info:
    hypervisor: kvm

- name: See where an instance runs after a play was killed
  roundsman.cluster.instance_info:
    hypervisor: kvm
    interrupted: web1
"""

RETURN = r"""
running:
  description: The names of the instances that run on this node.
  returned: success
  type: list
  elements: str
replicas:
  description: The names of the instances that keep a replica of their disks on this node.
  returned: success
  type: list
  elements: str
states:
  description: >-
    Of every instance that is here how it is, in plain words: C(running), or why it does not run, such as
    C(paused after an I/O error of a disk) or C(crashed); C(in migration) is one that is half made here, or about to go.
  returned: success
  type: dict
facts:
  description: >-
    Of every instance that is here its C(memory) (MiB), C(vcpus), the CPU time that it has used (C(cpu_seconds)), and
    with O(load_seconds) its C(load), the number of CPUs that it uses.
  returned: success
  type: dict
migrations:
  description: The migrations from here that go on, or whose end is not known, with their C(progress).
  returned: success
  type: dict
recovered:
  description: What became of the step on the interrupted instance; empty if there is nothing to say.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, instance_options
from ..module_utils.domain.values import errors
from ..module_utils.hypervisor import drivers, loads
from ..module_utils.storage import templates


def main() -> None:
    spec = {
        "hypervisor": instance_options.SPEC["hypervisor"],
        "interrupted": {"type": "str", "default": ""},
        "load_seconds": {"type": "float", "default": 0},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    root, given, recovered = instance_options.root(), module.params, ""
    name = given["interrupted"]
    try:
        driver = drivers.get(given["hypervisor"], root, opcode="")
        if name and not module.check_mode:
            with instance_lock.held(name, root, opcode="recovery"):
                recovered = driver.recover(name)
        facts = loads.measured(driver, seconds=given["load_seconds"])
        states, migrations = driver.states(), driver.migrations()
        replicas = templates.replicated(root)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        running=sorted(instance for instance, state in states.items() if state == drivers.RUNNING),
        states=states,
        facts=facts,
        migrations=migrations,
        recovered=recovered,
        replicas=replicas,
    )


if __name__ == "__main__":
    main()
