# Copyright: Contributors to the Roundsman project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module roundsman.cluster.oob_health."""

from __future__ import annotations

DOCUMENTATION = r"""
module: oob_health
short_description: Ask many BMCs how their nodes are
version_added: 0.1.0
description:
  - Asks any number of BMCs for the health of their nodes, side by side, from the host the task runs on.
  - With V(ipmi) each sensor is an item; with V(redfish) the system, and then each part of it that is not well; with
    a helper program what it says to C(health).
  - Nothing read is never taken for good. A node of which no item is known to be well is V(UNKNOWN), and so is one
    whose BMC broke off before its end, unless what it reported is bad already.
author:
  - Contributors to the Roundsman project (@roundsman)
extends_documentation_fragment:
  - roundsman.cluster.bmc
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
requirements:
  - pyghmi >= 1.6.19, on the host the task runs on, unless all BMCs are reached through helper programs
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
      - Seconds each BMC or helper program has to report everything, 60 by default.
      - A BMC with many sensors needs one question for each.
      - 32 BMCs are asked at a time.
    type: float
seealso:
  - module: roundsman.cluster.oob_power
  - module: roundsman.cluster.oob_info
"""

EXAMPLES = r"""
- name: See how two nodes are
  roundsman.cluster.oob_health:
    credentials_file: /etc/roundsman/bmc.json
    nodes: [node3, node4]
  register: health

- name: Fail when anything is critical
  ansible.builtin.assert:
    that: health.results | map(attribute='status') | select('eq', 'CRITICAL') | length == 0
"""

RETURN = r"""
results:
  description: How each node is, in the order asked for.
  returned: always, unless the request itself was refused
  type: list
  elements: dict
  contains:
    name: {description: The node., type: str, returned: always}
    status:
      description: "The worst of the items: V(OK), V(WARNING), V(CRITICAL) or V(UNKNOWN)."
      type: str
      returned: always
    items:
      description:
        - Pairs of an item and its status, one of the same four.
        - In Jinja write C(result['items']), because C(result.items) is a method.
      type: list
      elements: list
      returned: always
      sample: [["FAN 1 RPM", "OK"], ["PS Redundancy", "WARNING"]]
    reason:
      description: >-
        Why not everything could be asked, one of V(timeout), V(unreachable), V(auth), V(cipher), V(busy), V(refused),
        V(unconfigured) and V(driver); none when everything was.
      type: str
      returned: always
    text: {description: The reason in a sentence., type: str, returned: always}
trouble:
  description: What is V(WARNING) or V(CRITICAL), as triples of node, item and status.
  returned: always, unless the request itself was refused
  type: list
  elements: list
  sample: [["node3", "PS Redundancy", "WARNING"]]
unknown:
  description: The names of the nodes whose status is V(UNKNOWN).
  returned: always, unless the request itself was refused
  type: list
  elements: str
"""

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.domain.power import health
from ..module_utils.domain.values import errors
from ..module_utils.oob import drivers, request


def main() -> None:
    module = AnsibleModule(argument_spec=dict(request.OPTIONS), supports_check_mode=True, **request.TOGETHER)
    try:
        told = _ask(module.params)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        results=[answer.as_dict() for answer in told],
        trouble=[
            [answer.name, item.name, item.status.value]
            for answer in told
            for item in answer.items
            if item.status in health.TROUBLE
        ],
        unknown=[answer.name for answer in told if answer.status is health.Status.UNKNOWN],
    )


def _ask(params: Dict[str, Any]) -> List[health.Health]:
    wanted = request.of_options(params)
    return request.ask(
        wanted, work=lambda targets: drivers.health(targets, deadline=params["deadline"]), refuse=health.unread
    )


if __name__ == "__main__":
    main()
