"""Make the disks of web1 and web2 on two simulated nodes with DRBD 9, and break each in another way.

Usage: python3 break_disks.py NODES UUID_OF_WEB1 UUID_OF_WEB2 (NODES: the folder of the nodes' roots)
"""

from __future__ import annotations

import sys
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon.lab.simulator import (
    simulated_node,
    simulated_programs,
    simulated_store,
    simulated_world,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.storage import disks, templates

NODES, WEB1, WEB2 = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
ENDS = (disks.End("node1", "192.0.2.1"), disks.End("node2", "192.0.2.2"))
SIZE = 32


def run(node: str, *command: str) -> None:
    simulated_programs.SimulatedPrograms(NODES / node).run(*command)


def boot() -> None:
    for end in ENDS:
        root = NODES / end.name
        simulated_node.new_boot(root)
        (root / simulated_store.VERSION_FILE).parent.mkdir()
        (root / simulated_store.VERSION_FILE).write_text("9")
        run(end.name, "modprobe", "drbd")


def make(instance: str, uuid: str, *minors: int) -> None:
    """Replicas of the instance's disks that are connected and in sync, with the instance running on node1."""
    sizes = tuple(disks.Disk(SIZE, minor=minor) for minor in minors)
    for here, peer in (ENDS, ENDS[::-1]):
        wanted = disks.Disks(instance, uuid, sizes, vg="roundsman", here=here, peer=peer)
        storage = templates.get("drbd", wanted, root=NODES / here.name, hypervisor="fake")
        templates.done(storage.steps(disks.State.PRESENT))
    for number in range(len(minors)):
        run("node1", "drbdadm", "new-current-uuid", "--clear-bitmap", f"{instance}-disk{number}/0")
        run("node1", "drbdadm", "primary", f"{instance}-disk{number}")
    devices = [f"/dev/drbd{minor}" for minor in minors]
    simulated_world.start_writing(NODES / "node1", instance, devices=devices)


def split(resource: str) -> None:
    """Both nodes write after they lost each other."""
    run("node2", "drbdadm", "disconnect", resource)
    run("node1", "drbdadm", "disconnect", resource)
    run("node2", "drbdadm", "primary", resource)
    run("node2", "drbdadm", "secondary", resource)


def main() -> None:
    sys.path.append(str(simulated_node.ON_NODES))
    boot()
    make("web1", WEB1, 0, 1, 2, 3)
    make("web2", WEB2, 4)
    run("node2", "drbdadm", "detach", "web1-disk0/0")
    run("node2", "drbdadm", "down", "web1-disk1")
    run("node2", "drbdadm", "pause-sync", "web1-disk2")
    run("node2", "drbdadm", "invalidate", "web1-disk2")
    split("web1-disk3")
    simulated_world.stop_writing(NODES / "node1", "web2")
    split("web2-disk0")
    run("node1", "drbdadm", "secondary", "web2-disk0")


if __name__ == "__main__":
    main()
