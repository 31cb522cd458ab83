# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `drbd_verdicts` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: drbd_verdicts
short_description: Decide which repairs the DRBD disks of an instance need
version_added: 0.1.0
description:
  - >-
    Judges what M(roundsman.cluster.drbd_info) said on both nodes. Nothing is contacted. It is a step of the
    role C(repair).
options:
  instance:
    description: >-
      The instance, as plays know it.
    type: dict
    required: true
  primary:
    description: >-
      What was read on its primary.
    type: dict
    required: true
  secondary:
    description: >-
      What was read on its secondary.
    type: dict
    required: true
  nodes:
    description: >-
      The names of both.
    type: dict
    required: true
  tried:
    description: >-
      What was tried before.
    type: list
    elements: dict
    default: []
  discard:
    description: >-
      The node whose writes since a split brain a person gives up. Without it such writes are never discarded.
    type: str
    default: ""
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
"""
