# Copyright: Contributors to the Roundsman project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module roundsman.cluster.oob_power."""

from __future__ import annotations

DOCUMENTATION = r"""
module: oob_power
short_description: Power many nodes on or off through their BMCs, and confirm it by reading back
version_added: 0.1.0
description:
  - Runs one power command at any number of BMCs, all at once, from the host the task runs on.
  - A command succeeds only when the BMC reads back the new state. A node that is already in the wanted state is
    left alone. A silent BMC is reported as V(unknown), never as off.
  - A power cycle is sent at most once, only to a node that is on, and counts only when the node was seen
    off and then on.
  - A node whose BMC cannot be contacted is reported with the reason, and does not hold up the others.
author:
  - Contributors to the Roundsman project (@roundsman)
extends_documentation_fragment:
  - roundsman.cluster.bmc
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
requirements:
  - cryptography, on the host the task runs on, for the driver V(ipmi)
  - pyghmi >= 1.6.19, on the host the task runs on, for the driver V(redfish)
attributes:
  check_mode:
    support: full
    details: Only the power state is read; the result says what would change.
  diff_mode:
    support: full
    details: Shows the power state of each node before and after.
options:
  command:
    description:
      - What to do. V(status) only reads, and does not fail when a BMC is silent.
      - V(off) cuts the power. V(soft_off) asks the node's own system to shut down, and waits until the
        node reads off; it never cuts the power. Helper programs have no V(soft_off).
      - V(emergency_off) is V(off) for an emergency, which is sent even to a node that reads off.
      - V(fence) sends off even to a node that reads off. It is confirmed only when the BMC accepted it, or answered
        that the node is off already, and then reads off twice in a row, a second apart. If the answer is lost, off
        is sent again. A command that the BMC rejected, did not answer, or never got is no fence.
      - V(confirm_off) is V(fence) for a node that reads off. A node that reads on is left on.
    type: str
    required: true
    choices: [status, "on", "off", cycle, soft_off, emergency_off, fence, confirm_off]
  deadline:
    description:
      - Seconds each BMC has for the whole of the command.
      - Without it BMCs have 30 seconds, and 600 for V(soft_off). Helper programs have 60 seconds for each call, and
        a command takes several calls.
    type: float
seealso:
  - module: roundsman.cluster.oob_health
  - module: roundsman.cluster.oob_info
"""

EXAMPLES = r"""
- name: Switch two nodes off
  roundsman.cluster.oob_power:
    command: "off"
    credentials_file: /etc/roundsman/bmc.json
    nodes: [node3, node4]

- name: See which nodes are on, with a password from Ansible Vault
  roundsman.cluster.oob_power:
    command: status
    targets:
      - name: node3
        address: 192.0.2.13
        username: operator
        password: "{{ bmc_password }}"
      - name: node4
        driver: redfish
        address: 192.0.2.14
        username: operator
        password: "{{ bmc_password }}"
        certificate: sha256:5fb6a6a3f2c7a5ad4a1c2a2b3f3f6dc6c1d0a4e1a2ef54b1c9f10f0d9a0f3c77

- name: Switch a node off through a helper program
  roundsman.cluster.oob_power:
    command: "off"
    targets:
      - name: node5
        driver: /usr/local/sbin/oob

- name: Ask a node's own system to shut down, for five minutes at most
  roundsman.cluster.oob_power:
    command: soft_off
    deadline: 300
    credentials_file: /etc/roundsman/bmc.json
    nodes: [node3]
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
    read_on: {description: "Whether any reading was V(on), before or after.", type: bool, returned: always}
    taken: {description: "Whether its BMC took the off; without that it only reads off.", type: bool, returned: always}
    attempts: {description: How often the command went out., type: int, returned: always}
    seconds: {description: The time it took., type: float, returned: always}
    reason:
      description: >-
        Why it is not confirmed, one of V(timeout), V(unreachable), V(auth), V(cipher), V(busy), V(refused),
        V(not_off), V(not_on), V(unconfirmed), V(unconfigured) and V(driver).
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

from ..module_utils.domain.power import power, power_record
from ..module_utils.domain.values import errors
from ..module_utils.oob import drivers, request

SPEC: Dict[str, Any] = {
    "command": {"type": "str", "required": True, "choices": [command.value for command in power.Command]},
    **request.OPTIONS,
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, **request.TOGETHER)
    try:
        command = power.Command(module.params["command"])
        outcomes = _run(module.params, command=command, check=module.check_mode)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    result = _result(outcomes, check=module.check_mode)
    if result["unconfirmed"] and command is not power.Command.STATUS:
        text = f"power {command.value} is not confirmed for " + ", ".join(
            _told(outcome) for outcome in outcomes if not outcome.confirmed
        )
        module.fail_json(msg=text, **result)
    module.exit_json(**result)


def _run(params: Dict[str, Any], *, command: power.Command, check: bool) -> List[power.Outcome]:
    sent = power.Command.STATUS if check else command
    outcomes = request.ask(
        request.of_options(params),
        work=lambda targets: drivers.run(targets, command=sent, deadline=params["deadline"]),
        refuse=lambda name, failure: power.untried(sent, name=name, failure=failure),
    )
    return [power_record.foresee(status, command=command) for status in outcomes] if check else outcomes


def _told(outcome: power.Outcome) -> str:
    reason = outcome.as_dict()["reason"]
    return f"{outcome.name} ({reason})" if reason else outcome.name


def _result(outcomes: List[power.Outcome], *, check: bool) -> Dict[str, Any]:
    results = [outcome.as_dict() for outcome in outcomes]
    if check:
        for result, outcome in zip(results, outcomes):  # noqa: B905 -- Python 3.9 has no strict=
            result["changed"] = power.needs_sending(outcome.command, before=outcome.before)
    return {
        "changed": any(result["changed"] for result in results),
        "results": results,
        "unconfirmed": [outcome.name for outcome in outcomes if not outcome.confirmed],
        "diff": {
            side: "".join(f"{entry['name']}: {entry[side]}\n" for entry in results) for side in ("before", "after")
        },
    }


if __name__ == "__main__":
    main()
