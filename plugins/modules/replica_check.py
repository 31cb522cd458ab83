# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `replica_check` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: replica_check
short_description: Decide whether the replica of a secondary may be removed or counts, or that of a primary be started
version_added: 0.1.0
description:
  - >-
    Decides from the results of M(roundsman.cluster.instance_disks) on the primary and on the old secondary. No node
    is contacted. It is a step of the role C(instance).
options:
  instance:
    description: >-
      The instance, as plays know it.
    type: dict
    required: true
  primary:
    description: >-
      The C(name) of its primary and the result of its C(disks).
    type: dict
    required: true
  old:
    description: >-
      The C(name) of the old secondary and the result of its C(disks), empty where it may not be contacted.
    type: dict
    required: true
  left_behind:
    description: >-
      Whether I(old) is no longer a secondary and the replica was left behind there: it may then be removed only if its
      generations show that the primary has all of its data.
    type: bool
    default: false
  starts:
    description: >-
      Whether the instance is to be started on its primary: that must not have the older replica. I(old) is its
      secondary then, and nothing is removed.
    type: bool
    default: false
  discards:
    description: >-
      With I(starts), whether a person gives up what I(old) has, where that would hinder the start.
    type: bool
    default: false
  made:
    description: >-
      Whether I(old) is the new secondary: its replica counts once both nodes say that they are connected to each other
      and in sync, with the same generation.
    type: bool
    default: false
  may_stay:
    description: >-
      Whether the old replica may be left behind where it was outdated and the primary is in sync with one on another
      node.
    type: bool
    default: false
  may_have_run:
    description: >-
      Whether a migration may have taken the instance to the old replica's node, which has to say what it has before the
      instance is started.
    type: bool
    default: false
  recorded:
    description: >-
      The generations of the replicas of I(old), by disk, that are on record as not newer than those of I(primary):
      a replica that still has its own may be removed.
    type: list
    elements: str
    default: []
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
objection:
  description: Why not; empty if there is no objection.
  returned: success
  type: str
kept:
  description: >-
    What an outdated replica of O(old) might have that the primary has gone on without; empty for nothing.
  returned: success
  type: str
generations:
  description: >-
    The generations of the replicas of O(old) that may be recorded as not newer than those of the primary; empty if
    there is an objection.
  returned: success
  type: list
  elements: str
"""
