"""Disks in files for instances of the fake hypervisor in a lab; DRBD and LVM are simulated by `simulated_programs`.

A replica is a file `var/lib/roundsman/fake/disks/<instance>.json` below the node's root.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Sequence

from ....plugins.module_utils.domain.values import errors
from ....plugins.module_utils.storage.disks import LocalDisk, State, Step
from . import fake

if TYPE_CHECKING:
    from pathlib import Path

    from ....plugins.module_utils.storage.disks import Disks

DISKS = "var/lib/roundsman/fake/disks"


class Replicas:
    """The replicas of instances' disks on the node with this root."""

    def __init__(self, root: Path, *, opcode: str) -> None:
        self._root = root
        self._opcode = opcode

    def names(self) -> list[str]:
        """The instances that keep a replica here."""
        folder = self._root / DISKS
        return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []

    def path(self, name: str, number: int) -> str:
        """What stands for the device of a disk."""
        return f"{self._root / DISKS / name}.json#{number}"

    def create(self, name: str, sizes: Sequence[int]) -> bool:
        """Make a replica with disks of these sizes (MiB); returns whether there was none."""
        path = self._root / DISKS / f"{name}.json"
        if path.exists():
            return False
        if not path.parent.is_dir():
            raise errors.Failed(f"this node has no fake disks at {path.parent}")
        path.write_text(json.dumps({"disks": list(sizes)}))
        fake.append(self._root, {"instance": name, "opcode": self._opcode, "event": "replica created"})
        return True

    def remove(self, name: str) -> bool:
        """Remove the replica; returns whether there was one.

        Raises:
            Refused: the instance runs here.
        """
        if name in fake.Driver(self._root, opcode=self._opcode).running():
            raise errors.Refused(f"{name} runs here: its disks are in use")
        path = self._root / DISKS / f"{name}.json"
        if not path.exists():
            return False
        path.unlink()
        fake.append(self._root, {"instance": name, "opcode": self._opcode, "event": "replica removed"})
        return True


class Template:
    """The simulated disks of one instance: a replica is present or absent, and is never anything else."""

    def __init__(self, disks: Disks, *, root: Path, opcode: str) -> None:
        self._disks = disks
        self._all = Replicas(root, opcode=opcode)

    def steps(self, wanted: State) -> list[Step]:
        """As `Storage.steps`."""
        name, is_there = self._disks.instance, self._disks.instance in self._all.names()
        sizes = [disk.size for disk in self._disks.disks]
        if wanted is State.PRESENT and not is_there:
            return [Step(f"make a replica of {name}", lambda: self._all.create(name, sizes))]
        if wanted is State.ABSENT and is_there:
            return [Step(f"remove the replica of {name}", lambda: self._all.remove(name))]
        return []

    def local_disks(self) -> list[LocalDisk]:
        """As `Storage.local_disks`."""
        is_there = self._disks.instance in self._all.names()
        return [
            LocalDisk(self._all.path(self._disks.instance, number), disk.size if is_there else None)
            for number, disk in enumerate(self._disks.disks)
        ]
