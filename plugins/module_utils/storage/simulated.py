"""Simulated replicated disks for instances of the fake hypervisor; it is for the lab, and says that it is no real one.

A copy is a file `var/lib/roundsman/fake/disks/<instance>.json` below the node's root.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Sequence

from ..domain import errors
from ..hypervisor import fake

if TYPE_CHECKING:
    from pathlib import Path

DISKS = "var/lib/roundsman/fake/disks"


class Copies:
    """The copies of instances' disks on the node with this root."""

    def __init__(self, root: Path, *, opcode: str) -> None:
        self._root = root
        self._opcode = opcode

    def names(self) -> list[str]:
        """The instances that keep a copy here."""
        folder = self._root / DISKS
        return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []

    def create(self, name: str, sizes: Sequence[int]) -> bool:
        """Make a copy with disks of these sizes (MiB); returns whether there was none."""
        path = self._root / DISKS / f"{name}.json"
        if path.exists():
            return False
        if not path.parent.is_dir():
            raise errors.Failed(f"this node has no fake disks at {path.parent}")
        path.write_text(json.dumps({"disks": list(sizes)}))
        fake.append(self._root, {"instance": name, "opcode": self._opcode, "event": "copy created"})
        return True

    def remove(self, name: str) -> bool:
        """Remove the copy; returns whether there was one.

        Raises:
            Refused: the instance runs here.
        """
        if name in fake.Driver(self._root, opcode=self._opcode).running():
            raise errors.Refused(f"{name} runs here: its disks are in use")
        path = self._root / DISKS / f"{name}.json"
        if not path.exists():
            return False
        path.unlink()
        fake.append(self._root, {"instance": name, "opcode": self._opcode, "event": "copy removed"})
        return True
