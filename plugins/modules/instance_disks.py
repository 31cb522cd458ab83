# Copyright: the Roundsman founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that makes an instance's disks on a node what they shall be there."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: instance_disks
short_description: Create, activate, share and remove the disks of an instance on this node
version_added: 0.1.0
description:
  - Brings the disks of an instance on this node into the wanted state and returns their state.
  - It knows nothing of other nodes; the locks and the order of the steps take care of them.
  - A disk without a name is created and removed by Roundsman. A disk with a name was adopted; it is used, and neither
    created nor removed, and the nodes of a DRBD resource that was adopted are not changed.
  - To give a replicated disk a new secondary, make it C(present) on the new node with the primary as I(peer), and
    C(disconnected) there and on the old one. Then make it C(active) (or C(present)) on the primary with the new node as
    I(peer) and I(new_secret), and C(present) on the new node again, which connects it. One that connects before its
    primary waits for it ends standing alone. Wait on the primary until the replicas are in sync with I(state=info) and
    I(wait_synced), ask the new node whether it has the data, and only then make it C(absent) on the old node.
  - To replace the disks of the secondary on the same node, make them C(absent) there first; the rest is the same.
    To recreate all disks, C(absent) on the secondary, C(absent) on the primary, C(present) on both, C(active).
  - For the fake hypervisor of the lab DRBD and LVM are simulated; everything else is done as on a real node.
options:
  state:
    description:
      - C(present), there is a replica here. For DRBD its volumes, its metadata and its file, up and connecting to
        I(peer). A node that is primary stays so.
      - C(active), the instance may run here. The volume is active; DRBD is primary here and may not be on two nodes.
        The first primary of a new pair starts the first, full resync to the other one, so that later comparisons of
        the two are valid. A replica without its peer becomes primary only with O(alone).
      - C(shared), the instance may run here and on the other node, for the time of a live migration. For DRBD both
        replicas must be up to date; run it on the source first. Volumes and files of one node cannot be shared.
      - C(standby), the instance may not run here. The volume is not active; DRBD is secondary.
      - C(up), a replica that is whole and down comes up, as after a boot, and no role is changed.
      - C(disconnected), a DRBD replica here lets its peer go, and waits for none. DRBD 8.4 takes any node that
        connects for its peer, from any address; so the old secondary has to be disconnected before the primary waits
        for another one. A primary is not disconnected.
      - C(absent), there is no replica here. A replica in use is kept, and so is one whose peer is not known to be up
        to date, unless O(last) is given.
      - C(info), nothing is changed.
      - With C(present), C(active) and C(shared) a DRBD disk whose I(peer) is another than before gets the new one,
        while the instance runs on; only a replica that is up to date drops the old peer. A secondary begins a
        generation then, so that the data of the old peer count as older. DRBD 9 forgets the old one, whose number the
        new one gets.
    type: str
    choices: [present, active, shared, standby, up, disconnected, absent, info]
    required: true
  uuid:
    description: UUID of the instance, after which its disks are named.
    type: str
    default: ""
  disk_template:
    description: The disk template of the instance, C(diskless), C(drbd), C(file), C(plain) or C(sharedfile).
    type: str
    default: drbd
  disks:
    description: Its disks, in their order.
    type: list
    elements: dict
    default: []
    suboptions:
      size:
        description: Its size in MiB.
        type: int
        required: true
      name:
        description: The DRBD resource, the C(group/volume) or the path of an adopted disk.
        type: str
        default: ""
      minor:
        description: The minor of its DRBD device; its port is 11000 more.
        type: int
  vg:
    description: The volume group in which volumes are made.
    type: str
    default: roundsman
  file_dir:
    description: The folder in which files are made.
    type: str
    default: /var/lib/roundsman/disks
  here:
    description: This node, as DRBD reaches it.
    type: dict
    suboptions: &end
      name:
        description: The name of the node.
        type: str
        required: true
      address:
        description: Its address for replication, an IP address.
        type: str
        required: true
      node_id:
        description:
          - The number of the node in this resource, for DRBD 9 only. For a new node, give that of the primary
            (RV(node_id) there) in I(peer); the new node gets the other one of 0 and 1.
          - A replica that is here already keeps its numbers. One with other numbers than those given is of an older
            pair, and is refused.
        type: int
      uuid:
        description: Not used; a node can be given as plays know it.
        type: str
  peer:
    description: The other node of a DRBD disk; without it the peer stays as it is.
    type: dict
    suboptions: *end
  secret:
    description:
      - The secret by which the nodes of a new pair know each other in DRBD; at most 63 letters and digits. Give each
        pair of nodes another one, or a secondary that was replaced can pass for the new one.
      - Without it a pair gets the one that Roundsman derives from the cluster's key for these two nodes.
      - Nodes that are a pair already keep the secret that they have, unless O(new_secret) is given.
    type: str
    default: ""
  new_secret:
    description:
      - Whether this node gets the O(secret) although it has another one for the same O(peer). The two part until the
        peer has it too, so set it only while the peer is disconnected and gets the same.
    type: bool
    default: false
  alone:
    description:
      - Whether a DRBD replica may become primary without its peer. DRBD lets a replica be up to date although its peer
        was written since, so set it only if this replica is known to be the newest.
    type: bool
    default: false
  force:
    description:
      - Whether a DRBD replica that is C(Outdated) or C(Consistent) may become primary without its peer, by C(drbdadm
        primary --force). It needs O(alone). What the peer wrote since is lost, so a person has to have said so, and the
        peer has to be off. A replica that is inconsistent, has no disk or has its peer is never forced.
    type: bool
    default: false
  last:
    description:
      - Whether a DRBD replica may be removed although its peer is not known to be up to date. Set it only
        if another replica is known to be in sync, or the data are not needed any more.
    type: bool
    default: false
  generations:
    description: Whether the generation identifiers of DRBD replicas are read, which say whose data are newer.
    type: bool
    default: false
  wait_synced:
    description:
      - Seconds to wait until the replicas are in sync. After that the module returns RV(synced=false) and does not
        fail, so that a task can retry with C(until), and each attempt shows the progress.
      - It fails at once if waiting cannot bring the replicas in sync.
    type: int
    default: 0
  wait_connected:
    description: How many seconds DRBD replicas that are up get to connect to their peers. It does not fail.
    type: int
    default: 0
  wait_parted:
    description: How many seconds DRBD replicas get to notice that they have lost their peers. It does not fail.
    type: int
    default: 0
  own_address:
    description:
      - Whether this node must have the address of O(here); otherwise the module fails and does nothing.
      - A migration sends memory to that address, in clear with some transports, so the node itself confirms it.
    type: bool
    default: false
extends_documentation_fragment:
  - roundsman.cluster.instance
  - roundsman.cluster.attributes
  - roundsman.cluster.attributes.node
attributes:
  check_mode:
    details: Returns the steps that would be done.
    support: full
  diff_mode:
    details: Shows the steps.
    support: full
author:
  - The Roundsman founders (@roundsman)
"""

EXAMPLES = r"""
- name: Make a replica on the new secondary
  roundsman.cluster.instance_disks:
    instance: web1
    uuid: 5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11
    hypervisor: kvm
    disk_template: drbd
    disks: [{size: 10240, minor: 3}]
    here: {name: node4, address: 192.0.2.4}
    peer: {name: node1, address: 192.0.2.1}
    secret: "{{ drbd_secret_of_node1_and_node4 }}"
    state: present
  delegate_to: node4

- name: Let it wait until the primary has it as its peer
  roundsman.cluster.instance_disks:
    instance: web1
    uuid: 5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11
    hypervisor: kvm
    disk_template: drbd
    disks: [{size: 10240, minor: 3}]
    state: disconnected
  delegate_to: node4

- name: Wait until the replicas are equal, a minute at a time
  roundsman.cluster.instance_disks:
    instance: web1
    uuid: 5f0c5d2e-6a0e-4d86-8f0e-0f9d1e3f7a11
    hypervisor: kvm
    disk_template: drbd
    disks: [{size: 10240, minor: 3}]
    state: info
    wait_synced: 60
  register: replicas
  until: replicas is failed or replicas.synced
  retries: 1440
  delay: 0
"""

RETURN = r"""
present:
  description: Whether all disks are on this node now.
  returned: success
  type: bool
devices:
  description: The paths of the disks, in their order.
  returned: success
  type: list
  elements: str
disks:
  description: >-
    Each disk with its C(path), C(size) (MiB, null if it is not there), C(synced), C(progress), C(text), how it is, and
    C(trouble), why its replicas do not become equal by waiting. Of DRBD also C(role), C(disk), C(peer_disk) and
    C(connected), the first three empty where the resource is down, C(peer), the node that its
    file names, C(peer_address), its address for replication there, and C(generation) with O(generations), which is read
    from the metadata where the resource is down. C(seen) is how many seconds ago this node's agent last saw the replica
    in sync with a peer by protocol C, by the address of that peer; it is empty without an agent, after a boot, and for
    a replica that was made since. C(out_of_sync) is what its node has noted to differ from the other replica
    (KiB, null where it does not say).
  returned: success
  type: list
  elements: dict
synced:
  description: Whether both replicas of every disk are up to date and connected; always true where there is one replica.
  returned: success
  type: bool
progress:
  description: How much of the disk that is the least equal is equal on both nodes, in percent.
  returned: success
  type: float
uptime:
  description: Seconds since this node was started (CLOCK_BOOTTIME) at the answer; the ages in C(seen) are of that time.
  returned: success
  type: float
node_id:
  description: The number of this node in its resources, for DRBD 9; null with version 8.4.
  returned: success
  type: int
steps:
  description: What was done, or would be in check mode.
  returned: success
  type: list
  elements: str
"""

import contextlib

from ansible.module_utils.basic import AnsibleModule

from ..module_utils import instance_lock, instance_options, own_addresses
from ..module_utils.domain.values import errors
from ..module_utils.storage import disks, sights, templates

SPEC = {
    **instance_options.SPEC,
    "state": {"type": "str", "required": True, "choices": [state.value for state in disks.State]},
    "uuid": {"type": "str", "default": ""},
    "disk_template": {"type": "str", "default": "drbd"},
    "disks": {"type": "list", "elements": "dict", "default": [], "options": disks.DISK},
    "vg": {"type": "str", "default": "roundsman"},
    "file_dir": {"type": "str", "default": "/var/lib/roundsman/disks"},
    "here": {"type": "dict", "options": disks.END},
    "peer": {"type": "dict", "options": disks.END},
    "secret": {"type": "str", "default": "", "no_log": True},
    "new_secret": {"type": "bool", "default": False, "no_log": False},
    "alone": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "last": {"type": "bool", "default": False},
    "generations": {"type": "bool", "default": False},
    "wait_synced": {"type": "int", "default": 0},
    "wait_connected": {"type": "int", "default": 0},
    "wait_parted": {"type": "int", "default": 0},
    "own_address": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    given, root = module.params, instance_options.root()
    wanted = disks.State(given["state"])
    lock = instance_lock.held(given["instance"], root, opcode=given["opcode"])
    try:
        if given["own_address"]:
            own_addresses.require(given["here"]["address"], name=given["here"]["name"])
        storage = templates.get(
            given["disk_template"],
            disks.of_options(given),
            root=root,
            hypervisor=given["hypervisor"],
            opcode=given["opcode"],
        )
        with contextlib.nullcontext() if module.check_mode or wanted is disks.State.INFO else lock:
            steps = storage.steps(wanted)
            if not module.check_mode:
                templates.done(steps)
        limits = {name: 0 if module.check_mode else given[f"wait_{name}"] for name in templates.WAITS}
        found = templates.waited(storage, **limits)
    except errors.RoundsmanError as error:
        module.fail_json(msg=str(error))
    texts = [step.text for step in steps]
    diff = {"prepared": "".join(f"{text}\n" for text in texts)}
    result = {**disks.as_result(found), "uptime": sights.uptime()}
    module.exit_json(changed=bool(steps), steps=texts, diff=diff, **result)


if __name__ == "__main__":
    main()
