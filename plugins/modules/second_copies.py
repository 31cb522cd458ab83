# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `second_copies` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: second_copies
short_description: Find instances that run where the configuration does not have them
version_added: 0.1.0
description:
  - >-
    Compares what nodes answered with the configuration. It is a step of the role C(node).
options:
  looks:
    description: >-
      By node the answers of M(roundsman.cluster.instance_info), as C(runs), and of M(roundsman.cluster.drbd_info), as
      C(disks).
    type: dict
    required: true
  records:
    description: >-
      By instance what the configuration says of it.
    type: dict
    required: true
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
found:
  description: By node what runs there and should not, a sentence each. Texts from nodes are escaped and shortened.
  returned: success
  type: dict
troubles:
  description: By node why not everything could be read there.
  returned: success
  type: dict
"""
