"""The hypervisors: to add one, write its driver in a file of this folder and name it here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Protocol

from ..domain import errors
from . import fake

if TYPE_CHECKING:
    from pathlib import Path


class Hypervisor(Protocol):
    """What every hypervisor driver can do with the instances of its own node."""

    def running(self) -> list[str]: ...

    def start(self, name: str, facts: Mapping[str, Any]) -> bool: ...

    def stop(self, name: str) -> bool: ...

    def recover(self, name: str) -> None: ...

    def migrate(self, name: str, target: str, *, hvparams: Mapping[str, str]) -> bool: ...


def get(name: str, root: Path, *, opcode: str) -> Hypervisor:
    """The driver of a hypervisor on the node with this root.

    Raises:
        InvalidInput: there is no such hypervisor.
    """
    if name == "fake":
        return fake.Driver(root, opcode=opcode)
    raise errors.InvalidInput(f"there is no hypervisor {name!r}: use fake")
