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
  was_in_sync:
    description: >-
      Whether the source said that the pair is in sync before the instance was stopped.
    type: bool
    default: false
  fenced:
    description: >-
      Who says that the source is off now, C(bmc) or C(stated); empty while it was not made sure of. What may be lost is
      no objection before.
    type: str
    default: ""
  times:
    description: >-
      Seconds of the controller's uptime. C(look) is when the source was first asked, C(seen_off) when it was known to
      be off without a confirmation of the stop, and C(asked) when the target was asked.
    type: dict
    default: {}
  known_off:
    description: >-
      When the source was first known to be off, as it is on record (C(at), unix time), and in seconds of the
      controller's uptime (C(uptime)); empty where nobody has followed that.
    type: dict
    default: {}
  max_loss:
    description: >-
      Seconds of writes that a person gives up where the source does not confirm the stop; -1 for C(failover_max_loss).
    type: int
    default: -1
  unfinished:
    description: >-
      Whether a migration between the two nodes has not ended, so that either may run the instance.
    type: bool
    default: false
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
adopts:
  description: Whether a migration that has not ended took the instance to the target, where it runs.
  returned: success
  type: bool
in_sync:
  description: Whether both nodes answered that the pair is in sync.
  returned: success
  type: bool
answers:
  description: Whether the source answered.
  returned: success
  type: bool
waits:
  description: >-
    The C(reason) and the C(unblock) of an objection that only a person lifts, because of what may be lost; empty for
    any other.
  returned: success
  type: dict
loss:
  description: Which writes may be lost because the source did not confirm its stop; empty for none.
  returned: success
  type: dict
  contains:
    seconds:
      description: Of how many seconds; null where that is not known.
      type: float
      returned: when writes may be lost
    last_in_sync:
      description: >-
        Until when the pair is known to have been in sync, as unix time, 20 s before the target last saw that; null if
        it cannot say.
      type: float
      returned: when writes may be lost
    ignored: {description: Whether a person said that it may be lost., type: bool, returned: when writes may be lost}
text:
  description: The same in a sentence, empty for none.
  returned: success
  type: str
end:
  description: The command that ends the guest of the instance, for a person on the node where it is to end.
  returned: success
  type: str
"""
