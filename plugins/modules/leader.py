# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that says which controller a node follows, and has it follow the one that offers an epoch."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: leader
short_description: See which controller a node follows, or have it follow another one
version_added: 0.1.0
description:
  - Answers which controller this node follows, in which boot the node is, and which steps hold the lock of an instance.
  - With O(offer) the node follows that epoch from now on, durably, unless it follows a later one already.
  - roundsmand asks so where a cluster has no agents that vote, and only when a person states that no other controller
    works, or after a node has refused a step.
options:
  offer:
    description:
      - The epoch to follow, as RV(follows) has it. Without it the node is only asked.
    type: dict
  boot:
    description:
      - The boot id of the node for which O(offer) is. In another boot the node does not follow it.
    type: str
    default: ''
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Follows nothing in check mode, and answers as without an offer.
    support: full
  diff_mode:
    details: Has no differences to show.
    support: none
seealso:
  - module: roundsman.cluster.diagnose
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: See which controller the node follows
  roundsman.cluster.leader:
  register: leader
"""

RETURN = r"""
node:
  description: The UUID of the node, by its own settings.
  returned: success
  type: str
boot:
  description: The boot id of the node, empty where it is unknown.
  returned: success
  type: str
follows:
  description: The epoch that the node follows after the question; null where no controller has led it yet.
  returned: success
  type: dict
  contains:
    number:
      description: The number of the epoch.
      type: int
    id:
      description: The random id of the epoch.
      type: str
    master:
      description: The UUID of the node that is the master by the configuration of that controller.
      type: str
    serial:
      description: The serial number of that configuration.
      type: int
    goes_on:
      description: The ids of earlier epochs whose runs go on.
      type: list
      elements: str
refusal:
  description: Why the node does not follow the offer, empty where it does or none was made.
  returned: success
  type: str
steps:
  description: What each step noted that holds the lock of an instance, by the instance.
  returned: success
  type: dict
"""

import os
from typing import TYPE_CHECKING, Optional

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, leader_record, node_settings
from ..module_utils.domain.agent import votes
from ..module_utils.domain.values import errors
from ..module_utils.storage import node_boot

if TYPE_CHECKING:
    from ..module_utils.domain.agent import epochs


def main() -> None:
    spec = {"offer": {"type": "dict"}, "boot": {"type": "str", "default": ""}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        node = node_settings.load(os.environ)
        before = leader_record.load(node.root)
        refusal = "" if module.check_mode else _follow(node, votes.kept(module.params["offer"]), module.params["boot"])
        follows = leader_record.load(node.root)
        # Looked at last: what had begun before this node followed the epoch still holds its lock, or has ended.
        steps = instance_lock.steps(node.root)
    except errors.RoundsmanError as e:
        module.fail_json(msg=str(e))
    module.exit_json(
        changed=follows != before,
        node=node.node,
        boot=node_boot.boot_id(node.root),
        follows=votes.document(follows),
        refusal=refusal,
        steps=steps,
    )


def _follow(node: node_settings.Settings, offer: Optional[epochs.Kept], boot: str) -> str:
    """Follow an offer; returns why the node does not."""
    try:
        if offer is not None:
            leader_record.follow(node.root, offer, boot=boot)
    except errors.NotFollowed as e:
        return str(e)
    return ""


if __name__ == "__main__":
    main()
