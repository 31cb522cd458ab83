"""The disk templates: to add one, write it in a file of this folder and name it here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Sequence

from ..domain import errors
from . import simulated

if TYPE_CHECKING:
    from pathlib import Path


class Storage(Protocol):
    """What every disk template can do with the copies on its own node."""

    def names(self) -> list[str]: ...

    def create(self, name: str, sizes: Sequence[int]) -> bool: ...

    def remove(self, name: str) -> bool: ...


def get(template: str, root: Path, *, hypervisor: str, opcode: str) -> Storage:
    """The storage of an instance on the node with this root; instances of `fake` have simulated disks.

    Raises:
        InvalidInput: there is no such disk template.
    """
    if hypervisor == "fake":
        return simulated.Copies(root, opcode=opcode)
    raise errors.InvalidInput(f"there is no disk template {template!r} for {hypervisor}")
