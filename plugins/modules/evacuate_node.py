# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `evacuate_node` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: evacuate_node
short_description: Plan the evacuation of a node, and hold what it needs
version_added: 0.1.0
description:
  - >-
    Runs on the controller and returns the steps that empty a node, and what has to stay with the reason.
    The role C(evacuate) does the steps.
  - >-
    In check mode nothing is held.
options:
  node:
    description: >-
      The name of the node.
    type: str
    required: true
  failover:
    description: >-
      Whether instances are stopped and started elsewhere, and not migrated live.
    type: bool
    default: false
  ignore_consistency:
    description: >-
      Fail over also where the target's replica is not known to be in sync. Writes may be lost; the audit log names
      the user.
    type: bool
    default: false
  max_loss:
    description: >-
      How many seconds of writes a failover may lose where the node cannot be asked; -1 for C(failover_max_loss) of its
      group or of the cluster.
    type: int
    default: -1
  time_limit:
    description: >-
      How long locks are waited for, in seconds.
    type: float
    default: 300
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Returns the plan. Nothing is held.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Plan the evacuation of a node
  roundsman.cluster.evacuate_node:
    node: node2
  register: evacuation
"""

RETURN = r"""
steps:
  description: The steps that empty the node, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: The opcode, such as V(migrate), V(failover) or V(replace_disks).
      type: str
      returned: always
    text: {description: The step in a sentence., type: str, returned: always}
    variables: {description: The variables that the tasks of the opcode read., type: dict, returned: always}
refusals:
  description: What has to stay.
  returned: success
  type: list
  elements: dict
  contains:
    instance: {description: The name of the instance., type: str, returned: always}
    text: {description: Why it stays., type: str, returned: always}
    unblock: {description: What would make the move possible; empty if nothing is known., type: str, returned: always}
msg:
  description: The steps and the refusals, a line each.
  returned: success
  type: list
  elements: str
look:
  description: >-
    What to read from the nodes before the first step, because a play that was killed may have moved an instance.
  returned: success
  type: dict
  contains:
    expected: {description: The instances that should run on the node., type: dict, returned: always}
    hypervisors: {description: The hypervisors to ask., type: list, elements: str, returned: always}
    known: {description: By instance the UUIDs of its nodes., type: dict, returned: always}
    nodes: {description: The nodes to ask., type: list, elements: dict, returned: always}
    unasked:
      description: The names of the nodes that may not be contacted.
      type: list
      elements: str
      returned: always
    "off": {description: The UUIDs of the nodes that are known to be off., type: list, elements: str, returned: always}
    unfinished:
      description: The instances of which a migration has not ended.
      type: list
      elements: str
      returned: always
"""
