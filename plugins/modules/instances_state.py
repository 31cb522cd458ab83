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
    description: What the instances shall be.
    type: str
    choices: [started, stopped]
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
        required: true
      memory:
        description: Its memory in MiB.
        type: int
        default: 0
      vcpus:
        description: Its virtual CPUs.
        type: int
        default: 1
  opcode:
    description: What this step belongs to, for the node's journal.
    type: str
    default: by hand
attributes:
  check_mode:
    description: Says which of the instances would be started or stopped.
    support: full
  diff_mode:
    description: Has no differences to show.
    support: none
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
    For each instance its name, whether it was changed, whether it runs now, and why it is not as it should be.
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
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_options
from ..module_utils.domain import errors
from ..module_utils.hypervisor import drivers

AT_ONCE = 8
SPEC: Dict[str, Any] = {
    "state": {"type": "str", "required": True, "choices": ["started", "stopped"]},
    "instances": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "hypervisor": {"type": "str", "required": True},
            "memory": {"type": "int", "default": 0},
            "vcpus": {"type": "int", "default": 1},
        },
    },
    "opcode": {"type": "str", "default": "by hand"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    starts = module.params["state"] == "started"

    def one(entry: Dict[str, Any]) -> Dict[str, Any]:
        return _made(entry, starts=starts, opcode=module.params["opcode"], check=module.check_mode)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        results: List[Dict[str, Any]] = list(threads.map(one, module.params["instances"]))
    missed = [found["name"] for found in results if found["text"]]
    answer = {"changed": any(found["changed"] for found in results), "results": results, "missed": missed}
    if missed:
        texts = "; ".join("{name}: {text}".format(**found) for found in results if found["text"])
        module.fail_json(msg=f"not {module.params['state']}: {texts}", **answer)
    module.exit_json(**answer)


def _made(entry: Dict[str, Any], *, starts: bool, opcode: str, check: bool) -> Dict[str, Any]:
    """Make one instance run, or not; what stands against it is its text."""
    name = entry["name"]
    try:
        hypervisor = drivers.get(entry["hypervisor"], instance_options.root(), opcode=opcode)
        if check:
            running = name in hypervisor.running()
            return {"name": name, "changed": running is not starts, "running": running, "text": ""}
        facts = {"memory": entry["memory"], "vcpus": entry["vcpus"]}
        changed = hypervisor.start(name, facts) if starts else hypervisor.stop(name)
        running = name in hypervisor.running()
    except errors.RoundsmanError as error:
        return {"name": name, "changed": False, "running": None, "text": str(error)}
    text = "" if running is starts else "it is not, though its hypervisor said so"
    return {"name": name, "changed": changed, "running": running, "text": text}


if __name__ == "__main__":
    main()
