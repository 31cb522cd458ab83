# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `power_command` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: power_command
short_description: Command the power of many nodes, and record what was read back
version_added: 0.1.0
description:
  - >-
    It runs on the controller, as a step of the role C(node).
options:
  command:
    description: >-
      What to do.
    type: str
    choices: ["status", "on", "off", "cycle", "fence", "confirm_off"]
    required: true
  targets:
    description: >-
      The nodes, each with C(uuid), C(name) and C(driver).
    type: list
    elements: dict
    required: true
  forced:
    description: >-
      Whether an off is sent to a node that reads off, too.
    type: bool
    default: false
  refused:
    description: >-
      Why a node is not commanded.
    type: dict
    default: {}
  looks:
    description: >-
      What runs on each node.
    type: dict
    default: {}
  alive:
    description: >-
      By node the answer of M(roundsman.cluster.node_answers). Nodes that showed a sign of life are not fenced.
    type: dict
    default: {}
  delay:
    description: >-
      Seconds between two batches.
    type: float
    default: 0
  batch:
    description: >-
      How many nodes are powered on at once.
    type: int
    default: 10
  expected:
    description: >-
      The state that is expected.
    type: str
    default: ''
  record_read:
    description: >-
      Whether what is only read is recorded.
    type: bool
    default: false
  credentials_file:
    description: >-
      The credentials file of the BMCs, on the controller.
    type: str
    required: true
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Reads the power of the nodes, and returns what would be sent. Nothing is sent and nothing is recorded.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
summary:
  description: The outcome for all nodes in a few words.
  returned: success
  type: str
results:
  description: What became of each node, as RV(roundsman.cluster.oob_power#module:results) has it.
  returned: success
  type: list
  elements: dict
told:
  description: What became of each node, a sentence each.
  returned: success
  type: list
  elements: str
unconfirmed:
  description: The nodes that are not as they should be, a sentence each with the reason.
  returned: success
  type: list
  elements: str
"""
