# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `repair_instance` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: repair_instance
short_description: Hold an instance whose disks are repaired by hand
version_added: 0.1.0
description:
  - >-
    Says what the steps of the role C(repair) need. In check mode nothing is held.
options:
  name:
    description: >-
      The name of the instance.
    type: str
    required: true
  discard:
    description: >-
      The node whose writes since a split brain are to be lost. Without it such writes are never discarded.
    type: str
    default: ""
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
    details: Holds nothing.
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
  description: What the steps of the role C(repair) are given.
  returned: success
  type: dict
"""
