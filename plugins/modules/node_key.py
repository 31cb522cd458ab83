# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `node_key` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_key
short_description: Give a node its own key
version_added: 0.1.0
description:
  - >-
    The key is derived from the cluster's, which stays on the controller. Neither is ever in the result or a
    difference.
options:
  dest:
    description: >-
      Where the key goes.
    type: path
    default: /var/lib/roundsman/node.key
  owner:
    description: >-
      Its owner.
    type: str
    default: root
  group:
    description: >-
      Its group.
    type: str
    default: root
  mode:
    description: >-
      Its mode.
    type: str
    default: '0400'
  node:
    description: >-
      The UUID of the node.
    type: str
    required: true
  cluster_key:
    description: >-
      The cluster's key, a file of the controller.
    type: path
    default: /var/lib/roundsman/hmac.key
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Returns whether the file would change.
  diff_mode:
    support: none
    details: Keys are in no difference.
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
dest:
  description: The path of the file on the node.
  returned: success
  type: str
"""
