# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `power_hold` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: power_hold
short_description: Hold nodes whose power is commanded by hand
version_added: 0.1.0
description:
  - >-
    Says what the steps need. It is a step of C(playbooks/power.yml).
options:
  command:
    description: >-
      What will be done.
    type: str
    choices: ["status", "on", "off", "cycle"]
    required: true
  names:
    description: >-
      The nodes; none is all of them, for a status only.
    type: list
    elements: str
    default: []
  force:
    description: >-
      Whether nodes with running instances are meant, too.
    type: bool
    default: false
  delay:
    description: >-
      Seconds between two batches.
    type: float
    default: 0
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
    details: Holds nothing, and the steps send nothing.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
step:
  description: What the steps of the role C(node) are given.
  returned: success
  type: dict
"""
