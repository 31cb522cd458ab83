"""Bringing a bed up and down."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import processes, world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from . import cache, capabilities, containers, controller, guest_image, guests, images, seeds, wires

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from . import beds

    Tell = Callable[[str], None]

MADE = ("controller", "inventory", "nodes", "shared", "bmc-faults")
"""Folders of a bed that go with it."""
FILES = ("bed.json", "key", "key.pub", "host_key", "host_key.pub", "known_hosts", "bmcs.pid", "daemon.pid")
STEADY, BOOT = 120.0, 600.0
"""Seconds after which a node that does not answer will not: one that is started, a guest that boots."""
SSH = 22
ANSWERS = "until virsh --connect qemu:///system version >/dev/null 2>&1; do sleep 1; done"
PREPARE = f"""set -e
vgs {guests.VOLUME_GROUP} >/dev/null 2>&1 || vgcreate -q {guests.VOLUME_GROUP} /dev/vdb
modprobe drbd
sync
"""
ADDRESSES = """set -e
date --set=@{now} >/dev/null
ip address flush dev eth0 scope global
ip address add {address}/24 dev eth0
ip address flush dev eth1 scope global
ip address add {secondary}/24 dev eth1
"""


def up_containers(bed: beds.Bed, *, tell: Tell) -> None:
    """Start the containers of an empty bed; on any trouble nothing of them is left.

    Raises:
        Missing: the machine lacks what it takes.
        Refused: something is up in that folder.
        Failed: a step failed, or a node does not answer.
    """
    _refuse_used(bed)
    capabilities.look_for(capabilities.IMAGE)
    tell("looking for the image")
    image = images.make("host")
    with contextlib.ExitStack() as undo:
        undo.callback(down, bed)
        for name in ("key", "host_key"):
            images.make_key(bed.folder / name)
        tell("starting three containers")
        _record(bed, kind="containers", nodes=containers.make_network(bed))
        cluster = controller.write(bed)
        seeds.trust(bed)
        containers.start(bed, cluster, image=image)
        start_bmcs(bed)
        for name in bed.addresses():
            await_node(bed, name)
        undo.pop_all()


def up_guests(bed: beds.Bed, *, kept: Path, tell: Tell) -> None:
    """Start the guests of an empty bed, from a snapshot where the cache `kept` has one; on trouble nothing is left.

    Raises:
        Missing: the machine lacks what it takes.
        Refused: something is up in that folder.
        Failed: a step failed, or a node does not answer.
    """
    _refuse_used(bed)
    capabilities.look_for(capabilities.GUESTS)
    capabilities.look_for_devices()
    with contextlib.ExitStack() as undo:
        undo.callback(down, bed)
        with cache.locked(kept):
            image = guest_image.made(kept, tell=tell)
            _wire(bed, image)
            snapshot = kept / f"snapshot-{guests.recipe(image, PREPARE)}"
            if not snapshot.exists():
                tell("booting two guests for a snapshot: a minute or two, once")
                with cache.making(kept, snapshot.name) as new:
                    _make_snapshot(bed, image, new)
        tell("starting two guests")
        _restore(bed, image, snapshot)
        start_bmcs(bed)
        undo.pop_all()


def _wire(bed: beds.Bed, image: Path) -> None:
    for name in guest_image.KEYS:
        for file in (name, f"{name}.pub"):
            shutil.copy(image / file, bed.folder / file)
    subnet = wires.free_subnet(bed)
    nodes = guests.plan(subnet)
    wires.make(bed, nodes, address=f"{wires.PRIMARY}.{subnet}.1/24")
    _record(bed, kind="guests", nodes=nodes, image=str(image))
    controller.write(bed)
    seeds.trust(bed)


def _make_snapshot(bed: beds.Bed, image: Path, new: Path) -> None:
    for name in bed.addresses():
        guests.make_disks(bed, name, image=image, snapshot=None)
        guests.start(bed, name)
    for name in bed.addresses():
        await_node(bed, name, seconds=BOOT)
        bed.run(name, PREPARE)
    for name in bed.addresses():
        guests.save(bed, name, new)
        shutil.rmtree(guests.folder(bed, name))


def _restore(bed: beds.Bed, image: Path, snapshot: Path) -> None:
    cluster = store.read(bed.where.config)
    key = bed.where.hmac_key.read_bytes()
    for name in bed.addresses():
        guests.make_disks(bed, name, image=image, snapshot=snapshot)
        guests.start(bed, name, restore=snapshot / f"{name}.state")
    for name, known in bed.record()["nodes"].items():
        guests.go_on(bed, name)
        # Until it has the addresses of this bed, it is reached by the one that every guest of its number has.
        _await_link(guests.link_local(bed, name))
        script = ADDRESSES.format(now=f"{time.time():.3f}", **known)
        bed.run(name, script, at=guests.link_local(bed, name))
        files = {**seeds.of_names(bed), **seeds.of_ssh(bed), **seeds.of_node(cluster.node(name), cluster_key=key)}
        bed.run(name, "tar -x --no-overwrite-dir -C /", given=seeds.archive(files))


def down(bed: beds.Bed) -> None:
    """End everything that was started for the bed, and remove its files; what is not there is no error."""
    lab = world.Lab(bed.folder)
    if (bed.controller / "var/log").exists():
        processes.down(lab)
    bed.hang_up()
    for path in bed.folder.glob("node*.pid"):
        processes.stop(lab, path.stem, number=signal.SIGKILL)
        path.unlink()
    if shutil.which("podman"):
        containers.remove(bed)
    if shutil.which("ip"):
        wires.remove(bed)
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
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection((bed.addresses()[name], SSH), timeout=5).close()
            # One question that is waited for: a guest that is busy is not helped by more of them.
            left = max(1.0, end - time.monotonic())
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = bed.run(name, ANSWERS, check=False, seconds=left)
                if done.returncode == 0:
                    return
        time.sleep(0.2)
    raise errors.Failed(f"{name} does not answer within {seconds:g} s")


def _await_link(address: str) -> None:
    """Wait until this machine has an address of its own beside that one: a new bridge gets its a moment later."""
    end = time.monotonic() + STEADY
    while True:
        try:
            socket.create_connection((address, SSH), timeout=STEADY).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _refuse_used(bed: beds.Bed) -> None:
    if bed.record():
        raise errors.Refused(f"{bed.record()['kind']} are up in {bed.folder}: bring them down, or give another --dir")


def _record(bed: beds.Bed, *, kind: str, nodes: dict[str, Any], **more: str) -> None:
    for number, node in enumerate(nodes.values(), start=1):
        node["bmc"] = f"127.78.0.{number}"
    bmc = {"port": processes.free_port(socket.SOCK_DGRAM), "password": secrets.token_hex(8)}
    bed.keep_record({"kind": kind, "nodes": nodes, "bmc": bmc, **more})
