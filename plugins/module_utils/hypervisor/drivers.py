"""The hypervisors: to add one, write its driver in a file of this folder and name it here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Protocol

from .. import lab_drivers
from ..domain.values import errors
from . import kvm, kvm_migration

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (lab_drivers.NAME, "kvm")
RUNNING = "running"
"""The state of an instance that runs, in the words of every driver."""


class Hypervisor(Protocol):
    """What every hypervisor driver can do with the instances of its own node."""

    @property
    def progress(self) -> Mapping[str, float]: ...

    def running(self) -> List[str]: ...

    def states(self) -> Dict[str, str]: ...

    def facts(self) -> Dict[str, Dict[str, Any]]: ...

    def migrations(self) -> Dict[str, Dict[str, Any]]: ...

    def start(self, name: str, facts: Mapping[str, Any], *, runs_nowhere: bool = False) -> bool: ...

    def stop(self, name: str, *, time_limit: float, only_here: bool = False) -> bool: ...

    def recover(self, name: str) -> str: ...

    def migrate(
        self, name: str, target: str, *, hvparams: Mapping[str, str], target_lacks: kvm_migration.TargetLacks
    ) -> bool: ...


def get(name: str, root: Path, *, opcode: str) -> Hypervisor:
    """The driver of a hypervisor on the node with this root.

    Raises:
        InvalidInput: there is no such hypervisor, or it is a lab's and this node is not.
    """
    if name == lab_drivers.NAME:
        simulated: Hypervisor = lab_drivers.load().hypervisor(root, opcode=opcode)
        return simulated
    if name == "kvm":
        return kvm.Driver(root, opcode=opcode)
    raise errors.InvalidInput(f"there is no hypervisor {name!r}: use one of {', '.join(NAMES)}")
