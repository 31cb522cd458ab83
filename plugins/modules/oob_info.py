# Copyright: Contributors to the Roundsman project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module roundsman.cluster.oob_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: oob_info
short_description: See which BMCs nodes have, and what they can do
version_added: 0.1.0
description:
  - Asks any number of BMCs what they are, side by side, from the host the task runs on.
  - User names and passwords are in no result.
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
    details: The module only reads.
  diff_mode:
    support: none
    details: The module only reads.
options:
  deadline:
    description:
      - Seconds each BMC has; without it 30, and 60 for the call of a helper program.
    type: float
seealso:
  - module: roundsman.cluster.oob_power
  - module: roundsman.cluster.oob_health
"""

EXAMPLES = r"""
- name: See what the BMCs of two nodes are
  roundsman.cluster.oob_info:
    credentials_file: /etc/roundsman/bmc.json
    nodes: [node3, node4]
"""

RETURN = r"""
results:
  description: What each node's BMC is, in the order asked for.
  returned: always, unless the request itself was refused
  type: list
  elements: dict
  contains:
    name: {description: The node., type: str, returned: always}
    driver: {description: How the BMC is reached., type: str, returned: always}
    address: {description: The BMC's address., type: str, returned: always}
    power: {description: "The power state: V(on), V(off) or V(unknown).", type: str, returned: always}
    supports:
      description: >-
        The commands of M(roundsman.cluster.oob_power) that it takes, and V(health); empty when it could not be asked.
        A BMC that speaks IPMI does not report them, so all are named.
      type: list
      elements: str
      returned: always
    identity:
      description: The manufacturer; what the driver cannot read is null.
      type: dict
      returned: always
      contains:
        manufacturer: {description: "The maker's name, with V(redfish).", type: str, returned: always}
        model: {description: "The system's model, with V(redfish).", type: str, returned: always}
        firmware: {description: The version of the BMC's firmware., type: str, returned: always}
        device_id: {description: "The BMC's number of its own, with V(ipmi).", type: int, returned: always}
        manufacturer_id:
          description: The maker's number in IANA's list of enterprises, with V(ipmi).
          type: int
          returned: always
        product_id: {description: "The maker's number of the product, with V(ipmi).", type: int, returned: always}
    reason:
      description: >-
        Why not everything could be asked, one of V(timeout), V(unreachable), V(auth), V(cipher), V(busy), V(refused),
        V(unconfigured) and V(driver); none when everything was.
      type: str
      returned: always
    text: {description: The reason in a sentence., type: str, returned: always}
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.domain.power import bmc
from ..module_utils.domain.values import errors
from ..module_utils.oob import drivers, request


def main() -> None:
    module = AnsibleModule(argument_spec=dict(request.OPTIONS), supports_check_mode=True, **request.TOGETHER)
    try:
        told = _ask(module.params)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, results=[answer.as_dict() for answer in told])


def _ask(params: Dict[str, Any]) -> List[bmc.Description]:
    wanted = request.of_options(params)
    return request.ask(
        wanted, work=lambda targets: drivers.describe(targets, deadline=params["deadline"]), refuse=bmc.unread
    )


if __name__ == "__main__":
    main()
