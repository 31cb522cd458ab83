# Copyright: Contributors to the Roundsman project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module roundsman.cluster.oob_power."""

from __future__ import annotations

DOCUMENTATION = r"""
module: oob_power
short_description: Switch many nodes on or off through their BMCs, and read back that it happened
version_added: 0.1.0
description:
  - Runs one power command at any number of BMCs, all at once, from the host the task runs on.
  - A command is done when the state read back says so. A node that is already in the wanted state is
    left alone. A silent BMC is reported as V(unknown), never as off.
  - A power cycle is sent at most once, only to a node that is on, and counts only when the node was seen
    off and then on.
author:
  - Contributors to the Roundsman project (@roundsman)
requirements:
  - cryptography, on the host the task runs on, for the driver V(ipmi)
  - pyghmi >= 1.6.19, on the host the task runs on, for the driver V(redfish)
attributes:
  check_mode:
    support: full
    description: Only the power state is read; the result says what would change.
  diff_mode:
    support: full
    description: Shows the power state of each node before and after.
options:
  command:
    description:
      - What to do. V(status) only reads, and does not fail when a BMC is silent.
    type: str
    required: true
    choices: [status, "on", "off", cycle]
  targets:
    description:
      - The BMCs to command. Exactly one of O(targets) and O(credentials_file) is needed.
    type: list
    elements: dict
    suboptions:
      name:
        description: The node's name.
        type: str
        required: true
      driver:
        description: How to talk to the BMC, V(ipmi) or V(redfish).
        type: str
        default: ipmi
      address:
        description: The BMC's IP address. Names are not looked up.
        type: str
        required: true
      port:
        description: The BMC's port; V(0) is the driver's usual one, 623 for V(ipmi) and 443 for V(redfish).
        type: int
        default: 0
      username:
        description: The user to log in as.
        type: str
        default: ""
      password:
        description: The user's password.
        type: str
        default: ""
      certificate:
        description:
          - Which certificate of the BMC to trust. Empty is one that a known authority signed, V(sha256:FINGERPRINT)
            that very one, V(any) any at all.
        type: str
        default: ""
  credentials_file:
    description:
      - A JSON file on the host the task runs on, an object from a node's name to an object with the keys
        of O(targets) but C(name). It is refused when group or others have any access to it.
    type: path
  nodes:
    description:
      - The names of the nodes to command, from O(credentials_file).
    type: list
    elements: str
  deadline:
    description:
      - Seconds each BMC has for the whole of the command.
    type: float
    default: 30
"""

EXAMPLES = r"""
- name: Switch two nodes off
  roundsman.cluster.oob_power:
    command: "off"
    credentials_file: /etc/roundsman/bmc.json
    nodes: [node3, node4]

- name: See which nodes are on
  roundsman.cluster.oob_power:
    command: status
    targets:
      - name: node3
        address: 192.0.2.13
        username: operator
        password: "{{ bmc_password }}"
"""

RETURN = r"""
results:
  description: What became of each node, in the order asked for.
  returned: always, unless the request itself was refused
  type: list
  elements: dict
  contains:
    name: {description: The node., type: str, returned: always}
    command: {description: What was asked., type: str, returned: always}
    before: {description: "The state before: V(on), V(off) or V(unknown).", type: str, returned: always}
    after: {description: "The state read back; in check mode the one to expect.", type: str, returned: always}
    sent: {description: Whether a command went out., type: bool, returned: always}
    confirmed:
      description: Whether the state read back shows success; in check mode, that nothing stands against it.
      type: bool
      returned: always
    attempts: {description: How often the command went out., type: int, returned: always}
    seconds: {description: The time it took., type: float, returned: always}
    reason:
      description: >-
        Why it is not confirmed, one of V(timeout), V(unreachable), V(auth), V(cipher), V(busy), V(refused),
        V(not_off), V(not_on), V(unconfirmed) and V(driver).
      type: str
      returned: always
    text: {description: The reason in a sentence., type: str, returned: always}
    ok: {description: "The same as RV(results[].confirmed).", type: bool, returned: always}
    changed: {description: Whether this node was changed., type: bool, returned: always}
unconfirmed:
  description: The names of the nodes whose result is not confirmed.
  returned: always, unless the request itself was refused
  type: list
  elements: str
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.domain import errors, power
from ..module_utils.oob import credentials, drivers

TARGET_SPEC: Dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "driver": {"type": "str", "default": credentials.DEFAULT_DRIVER},
    "address": {"type": "str", "required": True},
    "port": {"type": "int", "default": 0},
    "username": {"type": "str", "default": ""},
    "password": {"type": "str", "default": "", "no_log": True},
    "certificate": {"type": "str", "default": ""},
}
SPEC: Dict[str, Any] = {
    "command": {"type": "str", "required": True, "choices": [command.value for command in power.Command]},
    "targets": {"type": "list", "elements": "dict", "options": TARGET_SPEC},
    "credentials_file": {"type": "path"},
    "nodes": {"type": "list", "elements": "str"},
    "deadline": {"type": "float", "default": drivers.DEADLINE},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=SPEC,
        supports_check_mode=True,
        required_one_of=[("targets", "credentials_file")],
        mutually_exclusive=[("targets", "credentials_file")],
        required_together=[("credentials_file", "nodes")],
    )
    try:
        command = power.Command(module.params["command"])
        outcomes = _run(module.params, command=command, check=module.check_mode)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    result = _result(outcomes, check=module.check_mode)
    if result["unconfirmed"] and command is not power.Command.STATUS:
        text = f"power {command.value} is not confirmed for " + ", ".join(result["unconfirmed"])
        module.fail_json(msg=text, **result)
    module.exit_json(**result)


def _run(params: Dict[str, Any], *, command: power.Command, check: bool) -> List[power.Outcome]:
    if params["targets"] is None:
        targets = credentials.load(params["credentials_file"], nodes=params["nodes"])
    else:
        targets = [power.Target(**entry) for entry in params["targets"]]
    sent = power.Command.STATUS if check else command
    outcomes = drivers.run(targets, command=sent, deadline=params["deadline"])
    return [power.foresee(status, command=command) for status in outcomes] if check else outcomes


def _result(outcomes: List[power.Outcome], *, check: bool) -> Dict[str, Any]:
    results = [outcome.as_dict() for outcome in outcomes]
    if check:
        for result, outcome in zip(results, outcomes):  # noqa: B905 -- Python 3.9 has no strict=
            result["changed"] = power.needs_sending(outcome.command, before=outcome.before)
    return {
        "changed": any(result["changed"] for result in results),
        "results": results,
        "unconfirmed": [outcome.name for outcome in outcomes if not outcome.confirmed],
        "diff": {side: "".join(f"{one['name']}: {one[side]}\n" for one in results) for side in ("before", "after")},
    }


if __name__ == "__main__":
    main()
