"""The simulated world of a lab: nodes that are folders, with power, a link, and a diagnosis to print.

Nothing here is real, and nothing outside the lab knows of it: modules see a root folder, the daemon sees BMCs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.hypervisor import fake

if TYPE_CHECKING:
    from pathlib import Path

OK = '{"status": "Ok"}'
REPAIR_COMMAND = "lab-repair"


@dataclass(frozen=True)
class LabNode:
    """One simulated node; `wire` is there for as long as the node has power and its link is not cut."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def wire(self) -> Path:
        return self.root / "wire"

    @property
    def diagnosis(self) -> Path:
        return self.root / "lab/diagnosis.json"

    def is_powered(self) -> bool:
        return not (self.root / "lab/off").exists()

    def set_power(self, on: bool) -> None:  # noqa: FBT001 - the simulator's port
        """Give or take the node's power; instances that run there die with it."""
        if on:
            (self.root / "lab/off").unlink(missing_ok=True)
        else:
            (self.root / "lab/off").touch()
        self._rewire()
        if not on:
            hypervisor = fake.Driver(self.root, opcode="power off")
            for name in hypervisor.running():
                hypervisor.stop(name, time_limit=0)

    def cut(self, *, is_cut: bool) -> None:
        """Cut or mend the node's link; what runs there runs on."""
        if is_cut:
            (self.root / "lab/cut").touch()
        else:
            (self.root / "lab/cut").unlink(missing_ok=True)
        self._rewire()

    def hang(self, *, is_hung: bool) -> None:
        """Let every command on the node begin and get no further, or let it go on; what runs there runs on."""
        hangs = self.root / "lab/hangs"
        hangs.parent.mkdir(exist_ok=True)
        if is_hung:
            hangs.touch()
        else:
            hangs.unlink(missing_ok=True)

    def break_with(self, diagnosis: dict[str, Any]) -> None:
        """Have the node's diagnose command print this from now on."""
        self.say(json.dumps(diagnosis))

    def say(self, text: str) -> None:
        """Have the node's diagnose command print this text, whatever it is."""
        temporary = self.diagnosis.with_name("diagnosis.new")
        temporary.write_text(text + "\n")
        temporary.replace(self.diagnosis)

    def repairs(self) -> int:
        """How often a repair command ran here."""
        path = self.root / "lab/repairs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def faults(self) -> frozenset[str]:
        """What is wrong with the node's BMC."""
        path = self.root / "lab/bmc-faults"
        return frozenset(path.read_text().split()) if path.exists() else frozenset()

    def set_faults(self, faults: list[str]) -> None:
        """Break the node's BMC, or mend it with an empty list."""
        (self.root / "lab/bmc-faults").write_text(" ".join(faults))

    def journal(self) -> list[dict[str, Any]]:
        """Everything that happened to instances on this node, in order."""
        path = self.root / fake.JOURNAL
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _rewire(self) -> None:
        silent = (self.root / "lab/off").exists() or (self.root / "lab/cut").exists()
        if silent:
            self.wire.unlink(missing_ok=True)
        elif not self.wire.is_symlink():
            self.wire.symlink_to(".")


@dataclass(frozen=True)
class Lab:
    """A lab's folder: `controller`, `nodes/NAME`, `inventory`, and `lab.json` with its ports and passwords."""

    folder: Path

    @property
    def controller(self) -> Path:
        return self.folder / "controller"

    @property
    def settings_file(self) -> Path:
        return self.folder / "lab.json"

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads(self.settings_file.read_text())
        return settings

    def node(self, name: str) -> LabNode:
        return LabNode(self.folder / "nodes" / name)

    def nodes(self) -> list[LabNode]:
        return [self.node(name) for name in self.settings()["nodes"]]
