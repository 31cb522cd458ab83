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
  - An instance that an interrupted migration took elsewhere, or may have taken there, is not started.
  - A stop is soft at first, and hard once I(hvparams.shutdown_timeout) seconds (120 unless set) are over. An instance
    that is halted, by an I/O error of a disk for example, is stopped hard at once.
  - An instance that is here and halted is not started; the task fails and says how it is.
options:
  state:
    description: What the instance shall be.
    type: str
    choices: [started, stopped]
    required: true
  uuid:
    description: Its UUID; needed to start an instance of V(kvm).
    type: str
    default: ""
  memory:
    description: Its memory in MiB.
    type: int
    default: 0
  vcpus:
    description: Its virtual CPUs.
    type: int
    default: 1
  devices:
    description: The paths of its disks on this node, in their order.
    type: list
    elements: path
    default: []
  nics:
    description: Its network interfaces, in their order.
    type: list
    elements: dict
    default: []
    suboptions:
      mac:
        description: Its address; empty lets the hypervisor choose one.
        type: str
        default: ""
      link:
        description: The bridge that it is on.
        type: str
        default: ""
  hvparams:
    description: The hypervisor parameters of the instance, texts by name.
    type: dict
    default: {}
  runs_nowhere:
    description:
      - Whether it is known that no other node runs it.
      - Otherwise it is not started after a migration from here that was interrupted, and whose target does not answer.
    type: bool
    default: false
  time_limit:
    description: How long a soft stop may take, in seconds; it goes before I(hvparams.shutdown_timeout).
    type: float
extends_documentation_fragment:
  - roundsman.cluster.instance
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Says whether the instance would be started or stopped.
    support: full
  diff_mode:
    details: Shows how the instance is before and after.
    support: full
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Start an instance
  roundsman.cluster.instance_state:
    instance: web1
    uuid: 5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11
    hypervisor: kvm
    state: started
    memory: 1024
    devices: [/dev/drbd3]
    nics: [{link: br0, mac: "52:54:00:12:34:56"}]

- name: Stop an instance
  roundsman.cluster.instance_state:
    instance: web1
    hypervisor: kvm
    state: stopped
    hvparams: {shutdown_timeout: "60"}
"""

RETURN = r"""
running:
  description: Whether the instance runs on this node now.
  returned: success
  type: bool
state:
  description: How the instance is on this node now, in plain words.
  returned: success
  type: str
"""

import contextlib

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, instance_options
from ..module_utils.domain.values import errors
from ..module_utils.hypervisor import drivers, stepping


def main() -> None:
    spec = {
        **instance_options.SPEC,
        **instance_options.FACTS,
        "state": {"type": "str", "required": True, "choices": ["started", "stopped"]},
        "runs_nowhere": {"type": "bool", "default": False},
        "time_limit": {"type": "float"},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    given, root, starts = module.params, instance_options.root(), module.params["state"] == "started"
    lock = instance_lock.held(given["instance"], root, opcode=given["opcode"], only_stops=not starts)
    try:
        hypervisor = drivers.get(given["hypervisor"], root, opcode=given["opcode"])
        with contextlib.nullcontext() if module.check_mode else lock:
            made = stepping.make(
                hypervisor,
                given["instance"],
                given,
                starts=starts,
                only_looks=module.check_mode,
                limit=given["time_limit"],
            )
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    diff = {"before": f"{made.before}\n", "after": f"{made.after}\n"}
    module.exit_json(changed=made.changed, running=made.running, state=made.after, diff=diff)


if __name__ == "__main__":
    main()
