"""Bringing a bed up and down."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import processes, world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors

from . import capabilities, containers, controller, images, seeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import beds

MADE = ("controller", "inventory", "nodes", "shared", "cp", "bmc-faults")
"""Folders of a bed that go with it."""
FILES = ("bed.json", "key", "key.pub", "host_key", "host_key.pub", "known_hosts", "bmcs.pid", "daemon.pid")
STEADY = 120.0
"""Seconds after which a node that does not answer will not."""


def up_containers(bed: beds.Bed, *, tell: Callable[[str], None]) -> None:
    """Start the containers of an empty bed; on any trouble nothing of them is left.

    Raises:
        Missing: the machine lacks what it takes.
        Refused: something is up in that folder.
        Failed: a step failed, or a node does not answer.
    """
    _refuse_used(bed)
    capabilities.look_for(capabilities.IMAGE)
    image = images.host()
    with contextlib.ExitStack() as undo:
        undo.callback(down, bed)
        for name in ("key", "host_key"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", bed.name, "-f", str(bed.folder / name)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        tell("starting three containers")
        _record(bed, kind="containers", nodes=containers.make_network(bed))
        cluster = controller.write(bed)
        seeds.trust(bed)
        containers.start(bed, cluster, image=image)
        start_bmcs(bed)
        for name in bed.addresses():
            await_node(bed, name)
        undo.pop_all()


def down(bed: beds.Bed) -> None:
    """End everything that was started for the bed, and remove its files; what is not there is no error."""
    lab = world.Lab(bed.folder)
    if (bed.controller / "var/log").exists():
        processes.down(lab)
    if shutil.which("podman"):
        containers.remove(bed)
    for name in MADE:
        shutil.rmtree(bed.folder / name, ignore_errors=True)
    for name in FILES:
        (bed.folder / name).unlink(missing_ok=True)


def start_bmcs(bed: beds.Bed) -> None:
    """Start the BMCs of the bed's nodes."""
    python = {"PYTHONPATH": str(images.CHECKOUT)}
    processes.start(world.Lab(bed.folder), "bmcs", f"{__package__}.bmcs", [str(bed.folder)], environment=python)


def await_node(bed: beds.Bed, name: str, *, seconds: float = STEADY) -> None:
    """Wait until a node lets the bed in and libvirt answers there.

    Raises:
        Failed: it did not within that time.
    """
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            socket.create_connection((bed.addresses()[name], 22), timeout=5).close()
            done = bed.run(name, "virsh --connect qemu:///system version", check=False, seconds=30)
            if done.returncode == 0:
                return
        if time.monotonic() > end:
            raise errors.Failed(f"{name} does not answer within {seconds:g} s")
        time.sleep(0.2)


def _refuse_used(bed: beds.Bed) -> None:
    if bed.record():
        raise errors.Refused(f"{bed.record()['kind']} are up in {bed.folder}: bring them down, or give another --dir")


def _record(bed: beds.Bed, *, kind: str, nodes: dict[str, Any]) -> None:
    for number, node in enumerate(nodes.values(), start=1):
        node["bmc"] = f"127.78.0.{number}"
    bmc = {"port": processes.free_port(socket.SOCK_DGRAM), "password": secrets.token_hex(8)}
    bed.keep_record({"kind": kind, "nodes": nodes, "bmc": bmc})
