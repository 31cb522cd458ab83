# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `failover_check` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: failover_check
short_description: Decide whether an instance may be failed over
version_added: 0.1.0
description:
  - >-
    Judges what M(roundsman.cluster.instance_disks) and M(roundsman.cluster.instance_info) answered on both nodes.
    Nothing is contacted. It is a step of the role C(instance).
options:
  instance:
    description: >-
      The instance, as plays know it.
    type: dict
    required: true
  source:
    description: >-
      The C(name) of its primary and the result of its C(disks), empty where it may not be contacted.
    type: dict
    required: true
  target:
    description: >-
      The C(name) of the other node and the results of its C(disks) and its C(guests).
    type: dict
    required: true
  replicated:
    description: >-
      Whether both nodes have replicas of its disks.
    type: bool
    required: true
  judged:
    description: >-
      Whether the target's replica counts as in sync by what its nodes reported, where the source does not answer and
      has not answered in this failover. In a play by hand this is judged again before the instance is stopped.
    type: bool
    default: false
  parted_since:
    description: >-
      Since when the pair was on record as out of sync when that was judged, as a unix time, 0 for not at all. Another
      time on record now is an objection.
    type: float
    default: 0
  ignore_consistency:
    description: >-
      Whether a replica may be started that is not known to be in sync. Writes may be lost.
    type: bool
    default: false
  stopped:
    description: >-
      Whether the source confirmed that it stopped the instance.
    type: bool
    default: false
  answered:
    description: >-
      Whether the source has answered in this failover before.
    type: bool
    default: false
  was_in_sync:
    description: >-
      Whether the source said that the pair is in sync before the instance was stopped.
    type: bool
    default: false
  times:
    description: >-
      Seconds of the controller's uptime. C(look) is when the source was first asked, C(silent) when its stop came back
      without a confirmation, C(seen_off) when it was known to be off. Empty before the stop.
    type: dict
    default: {}
  interval:
    description: >-
      Seconds between two reports of a node.
    type: float
    default: 0
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
  description: Why the instance may not be failed over; empty if it may.
  returned: success
  type: str
alone:
  description: Whether the replica of the target may become primary without its peer.
  returned: success
  type: bool
forced:
  description: What is promoted by force, in a sentence; empty for nothing.
  returned: success
  type: str
in_sync:
  description: Whether both nodes answered that the pair is in sync.
  returned: success
  type: bool
answers:
  description: Whether the source answered.
  returned: success
  type: bool
loss:
  description: Which writes may be lost because the source did not confirm its stop; empty for none.
  returned: success
  type: dict
  contains:
    last_in_sync:
      description: When the source last answered that the pair is in sync, as unix time; 0 if it did not.
      type: float
      returned: when writes may be lost
    seen_off:
      description: When the source was known to be off, as unix time; 0 if it is not known.
      type: float
      returned: when writes may be lost
    ignored: {description: Whether a person said that it may be lost., type: bool, returned: when writes may be lost}
"""
