# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `unfinished_check` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: unfinished_check
short_description: Decide where an instance is of which a migration has not ended
version_added: 0.1.0
description:
  - >-
    Judges what M(roundsman.cluster.instance_info) answered on both nodes. Nothing is contacted. It is a step of the
    role C(instance).
options:
  instance:
    description: >-
      The name of the instance.
    type: str
    required: true
  hypervisor:
    description: >-
      Its hypervisor; a refusal names the command that ends a guest there.
    type: str
    required: true
  primary:
    description: >-
      The C(name) of its primary and the result of its C(guests).
    type: dict
    required: true
  other:
    description: >-
      The C(name) of the node where the migration was to take it and the result of its C(guests), empty where it may not
      be contacted.
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
step:
  description: >-
    What becomes of the start: C(stays) where it runs, C(nowhere) as neither node runs it, C(moved) to the other node,
    where it runs, C(fail over) from the other node, which does not answer, or C(refuse).
  returned: success
  type: str
objection:
  description: Why it is refused; empty if it is not.
  returned: success
  type: str
"""
