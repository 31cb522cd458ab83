# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that starts or stops many instances on their node, in one step."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: instances_state
short_description: Start or stop many instances on this node in one step
version_added: 0.1.0
description:
  - Makes each of the instances run, or not run, on the node that the task is run on, several at a time.
  - One that fails does not stop the others; the task fails at its end and names those that are not as they should be.
  - It does not know where else the instances may run; the locks and the order of the steps take care of that.
options:
  state:
    description: >-
      What the instances shall be. V(standby) is for those that run elsewhere and have replicas here: their disks are
      brought up, as is needed after a boot, and nobody may write them here.
    type: str
    choices: [started, stopped, standby]
    required: true
  instances:
    description: The instances.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The instance's name.
        type: str
        required: true
      hypervisor:
        description: The driver of its hypervisor.
        type: str
        choices: [fake, kvm]
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
        description: Its hypervisor parameters, texts by name.
        type: dict
        default: {}
      disk_template:
        description: >-
          The disk template of an instance of V(kvm). Its disks are opened before it starts, and closed after it has
          stopped; those of a diskless one are I(instances.devices), and are left alone.
        type: str
        default: diskless
      disks:
        description: Its disks, in their order, as for M(roundsman.cluster.instance_disks).
        type: list
        elements: dict
        default: []
        suboptions:
          size:
            description: Its size in MiB.
            type: int
            required: true
          name:
            description: The DRBD resource, the C(group/volume) or the path of an adopted disk.
            type: str
            default: ""
          minor:
            description: The minor of its DRBD device.
            type: int
      vg:
        description: The volume group of its volumes.
        type: str
        default: roundsman
      file_dir:
        description: The folder of its files.
        type: str
        default: /var/lib/roundsman/disks
      only_here:
        description:
          - Whether it only must not be here, in no state, as it is on record that a migration of it has not ended, so
            that its start looks for it on both nodes.
          - Otherwise it does not count as stopped here after a migration that was interrupted, and that took it to the
            other node, or may have taken it there, and what is half made here is not ended.
        type: bool
        default: false
      peer:
        description:
          - The node of its other DRBD replica, for V(started). If that node has I(answered), the replica here gets ten
            seconds to connect before the instance starts. One that does not is compared with what that node said of
            its own, and one that may be older is not started.
          - On the controller I(answered) and I(disks) are taken from what the task that registered C(epo_replicas)
            returned on that node.
        type: dict
        suboptions:
          here:
            description: The name of this node.
            type: str
            required: true
          name:
            description: The name of the other one.
            type: str
            required: true
          answered:
            description: Whether it said anything of its replica.
            type: bool
            default: false
          disks:
            description: What it said, as C(disks) in RV(results); missing where that cannot be understood.
            type: list
            elements: dict
  time_limit:
    description: >-
      The most that a soft stop may take, in seconds, before a hard one; an instance whose own
      I(hvparams.shutdown_timeout) is shorter gets that.
    type: float
  opcode:
    description: What this step belongs to, for the node's journal.
    type: str
    default: by hand
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Says which of the instances would be started or stopped.
    support: full
  diff_mode:
    details: Shows how each instance is before and after.
    support: full
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Stop two instances
  roundsman.cluster.instances_state:
    state: stopped
    instances:
      - {name: instance3, hypervisor: fake}
      - {name: instance4, hypervisor: fake}
"""

RETURN = r"""
results:
  description: >-
    For each instance its C(name), whether it was C(changed), whether it is C(running) now, its C(state) in plain
    words, and C(text), why it is not as it should be. With V(standby) also C(disks), its replicas here, as
    M(roundsman.cluster.instance_disks) returns them.
  returned: always
  type: list
  elements: dict
missed:
  description: The names of the instances that are not as they should be.
  returned: always
  type: list
  elements: str
"""

import concurrent.futures
import contextlib
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, instance_options, instance_with_disks
from ..module_utils.domain.values import errors

NAME = {"name": {"type": "str", "required": True}, "hypervisor": instance_options.SPEC["hypervisor"]}
SPEC: Dict[str, Any] = {
    "state": {"type": "str", "required": True, "choices": ["started", "stopped", "standby"]},
    "instances": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {**NAME, **instance_options.FACTS, **instance_with_disks.DISKS},
    },
    "time_limit": {"type": "float"},
    "opcode": instance_options.SPEC["opcode"],
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    with concurrent.futures.ThreadPoolExecutor(instance_with_disks.AT_ONCE) as threads:
        results: List[Dict[str, Any]] = list(
            threads.map(lambda instance: _made(instance, module), module.params["instances"])
        )
    missed = [found["name"] for found in results if found["text"]]
    lines = {when: "".join(f"{result['name']}: {result[when]}\n" for result in results) for when in ("before", "state")}
    answer = {
        "changed": any(found["changed"] for found in results),
        "results": [{key: value for key, value in found.items() if key != "before"} for found in results],
        "missed": missed,
        "diff": {"before": lines["before"], "after": lines["state"]},
    }
    if missed:
        texts = "; ".join("{name}: {text}".format(**found) for found in results if found["text"])
        module.fail_json(msg=f"not {module.params['state']}: {texts}", **answer)
    module.exit_json(**answer)


def _made(entry: Dict[str, Any], module: AnsibleModule) -> Dict[str, Any]:
    """Make one instance run, or not; what stands against it is its text."""
    name, root, opcode = entry["name"], instance_options.root(), module.params["opcode"]
    wanted = module.params["state"]
    more: Dict[str, Any] = {"text": ""}
    lock = instance_lock.held(name, root, opcode=opcode, only_stops=wanted == "stopped")
    try:
        with contextlib.nullcontext() if module.check_mode else lock:
            if wanted == "standby":
                made, more = instance_with_disks.stand_by(entry, root, only_looks=module.check_mode, opcode=opcode)
            else:
                limit = instance_with_disks.soft_stop(entry, most=module.params["time_limit"])
                made = instance_with_disks.make(
                    entry, root, starts=wanted == "started", only_looks=module.check_mode, limit=limit, opcode=opcode
                )
    except errors.RoundsmanError as error:
        unknown = dict.fromkeys(("before", "state"), "not known")
        return {"name": name, "changed": False, "running": None, "text": str(error), **unknown}
    told = {"before": made.before, "state": made.after}
    return {"name": name, "changed": made.changed, "running": made.running, **more, **told}


if __name__ == "__main__":
    main()
