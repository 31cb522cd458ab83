# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `epo` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: epo
short_description: Show what an emergency power off would do, and hold the cluster for it
version_added: 0.1.0
description:
  - >-
    Returns a preview with its code. With this code in O(confirm), or with O(force), the cluster is held. It
    is a step of C(playbooks/epo.yml).
options:
  "on":
    description: >-
      Whether this is the return, also of nodes after a loss of power that nobody ordered.
    type: bool
    default: false
  names:
    description: >-
      The nodes, or none for what O(all) says.
    type: list
    elements: str
    default: []
  groups:
    description: >-
      Whether O(names) are node groups.
    type: bool
    default: false
  all:
    description: >-
      Whether every node is meant.
    type: bool
    default: false
  confirm:
    description: >-
      The code of the preview that is confirmed.
    type: str
    default: ''
  force:
    description: >-
      Whether no code is needed.
    type: bool
    default: false
  batch:
    description: >-
      How many nodes are powered at once.
    type: int
    default: 10
  time_limit:
    description: >-
      How long locks are waited for, in seconds.
    type: float
    default: 120
  shutdown_timeout:
    description: >-
      The most that the guest of an instance gets to shut down before it is destroyed, in seconds.
    type: float
    default: 120
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Returns the preview. Nothing is held and nothing is recorded.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
code:
  description: The code of the preview, for O(confirm).
  returned: success
  type: str
preview:
  description: What would be done, a line each, and the code in the last line.
  returned: success
  type: list
  elements: str
here:
  description: V(localhost) if the cluster is held and the next steps may be done, else empty.
  returned: success
  type: list
  elements: str
nodes:
  description: The UUIDs of the nodes, by name.
  returned: success
  type: dict
stopping:
  description: The names of the nodes whose instances are to be stopped first; empty until the preview is confirmed.
  returned: success
  type: list
  elements: str
instances:
  description: >-
    By node the instances to stop or start there, as for O(roundsman.cluster.instances_state#module:instances).
  returned: success
  type: dict
batches:
  description: The nodes in the order in which they are powered, in batches. A node has C(name), C(uuid) and C(driver).
  returned: success
  type: list
  elements: list
left_out:
  description: The names of the nodes among them that are no hosts of this play; what runs there is not asked to stop.
  returned: success
  type: list
  elements: str
last:
  description: The name of the controller's own node if it is among them, which is powered off by hand; else empty.
  returned: success
  type: str
timeouts:
  description: >-
    In C(quick) and C(whole), by node, the seconds that the task gets that stops the instances there, in the first
    and in the second attempt.
  returned: success
  type: dict
"""
