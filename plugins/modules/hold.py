# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `hold` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: hold
short_description: Hold instances and nodes until the play ends
version_added: 0.1.0
description:
  - >-
    The first task of every play that records something. Under the daemon it checks what the job was
    granted; by hand it takes the locks from the daemon, or the configuration's where there is none.
options:
  instances:
    description: >-
      The UUIDs of instances, each with V(shared) or V(exclusive).
    type: dict
    default: {}
  nodes:
    description: >-
      The UUIDs of nodes, each with V(shared) or V(exclusive).
    type: dict
    default: {}
  power:
    description: >-
      The UUIDs of nodes whose power is commanded (V(exclusive)) or only read (V(shared)). The nodes are held, too,
      V(shared) unless O(nodes) says otherwise.
    type: dict
    default: {}
  time_limit:
    description: >-
      How long they are waited for, in seconds.
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
- name: Hold an instance
  roundsman.cluster.hold:
    instances: {5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11: exclusive}
"""

RETURN = r"""
# It returns nothing of its own.
"""
