# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `node_answers` takes; it runs on the controller, and no module on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_answers
short_description: See whether a node shows any sign of life
version_added: 0.1.0
description:
  - >-
    Starts a program on the node, where its SSH server accepts connections. A node on which it ends is alive. Any
    machine that has the node's address may accept connections, so an open port alone is no sign of life; it only keeps
    a node that reads on at its BMC from being fenced for its silence.
options:
  address:
    description: >-
      The address of the node's agent.
    type: str
    default: ""
  port:
    description: >-
      The port of the node's agent; 0 if it has none.
    type: int
    default: 0
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Only reads, in check mode too.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
alive:
  description: That a program ended there, in a sentence; empty if none did.
  returned: success
  type: str
accepts:
  description: Which port of a node that is not alive accepts connections, in a sentence; empty if none does.
  returned: success
  type: str
"""
