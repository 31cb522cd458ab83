# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that does one step of a repair to a DRBD resource of a node."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: drbd_repair
short_description: Run one step of a repair of a DRBD resource on this node
version_added: 0.1.0
description:
  - Runs one step, if this node is still in the state that the step expects. The action
    M(roundsman.cluster.drbd_verdicts) decides which steps are needed, from the state of both nodes; the role
    C(repair) runs them all.
  - A step that would discard a replica is refused while the other one is not known to be up to date.
options:
  instance:
    description: Name of the instance whose disk it is; only one step at a time works on an instance.
    type: str
    required: true
  resource:
    description: Name of the resource.
    type: str
    required: true
  action:
    description:
      - C(up) brings the resource up, C(attach) attaches detached disks, C(resume) resumes a resync that was
        paused here, C(connect) connects a node that is StandAlone.
      - C(invalidate) resyncs everything from the peer, which must be connected and up to date.
      - C(demote) makes a primary secondary; DRBD refuses that while a guest has its disk open.
      - C(discard) connects, and discards what was written here since the connection was lost; refused on a primary.
        What is discarded is kept as a snapshot of each logical volume whose volume group has room for it.
      - C(give_up) discards all that this replica has, which then waits to be replaced; as C(discard) otherwise. It is
        for replicas that do not connect.
      - C(outdate) marks a replica that has lost its peer as outdated, so that DRBD refuses to promote it until it was
        synchronized again; refused on a primary, and on a replica that was written without its peer; does nothing
        while the peer is connected.
    type: str
    choices: [up, attach, resume, connect, invalidate, demote, discard, give_up, outdate]
    required: true
  hypervisor:
    description: The hypervisor of the instance; with C(fake) its disks are simulated.
    type: str
    choices: [fake, kvm]
    default: kvm
  opcode:
    description: The opcode, for the journal of the lab.
    type: str
    default: by hand
extends_documentation_fragment:
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Returns the commands that would be run.
    support: full
  diff_mode:
    details: Shows the commands.
    support: full
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Attach the disk again
  roundsman.cluster.drbd_repair:
    instance: web1
    resource: web1-disk0
    action: attach
"""

RETURN = r"""
steps:
  description: The commands that were run, or would be in check mode.
  returned: success
  type: list
  elements: str
snapshots:
  description: Of C(discard) and C(give_up), for each volume the snapshot that keeps what it had, or why there is none.
  returned: success
  type: list
  elements: str
"""

import contextlib

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, instance_options
from ..module_utils.domain.disks import drbd_pairs
from ..module_utils.domain.values import errors
from ..module_utils.storage import drbd_node, drbd_repairing, programs, templates

ACTIONS = {action.name.lower(): action for action in drbd_pairs.Action if action is not drbd_pairs.Action.REPLACE}


def main() -> None:
    spec = {
        "instance": {"type": "str", "required": True},
        "resource": {"type": "str", "required": True},
        "action": {"type": "str", "required": True, "choices": list(ACTIONS)},
        "hypervisor": {**instance_options.SPEC["hypervisor"], "required": False, "default": "kvm"},
        "opcode": {"type": "str", "default": "by hand"},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    given, root = module.params, instance_options.root()
    lock = instance_lock.held(given["instance"], root, opcode=given["opcode"])
    try:
        runner = programs.runner_for(root, hypervisor=given["hypervisor"])
        repairs = drbd_repairing.Repairs(runner, drbd_node.DrbdNode(runner, proc=root / drbd_node.PROC))
        with contextlib.nullcontext() if module.check_mode else lock:
            steps = repairs.steps(ACTIONS[given["action"]], given["resource"])
            if not module.check_mode:
                templates.done(steps)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    texts = [step.text for step in steps]
    snapshots = [step.text for step in steps if isinstance(step, drbd_repairing.Kept)]
    module.exit_json(
        changed=bool(steps), steps=texts, snapshots=snapshots, diff={"prepared": "".join(f"{text}\n" for text in texts)}
    )


if __name__ == "__main__":
    main()
