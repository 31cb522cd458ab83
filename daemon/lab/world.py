"""The simulated world of a lab: nodes that are folders, with power, a link, and a diagnosis to print.

Nothing here is real, and nothing outside the lab knows of it: modules see a root folder, the daemon sees BMCs.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors, tree
from .simulator import fake, node_journal, simulated_node, simulated_world

if TYPE_CHECKING:
    from pathlib import Path

OK = '{"status": "Ok"}'
REPAIR_COMMAND = "lab-repair"
PHASES = fake.PHASES
BMC_FAULTS = "bmc faults"
"""The event of a node whose BMC has these faults from now on."""
CONTROLLER = "controller"
"""The event of the lab's own journal: what was done to the daemon, which hears nothing while it does not run."""
GARBAGE = ("before", "instead", "cut")
"""What becomes of each answer of a node: garbage comes before it or instead of it, or it is cut short."""


def _entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class LabNode:
    """One simulated node; `wire` is there for as long as the node has power and its management link is not cut."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def wire(self) -> Path:
        return self.root / "wire"

    def answers(self) -> bool:
        """Whether the node is reached over its management link."""
        fake.come_up(self.root)
        return self.wire.exists()

    @property
    def diagnosis(self) -> Path:
        return self.root / "lab/diagnosis.json"

    def is_powered(self) -> bool:
        fake.come_up(self.root)
        return not (self.root / simulated_node.OFF).exists()

    def set_power(self, on: bool, *, by: str = "a person") -> None:  # noqa: FBT001 - the simulator's port
        """Give or take the node's power; what runs there dies with it, and a node that gets it boots."""
        if on and not self.is_powered():
            fake.power_on(self.root)
        elif not on and self.is_powered():
            fake.lose_power(self.root, by=by)
        elif not on:  # what was a power cut is an order now
            (self.root / simulated_node.OFF).write_text(by)

    def lose_power(self) -> None:
        """Cut the node's power without a word to anybody; `fix` gives it back."""
        self.set_power(False, by=simulated_node.POWER_CUT)

    def reboot(self, *, seconds: float = 0.0) -> None:
        """Reboot the node: all that runs there dies; it does not answer for so many seconds."""
        if self.is_powered():
            fake.reboot(self.root, by="lab break", seconds=seconds)

    def panic(self) -> None:
        """Let the node's kernel panic: what runs there dies, no link works, and its power stays on until a reset."""
        if self.is_powered():
            fake.panic(self.root)

    def end_reboot(self) -> None:
        """Let a reboot that is at work be over."""
        simulated_node.begin_reboot(self.root, seconds=0)
        fake.come_up(self.root)

    def boot_id(self) -> str:
        """The identifier of the node's current boot."""
        return simulated_node.boot_id(self.root)

    def cut(self, *, is_cut: bool) -> None:
        """Cut all links of the node or restore them; what runs there runs on."""
        if is_cut:
            (self.root / simulated_node.CUT).touch()
        else:
            (self.root / simulated_node.CUT).unlink(missing_ok=True)
        simulated_node.rewire(self.root)
        simulated_world.settle(self.root)

    def silence(self, *, is_silent: bool) -> None:
        """Cut the node's management link or restore it; replication goes on."""
        self._set(simulated_node.SILENT, "cut" if is_silent else "")
        simulated_node.rewire(self.root)

    def cut_replication(self, *, is_cut: bool) -> None:
        """Cut all replication links of the node or restore them; it is reached all the time."""
        self._set(simulated_node.REPLICATION, "cut" if is_cut else "")
        simulated_world.settle(self.root)

    def cut_ssh(self, *, is_cut: bool) -> None:
        """Let nobody log in to the node, or let it be possible again; its agent is reached all the time."""
        self._set(simulated_node.SSH, "cut" if is_cut else "")
        simulated_node.rewire(self.root)

    def lose_packets(self, percent: float) -> None:
        """Let so many percent of the packets to the node's agent be lost; 0 ends that."""
        self._set(simulated_node.LOSS, f"{percent:g}" if percent else "")
        simulated_node.rewire(self.root)

    def lie(self, *, is_lying: bool) -> None:
        """Let the node's agent claim from now on that each of its replicas is in sync, or be honest again."""
        self._set(simulated_node.LIES, "in sync" if is_lying else "")
        simulated_node.rewire(self.root)

    def set_clock(self, seconds: float) -> None:
        """Let the node's clock be so many seconds ahead, or behind if they are negative; 0 ends that."""
        self._set(simulated_node.CLOCK, f"{seconds:g}" if seconds else "")
        simulated_node.rewire(self.root)

    def fill_group(self, *, is_full: bool) -> None:
        """Let the volume groups of the node be full, or have room again."""
        self._set(simulated_node.FULL, "full" if is_full else "")

    def slow_resync(self, speed: int) -> None:
        """Let resyncs of the node copy so many KiB per second; 0 is as fast as the lab's disks are again."""
        simulated_world.set_resync_speed(self.root, speed or None)

    def return_after(self, seconds: float) -> None:
        """Let the node power on by itself so many seconds after each loss of its power; 0 ends that."""
        self._set(simulated_node.RETURNS, f"{seconds:g}" if seconds else "")
        if not seconds:
            (self.root / simulated_node.RETURN_AT).unlink(missing_ok=True)

    def cut_agent(self, *, is_cut: bool) -> None:
        """Let nobody reach the node's agent, or let it be reached again; the node itself is reached all the time."""
        self._set(simulated_node.AGENT, "cut" if is_cut else "")
        simulated_node.rewire(self.root)

    def cut_link(self, peer: str, *, is_cut: bool) -> None:
        """Cut the replication link between the node and a peer or restore it; both nodes are still reached."""
        self._set(f"{simulated_node.LINKS}/{peer}", "cut" if is_cut else "")
        if not is_cut:  # it may have been cut at the other end
            simulated_node.set_fault(self.root.parent / peer, f"{simulated_node.LINKS}/{self.name}", "")
        simulated_world.settle(self.root)

    def lose_disk(self, instance: str, *, is_lost: bool) -> None:
        """Let the disk below an instance's replica on this node fail, or work again with the data that it had."""
        self._set(f"{simulated_node.DISKS}/{instance}", "lost" if is_lost else "")
        simulated_world.settle(self.root)

    def hang(self, *, is_hung: bool) -> None:
        """Let every command on the node begin and get no further, or let it go on; what runs there runs on."""
        hangs = self.root / simulated_node.HANGS
        hangs.parent.mkdir(exist_ok=True)
        if is_hung:
            hangs.touch()
        else:
            hangs.unlink(missing_ok=True)
        simulated_node.rewire(self.root)

    def garble(self, how: str) -> None:
        """Put garbage into the answers of the node: a word of `GARBAGE`; '' ends that."""
        self._set(simulated_node.GARBAGE, how)
        simulated_node.rewire(self.root)

    def delay(self, seconds: float) -> None:
        """Let every answer of the node come so many seconds late; 0 ends that."""
        self._set(simulated_node.LATE, f"{seconds:g}" if seconds else "")
        simulated_node.rewire(self.root)

    def slow_stop(self, instance: str, seconds: float) -> None:
        """Let the guest of an instance take so many seconds for a soft stop, wherever it runs; 0 ends that."""
        self._set(f"{simulated_node.GUESTS}/{instance}", f"{seconds:g}" if seconds else "")

    def ignore_stop(self, instance: str, *, is_ignored: bool) -> None:
        """Let the guest of an instance ignore a soft stop, wherever it runs, or listen again."""
        self._set(f"{simulated_node.GUESTS}/{instance}", simulated_node.NEVER if is_ignored else "")

    def running(self) -> list[str]:
        """The instances that run on the node."""
        return fake.Driver(self.root, opcode="lab").running()

    def replicas(self) -> list[str]:
        """The instances that have a DRBD replica on the node."""
        return simulated_world.instances(self.root)

    def crash(self, instance: str) -> bool:
        """Let an instance that runs on the node crash; returns whether it ran."""
        return fake.Driver(self.root, opcode="lab break").end(instance, why="crash")

    def user_shutdown(self, instance: str) -> bool:
        """Let the user of an instance shut it down from inside; returns whether it ran."""
        return fake.Driver(self.root, opcode="lab break").end(instance, why="user")

    def autostart(self, instance: str, *, is_on: bool) -> None:
        """Let the node itself start an instance at each boot, as libvirt does where autostart was left on."""
        running = self.root / fake.RUNNING / f"{instance}.json"
        facts = running.read_text() if is_on and running.exists() else "{}"
        self._set(f"{simulated_node.AUTOSTART}/{instance}", facts if is_on else "")

    def fail_migrations(self, phase: str) -> None:
        """Let migrations from the node fail: a word of `PHASES`; '' ends that."""
        self._set(simulated_node.MIGRATION, phase)

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
        """Give the node's BMC these faults and no others."""
        is_other = set(faults) != self.faults()
        (self.root / "lab/bmc-faults").write_text(" ".join(faults))
        if is_other:
            node_journal.append(self.root, {"event": BMC_FAULTS, "opcode": "", "faults": sorted(faults)})

    def journal(self) -> list[dict[str, Any]]:
        """Everything that happened to instances on this node, in order."""
        return _entries(self.root / fake.JOURNAL)

    def _set(self, name: str, text: str) -> None:
        simulated_node.set_fault(self.root, name, text)


@dataclass(frozen=True)
class Lab:
    """A lab's folder: `controller`, `nodes/NAME`, `inventory`, and `lab.json` with its ports and passwords."""

    folder: Path

    @property
    def controller(self) -> Path:
        return self.folder / "controller"

    @property
    def controllers(self) -> tuple[Path, ...]:
        """The folders of all controllers that ever led here: a lab has one, and tests may copy it."""
        return (self.controller,)

    @property
    def settings_file(self) -> Path:
        return self.folder / tree.LAB_FILE

    def note_controller(self, why: str, *, is_deaf: bool, after: float = 0.0) -> None:
        """Write into the lab's journal that in so many seconds something keeps the controller from listening to nodes.

        `why` is `stopped`, which it is until it is started, or what else is done to it; or that this ends.
        """
        entry = {"event": CONTROLLER, "opcode": "", "why": why, "is_deaf": is_deaf}
        node_journal.append(self.folder, {"ns": time.monotonic_ns() + int(after * 1e9), **entry})

    def journal(self) -> list[dict[str, Any]]:
        """When the controller was started, stopped or frozen, in order."""
        return _entries(self.folder / fake.JOURNAL)

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads(self.settings_file.read_text())
        return settings

    @property
    def agent_port(self) -> int:
        """The port of the nodes' agents; 0 for a lab whose nodes have none, and for the folder of a test bed."""
        return int(self.settings()["ports"].get("agent", 0)) if self.settings_file.exists() else 0

    def node(self, name: str) -> LabNode:
        return LabNode(self.folder / "nodes" / name)

    def find_node(self, name: str) -> LabNode:
        """The node of this name.

        Raises:
            NotFound: the lab has no such node.
        """
        if name not in self.settings()["nodes"]:
            raise errors.NotFound(f"there is no node {name!r} in the lab {self.folder}")
        return self.node(name)

    def nodes(self) -> list[LabNode]:
        return [self.node(name) for name in self.settings()["nodes"]]
