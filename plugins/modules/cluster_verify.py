# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action `cluster_verify` takes; it runs on the controller, and nothing of it on a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: cluster_verify
short_description: Find what is wrong with a cluster, and change nothing
version_added: 0.1.0
description:
  - >-
    Compares the power of nodes with their record, and checks what the master candidates report. It runs on the
    controller, as a step of the role C(cluster).
options:
  targets:
    description: >-
      The nodes, each with C(name), C(powered) and C(driver).
    type: list
    elements: dict
    required: true
  paths:
    description: >-
      The files that master candidates keep.
    type: list
    elements: str
    required: true
  looks:
    description: >-
      What each candidate reported.
    type: dict
    required: true
  unseen:
    description: >-
      Why a node was not checked.
    type: dict
    default: {}
  ignored:
    description: >-
      By node the names of its host variables that no run uses.
    type: dict
    default: {}
  refused:
    description: >-
      By name the nodes that no run can have as a host, because of their name, an address or host variables that are not
      root's, with the reason. They are not asked.
    type: dict
    default: {}
  differing:
    description: >-
      By node the sentence that names the diagnose command it runs instead of the cluster's.
    type: dict
    default: {}
  degraded:
    description: >-
      The instances that write without their secondary, each with C(node), its primary, and C(text), the sentence.
    type: list
    elements: dict
    default: []
  runs:
    description: >-
      By node the answers of M(roundsman.cluster.instance_info) for each hypervisor.
    type: dict
    default: {}
  offline:
    description: >-
      Those of these nodes that are offline, which need not answer.
    type: list
    elements: str
    default: []
  not_asked:
    description: >-
      By name the nodes that are not asked what runs there, with the reason.
    type: dict
    default: {}
  disks:
    description: >-
      By node the answers of M(roundsman.cluster.drbd_info) for each hypervisor.
    type: dict
    default: {}
  left_behind:
    description: >-
      By node the instances that left replicas there.
    type: dict
    default: {}
  records:
    description: >-
      By instance what the configuration says of it.
    type: dict
    default: {}
  before:
    description: >-
      The result of the first comparison, after which the nodes that differed were asked again.
    type: dict
    default: {}
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
findings:
  description: What is wrong, a limited number for each node. Texts from nodes are escaped and shortened.
  returned: success
  type: list
  elements: dict
  contains:
    check: {description: The name of the check., type: str, returned: always}
    node: {description: The name of the node., type: str, returned: always}
    text: {description: The finding in a sentence., type: str, returned: always}
looked_at:
  description: The names of the nodes on which everything that runs there was seen.
  returned: success
  type: list
  elements: str
not_looked_at:
  description: By name the nodes on which not everything was seen, with the reason.
  returned: success
  type: dict
again:
  description: The names of the nodes to ask again, because what they run differs from the configuration.
  returned: success
  type: list
  elements: str
differing:
  description: The names of the instances that run where the configuration does not have them, or the reverse.
  returned: success
  type: list
  elements: str
records:
  description: What the configuration has of each instance in RV(differing), by name.
  returned: success
  type: dict
busy:
  description: The names of the instances that jobs or plays work on now.
  returned: success
  type: list
  elements: str
unjudged:
  description: The names of the instances in RV(differing) that are not judged, because jobs or plays worked on them.
  returned: success
  type: list
  elements: str
"""
