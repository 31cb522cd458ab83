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
  time_limit:
    description: >-
      How long locks are waited for, in seconds.
    type: float
    default: 300
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
"""
