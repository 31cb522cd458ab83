# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `drbd_verdicts` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: drbd_verdicts
short_description: Decide which repairs the DRBD disks of an instance need
version_added: 0.1.0
description:
  - >-
    Judges what M(roundsman.cluster.drbd_info) said on both nodes. Nothing is contacted. It is a step of the
    role C(repair).
options:
  instance:
    description: >-
      The instance, as plays know it.
    type: dict
    required: true
  primary:
    description: >-
      What was read on its primary.
    type: dict
    required: true
  secondary:
    description: >-
      What was read on its secondary.
    type: dict
    required: true
  nodes:
    description: >-
      The names of both.
    type: dict
    required: true
  tried:
    description: >-
      What was tried before.
    type: list
    elements: dict
    default: []
  undone:
    description: >-
      What of it ended in an error, and so says nothing of what would help.
    type: list
    elements: dict
    default: []
  discard:
    description: >-
      The node whose writes since a split brain a person gives up. Without it such writes are never discarded.
    type: str
    default: ""
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Contacts nothing and changes nothing.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
resources:
  description: The names of the DRBD resources of the instance.
  returned: success
  type: list
  elements: str
lines:
  description: The verdict on each resource, a sentence each.
  returned: success
  type: list
  elements: str
tried:
  description: What O(tried) names, a sentence each.
  returned: success
  type: list
  elements: str
steps:
  description: The repairs that are needed now, in this order.
  returned: success
  type: list
  elements: dict
  contains:
    resource: {description: The DRBD resource., type: str, returned: always}
    action: {description: The O(roundsman.cluster.drbd_repair#module:action)., type: str, returned: always}
    where: {description: "V(primary) or V(secondary).", type: str, returned: always}
    node: {description: The name of that node., type: str, returned: always}
refused:
  description: Why a resource is not repaired, a sentence each. A person has to decide.
  returned: success
  type: list
  elements: str
replaced:
  description: The resources whose replica on the secondary has to be replaced, a sentence each.
  returned: success
  type: list
  elements: str
waiting:
  description: The resources that are resyncing or connecting, a sentence each.
  returned: success
  type: list
  elements: str
"""
