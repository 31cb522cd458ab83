"""The simulated replicas of a lab, changed by the commands that the steps of opcodes run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils.storage import programs

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon.lab import world


def run(lab: world.Lab, node: str, *command: str, opcode: str = "") -> str:
    """Run a program of DRBD or LVM on a node."""
    return programs.runner_for(lab.node(node).root, hypervisor="fake", opcode=opcode).run(*command)


def share(lab: world.Lab, resource: str, source: str, target: str) -> None:
    """Make both nodes primary, as before a migration."""
    run(lab, source, "drbdadm", "net-options", "--allow-two-primaries=yes", resource)
    run(lab, target, "drbdadm", "primary", resource)


def unshare(lab: world.Lab, resource: str, source: str, target: str) -> None:
    """Make only the target primary, as after a migration."""
    run(lab, source, "drbdadm", "secondary", resource)
    run(lab, target, "drbdadm", "net-options", "--allow-two-primaries=no", resource)


def remove(lab: world.Lab, node: str, instance: str, uuid: str, *, opcode: str = "x") -> None:
    """Remove the replica of an instance with one disk."""
    run(lab, node, "drbdadm", "secondary", f"{instance}-disk0")
    run(lab, node, "drbdsetup", "down", f"{instance}-disk0")
    (lab.node(node).root / f"etc/drbd.d/roundsman-{instance}-disk0.res").unlink()
    for kind in ("disk", "meta"):
        run(lab, node, "lvremove", "--yes", f"roundsman/{uuid}.{kind}0", opcode=opcode)


def create(lab: world.Lab, node: str, peer: str, instance: str, uuid: str, *, opcode: str = "x") -> None:
    """Make a replica of an instance with one disk, which waits for its peer."""
    copied = lab.node(peer).root / f"etc/drbd.d/roundsman-{instance}-disk0.res"
    lines = copied.read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("  on "))
    size = (len(lines) - first - 1) // 2
    own = "".join(lines[first : first + size]).replace(f"on {peer} ", f"on {node} ")
    file = lab.node(node).root / f"etc/drbd.d/roundsman-{instance}-disk0.res"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(lines[:first]) + own + "".join(lines[first : first + size]) + "}\n")
    for kind, mib in (("disk", 10240), ("meta", 4)):
        run(lab, node, "lvcreate", "--size", f"{mib}m", "--name", f"{uuid}.{kind}0", "roundsman")
    run(lab, node, "drbdadm", "create-md", "--force", f"{instance}-disk0", opcode=opcode)
    run(lab, node, "drbdadm", "adjust", f"{instance}-disk0")
