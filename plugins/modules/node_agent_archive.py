# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `node_agent_archive` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_agent_archive
short_description: Put the node agent onto a node
version_added: 0.1.0
description:
  - >-
    Makes one file of the collection that runs the play. It changes only when the agent does.
options:
  dest:
    description: >-
      Where the file goes.
    type: path
    required: true
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
    default: '0644'
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Returns whether the file would change.
  diff_mode:
    support: full
    details: That of M(ansible.builtin.copy).
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
