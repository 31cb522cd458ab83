"""The disk templates: to add one, write it in a file of this folder and name it here."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, List, Optional

from .. import lab_drivers
from ..domain.values import errors
from . import diskless, drbd, drbd_node, drbd_resource, file, plain, programs, sharedfile

if TYPE_CHECKING:
    from pathlib import Path

    from .disks import Disks, LocalDisk, Step, Storage

NAMES = ("diskless", "drbd", "file", "plain", "sharedfile")
PAUSE = 1.0


def get(
    template: str,
    disks: Disks,
    *,
    root: Path,
    hypervisor: str,
    opcode: str = "",
    runner: Optional[programs.Runner] = None,
) -> Storage:
    """The storage of an instance's disks on the node with this root; with hypervisor `fake` programs are simulated.

    Raises:
        InvalidInput: there is no such disk template, or the disks would be simulated and this node is not a lab's.
    """
    is_lab = hypervisor == lab_drivers.NAME
    if is_lab and template in {"file", "sharedfile"}:
        simulated: Storage = lab_drivers.load().disk_files(disks, root=root, opcode=opcode)
        return simulated
    run = runner or programs.runner_for(root, hypervisor=hypervisor, opcode=opcode)
    if template == "diskless":
        return diskless.Template()
    if template == "file":
        return file.Template(disks)
    if template == "sharedfile":
        return sharedfile.Template(disks)
    if template == "plain":
        return plain.Template(disks, runner=run)
    if template == "drbd":
        nodename = root.resolve().name if is_lab else os.uname().nodename
        node = drbd_node.DrbdNode(run, proc=root / drbd_node.PROC)
        return drbd.Template(disks, runner=run, root=root, node=node, nodename=nodename)
    raise errors.InvalidInput(f"there is no disk template {template!r}: use one of {', '.join(NAMES)}")


def replicated(root: Path) -> List[str]:
    """The instances that keep a replica on the node with this root: those whose disks Roundsman made."""
    folder = root / drbd_resource.FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted({match.group("instance") for match in map(drbd_resource.FILE.fullmatch, names) if match})


WAITS = ("synced", "connected", "parted")
"""What disks may be waited for."""


def waited(storage: Storage, *, synced: float, connected: float, parted: float) -> List[LocalDisk]:
    """The disks after waiting for so many seconds at most: in sync, or without their peers, or with them.

    Raises:
        Failed: they will not become equal by waiting.
    """
    if synced:
        return until_synced(storage, time_limit=synced)
    if parted:
        return until_parted(storage, time_limit=parted)
    return until_connected(storage, time_limit=connected)


def until_synced(storage: Storage, *, time_limit: float) -> List[LocalDisk]:
    """The disks once their replicas are equal, or as they are when so many seconds are over.

    Raises:
        Failed: they will not become equal by waiting.
    """
    deadline = time.monotonic() + time_limit
    while True:
        found = storage.local_disks()
        if all(disk.is_synced for disk in found) or time.monotonic() > deadline:
            return found
        trouble = next((disk for disk in found if disk.trouble and not disk.is_synced), None)
        if trouble is not None:
            raise errors.Failed(f"{trouble.path} {trouble.trouble}: {trouble.text}")
        time.sleep(PAUSE)


def until_connected(storage: Storage, *, time_limit: float) -> List[LocalDisk]:
    """The disks once their replicas have their peers, or as they are when so many seconds are over.

    Nobody waits for a replica that will not connect by waiting.
    """
    deadline = time.monotonic() + time_limit
    while True:
        found = storage.local_disks()
        is_waiting = any(disk.role and not (disk.is_connected or disk.trouble) for disk in found)
        if not is_waiting or time.monotonic() >= deadline:
            return found
        time.sleep(PAUSE)


def until_parted(storage: Storage, *, time_limit: float) -> List[LocalDisk]:
    """The disks once their replicas have noticed that they lost their peers, or as they are after so many seconds."""
    deadline = time.monotonic() + time_limit
    while True:
        found = storage.local_disks()
        if not any(disk.is_connected for disk in found) or time.monotonic() >= deadline:
            return found
        time.sleep(PAUSE)


def done(steps: List[Step]) -> None:
    """Do steps, one after the other."""
    for step in steps:
        step.act()
