# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `record` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: record
short_description: Record what became true of an instance or a node
version_added: 0.1.0
description:
  - >-
    Hands a change to whoever keeps the configuration, the moment it is true; see C(docs/decisions/hold-and-
    record.md). What it is about must be held exclusively; for V(node_lived) a shared lock is enough.
  - >-
    The fields of a change stand beside O(change), such as C(instance), C(primary) and C(secondaries) for
    V(instance_nodes).
options:
  change:
    description: >-
      The kind of change, such as V(instance_nodes), V(instance_state), V(node_lived), V(node_powered) or V(node_role).
    type: str
    required: true
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Record where an instance is
  roundsman.cluster.record:
    change: instance_nodes
    instance: 5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11
    primary: 2a6b7f0e-6f0e-4a53-9a3c-0f5f6c1a2b33
    secondaries: []
"""

RETURN = r"""
"""
