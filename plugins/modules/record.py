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
    Hands a change to the keeper of the configuration, the moment it is true; see C(docs/decisions/hold-and-
    record.md). What it is about must be held exclusively; for V(node_lived) a shared lock is enough.
  - >-
    The fields of a change stand beside O(change), such as C(instance), C(primary) and C(secondaries) for
    V(instance_nodes).
options:
  change:
    description: >-
      The kind of change. Either this or O(changes) is needed.
    type: str
    choices:
      - epo_gone
      - epo_stands
      - instance_gone
      - instance_made
      - instance_moving
      - instance_nodes
      - instance_state
      - node_lived
      - node_powered
      - node_role
      - replica_left
  changes:
    description: >-
      Several changes that are recorded together, all or none, each with its C(change) and its fields. Then no other
      option may be given.
    type: list
    elements: dict
  instance:
    description: >-
      The UUID of the instance, for V(instance_gone), V(instance_made), V(instance_moving), V(instance_nodes),
      V(instance_state) and V(replica_left).
    type: str
  primary:
    description: >-
      The UUID of its primary node, for V(instance_nodes).
    type: str
  secondaries:
    description: >-
      The UUIDs of its secondary nodes, for V(instance_nodes).
    type: list
    elements: str
  admin_state:
    description: >-
      Whether it should run, V(up) or V(down), for V(instance_state).
    type: str
  node:
    description: >-
      The UUID of the node, for V(instance_moving), V(node_lived), V(node_powered), V(node_role) and
      V(replica_left).
    type: str
  powered:
    description: >-
      Whether the node is powered on, for V(node_powered).
    type: bool
  confirms:
    description: >-
      Whether this is a new confirmation that the node is off, for V(node_powered). It is unless this is V(false).
    type: bool
  commanded:
    description: >-
      Whether a command was sent before the node was read back off, for V(node_powered). It was unless this is V(false).
    type: bool
  drained:
    description: >-
      Whether the node gets no new instances, for V(node_role).
    type: bool
  offline:
    description: >-
      Whether the node is not contacted, for V(node_role).
    type: bool
  master_candidate:
    description: >-
      Whether the node may become master, for V(node_role).
    type: bool
  at:
    description: >-
      When the node lived, as unix time, for V(node_lived). It is the time of the record unless given.
    type: float
  witness:
    description: >-
      The UUID of the other node whose report says so, for V(node_lived).
    type: str
  present:
    description: >-
      Whether O(node) keeps a replica that the instance gave up, for V(replica_left).
    type: bool
  is_new:
    description: >-
      Whether this replica is about to be made, as that of a new secondary, for V(replica_left).
    type: bool
  generations:
    description: >-
      The generations of the replicas of the secondary, by disk, that are not newer than those of the primary, for
      V(replica_left).
    type: list
    elements: str
  nodes:
    description: >-
      The UUIDs of the nodes that an emergency power off is about, for V(epo_stands).
    type: list
    elements: str
  instances:
    description: >-
      The UUIDs of the instances that an emergency power off is about, for V(epo_stands).
    type: list
    elements: str
  by:
    description: >-
      The user who commanded the emergency power off, for V(epo_stands).
    type: str
  returning:
    description: >-
      Whether its return has begun, for V(epo_stands).
    type: bool
  lost:
    description: >-
      Whether nobody ordered it and power was lost, for V(epo_stands).
    type: bool
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Records nothing.
  diff_mode:
    support: none
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
recorded:
  description: The arguments of the task.
  returned: success
  type: dict
"""
