# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `epo_returned` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: epo_returned
short_description: Strike off the nodes that are back after an emergency
version_added: 0.1.0
description:
  - >-
    Says how far the return has come and ends its hold. It is a step of C(playbooks/epo.yml).
options:
  nodes:
    description: >-
      The names of the nodes and their UUIDs.
    type: dict
    required: true
  since:
    description: >-
      When the return began, as unix time.
    type: float
    default: 0
  ends:
    description: >-
      Whether the return ends now.
    type: bool
    default: false
  ignore_failures:
    description: >-
      Whether it ends although nodes are missing.
    type: bool
    default: false
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Records nothing.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
since:
  description: When the return began, as unix time.
  returned: success
  type: float
here:
  description: V(localhost) while anything is left to do, else empty.
  returned: success
  type: list
  elements: str
waiting:
  description: The names of the nodes that have not answered yet.
  returned: success
  type: list
  elements: str
replicas:
  description: By node the instances whose replicas are to be brought up there.
  returned: success
  type: dict
starts:
  description: By node the instances to start there now.
  returned: success
  type: dict
timeouts:
  description: In C(replicas) and C(starts), by node, the seconds that the task gets that handles these instances.
  returned: success
  type: dict
missed:
  description: What is not back, a sentence each.
  returned: success
  type: list
  elements: str
stands:
  description: Whether maintenance is still held, and for what, in a sentence.
  returned: success
  type: str
"""
