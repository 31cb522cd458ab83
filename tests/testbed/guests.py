"""Two whole machines as guests of QEMU: DRBD, LVM and libvirt, two networks each, and power that can be taken."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import processes, world
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from . import cache, qmp, wires

if TYPE_CHECKING:
    from . import beds

COUNT = 2
FIRST = 11
MEMORY = 512
DATA = 512
"""MiB of a guest, and of its second disk, which is the volume group."""
BOOT = (
    "console=ttyS0 panic=5 quiet net.ifnames=0 mitigations=off nokaslr audit=0 systemd.show_status=0 bed={name},"
    "{address}/24,{secondary}/24"
)
VOLUME_GROUP = "roundsman"
DISKS = ("root", "data")


def plan(subnet: int) -> dict[str, Any]:
    """The nodes with their addresses in both networks."""
    return {
        f"node{number}": {
            "address": f"{wires.PRIMARY}.{subnet}.{FIRST + number - 1}",
            "secondary": f"{wires.SECONDARY}.{subnet}.{FIRST + number - 1}",
            "memory": MEMORY,
            "disk": DATA,
            "cpus": 1,
        }
        for number in range(1, COUNT + 1)
    }


def folder(bed: beds.Bed, node: str) -> Path:
    """Where a guest's disks, console and monitor are."""
    return bed.folder / "nodes" / node


def make_disks(bed: beds.Bed, node: str, *, image: Path, snapshot: Path | None) -> None:
    """Make a guest's disks, over those of the image or of the snapshot."""
    where = folder(bed, node)
    where.mkdir(parents=True)
    if snapshot is not None:
        for disk in DISKS:
            _overlay(where / f"{disk}.qcow2", snapshot / f"{node}-{disk}.qcow2", kind="qcow2")
        return
    _overlay(where / "root.qcow2", image / "disk.ext4", kind="raw")
    _image("-f", "qcow2", where / "data.qcow2", f"{DATA}M")


def start(bed: beds.Bed, node: str, *, restore: Path | None = None) -> None:
    """Give a guest power: it boots, or goes on from a state of its memory, standing still.

    Raises:
        Failed: QEMU does not start; the text has its words.
    """
    where = folder(bed, node)
    command = _command(bed, node)
    if restore is not None:
        command += ["-incoming", f"exec:cat {shlex.quote(str(restore))}"]
    (where / "qmp").unlink(missing_ok=True)
    log = where / "qemu.log"
    with log.open("wb") as output:
        # Not as QEMU's own daemon, which cannot write its memory to a program.
        process = subprocess.Popen(
            command, cwd=where, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    processes.remember(world.Lab(bed.folder), node, process.pid)
    while not (where / "qmp").exists():
        if process.poll() is not None:
            raise errors.Failed(f"{node}: QEMU does not start: {log.read_text(errors='replace').strip()}")
        time.sleep(0.02)


def running(bed: beds.Bed) -> set[str]:
    """The guests that have power."""
    return {name for name in bed.addresses() if processes.is_running(world.Lab(bed.folder), name)}


def set_power(bed: beds.Bed, node: str, *, on: bool) -> None:
    """Start a guest, or take its power: what it has not written is lost."""
    if on:
        start(bed, node)
    else:
        processes.stop(world.Lab(bed.folder), node, number=signal.SIGKILL)


def press_power_button(bed: beds.Bed, node: str) -> None:
    """Ask a guest to shut itself down (ACPI)."""
    with qmp.connected(folder(bed, node) / "qmp") as monitor:
        monitor.ask("system_powerdown")


def press_reset_button(bed: beds.Bed, node: str) -> None:
    """Have a guest boot again without asking it."""
    with qmp.connected(folder(bed, node) / "qmp") as monitor:
        monitor.ask("system_reset")


def go_on(bed: beds.Bed, node: str) -> None:
    """Let a guest go on whose memory is read from a file."""
    with qmp.connected(folder(bed, node) / "qmp") as monitor:
        while monitor.ask("query-status")["status"] == "inmigrate":
            time.sleep(0.05)
        monitor.ask("cont")


def save(bed: beds.Bed, node: str, new: Path) -> None:
    """Write a guest's memory and disks to a folder, and end it.

    Raises:
        Failed: its memory could not be written.
    """
    with qmp.connected(folder(bed, node) / "qmp") as monitor:
        monitor.ask("stop")
        monitor.ask("migrate-set-parameters", **{"max-bandwidth": 10**10})
        monitor.ask("migrate", uri=f"exec:cat > {shlex.quote(str(new / f'{node}.state'))}")
        while (found := monitor.ask("query-migrate")["status"]) not in {"completed", "failed"}:
            time.sleep(0.05)
        if found == "failed":
            raise errors.Failed(f"{node}: its memory could not be written to {new}")
    processes.stop(world.Lab(bed.folder), node)
    for disk in DISKS:
        (folder(bed, node) / f"{disk}.qcow2").rename(new / f"{node}-{disk}.qcow2")


def recipe(image: Path, *steps: str) -> str:
    """The digest of all that a snapshot depends on; `steps` are what was done in the guests before."""
    version = subprocess.run(["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True).stdout
    return cache.digest(image.name, version, Path(__file__).read_text(), *steps)


def _command(bed: beds.Bed, node: str) -> list[str]:
    known = bed.record()["nodes"][node]
    image = Path(bed.record()["image"])
    number = int(node.removeprefix("node"))
    command = ["qemu-system-x86_64", "-name", f"{bed.name}-{node}", "-accel", "tcg,tb-size=256", "-cpu", "max"]
    command += ["-m", str(MEMORY), "-nodefaults", "-display", "none", "-qmp", "unix:qmp,server=on,wait=off"]
    command += ["-chardev", "file,id=console,path=console.log,append=on", "-serial", "chardev:console"]
    command += ["-kernel", str(image / "vmlinux"), "-initrd", str(image / "initrd.gz")]
    command += ["-append", BOOT.format(name=node, **known)]
    for disk in DISKS:
        command += ["-drive", f"file={disk}.qcow2,if=virtio,cache=unsafe"]
    for network, part in zip(wires.NETWORKS, ("78", "80"), strict=True):
        tap = wires.tap(bed, node, network)
        command += ["-netdev", f"tap,id={network},ifname={tap},script=no,downscript=no"]
        command += ["-device", f"virtio-net-pci,netdev={network},mac=52:54:00:{part}:00:{number:02x}"]
    return command


def link_local(bed: beds.Bed, node: str) -> str:
    """The address that a guest has whatever it was configured with."""
    number = int(node.removeprefix("node"))
    return f"fe80::5054:ff:fe78:{number:x}%{wires.bridge(bed, 'primary')}"


def _overlay(path: Path, below: Path, *, kind: str) -> None:
    _image("-f", "qcow2", "-b", below, "-F", kind, path)


def _image(*arguments: str | Path) -> None:
    subprocess.run(["qemu-img", "create", "-q", *map(str, arguments)], check=True)
