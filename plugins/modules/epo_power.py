# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `epo_power` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: epo_power
short_description: Power the nodes of an emergency
version_added: 0.1.0
description:
  - >-
    Powers batches one after the other, records what reads so, and lists the nodes that do not. It is a step of
    C(playbooks/epo.yml).
options:
  command:
    description: >-
      What to do.
    type: str
    choices: ["on", "emergency_off"]
    required: true
  batches:
    description: >-
      The nodes in their order.
    type: list
    elements: list
    required: true
  stopping:
    description: >-
      Nodes whose instances were stopped.
    type: list
    elements: str
    default: []
  before:
    description: >-
      The C(kept) and C(missed) of the call before; only the nodes that it kept are powered.
    type: dict
    default: {}
  timeouts:
    description: >-
      By node the time that the task had that stopped its instances, in seconds, for the text.
    type: dict
    default: {}
  ignore_failures:
    description: >-
      Whether a node whose instances run on is powered off, too.
    type: bool
    default: false
  delay:
    description: >-
      Seconds between two batches.
    type: float
    default: 0
  deadline:
    description: >-
      Seconds that each BMC has for the command; without it what M(roundsman.cluster.oob_power) gives.
    type: float
  credentials_file:
    description: >-
      The credentials file of the BMCs, on the controller.
    type: str
    required: true
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.controller
attributes:
  check_mode:
    support: full
    details: Reads the power of the nodes. Nothing is sent and nothing is recorded.
  diff_mode:
    support: none
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
# It is a step of a role or playbook of this collection, and of no use alone.
"""

RETURN = r"""
confirmed:
  description: The names of the nodes whose BMC reads back the new state.
  returned: success
  type: list
  elements: str
missed:
  description: The nodes that are not confirmed, and records that failed, a sentence each.
  returned: success
  type: list
  elements: str
kept:
  description: By name, the nodes that keep their power because their instances may still run, with the reason.
  returned: success
  type: dict
"""
