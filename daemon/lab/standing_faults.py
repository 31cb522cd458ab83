"""The lasting faults of a lab's node: which of them are active, and how each of them ends.

Events that are over at once, such as the crash of an instance, are not among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .simulator import simulated_node, simulated_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from .world import LabNode


@dataclass(frozen=True)
class Standing:
    """An active fault: the option of `roundsman lab break` that made it, what it is about, and its measure."""

    option: str
    about: str = ""
    measure: str = ""

    @property
    def text(self) -> str:
        """As it would be typed."""
        joint = "=" if self.about and self.measure else ""
        return f"--{self.option} {self.about}{joint}{self.measure}".rstrip()


@dataclass(frozen=True)
class Fault:
    """A kind of fault: its option, the active ones (measure by what each is about), and how one of them ends."""

    option: str
    standing: Callable[[LabNode], dict[str, str]]
    end: Callable[[LabNode, str], object]


def standing(node: LabNode) -> list[Standing]:
    """Every active fault of a node, in the order of `FAULTS`."""
    return [
        Standing(fault.option, about, measure) for fault in FAULTS for about, measure in fault.standing(node).items()
    ]


def fix(node: LabNode, option: str = "", about: str = "") -> list[Standing]:
    """End the faults of an option, or all; `about` chooses the one about an instance, a peer or a BMC's fault.

    Returns those that were active. A node that was powered off on purpose stays off.
    """
    chosen = [
        fault
        for fault in standing(node)
        if option in {"", fault.option} and about in {"", fault.about, fault.about.partition("=")[0]}
    ]
    for fault in chosen:
        _BY_OPTION[fault.option].end(node, fault.about)
    return chosen


def _power(node: LabNode) -> dict[str, str]:
    off = node.root / simulated_node.OFF
    return {"": ""} if off.exists() and off.read_text() == simulated_node.POWER_CUT else {}


def _reboot(node: LabNode) -> dict[str, str]:
    return {"": ""} if node.is_powered() and simulated_node.is_rebooting(node.root) else {}


def _file(path: str) -> Callable[[LabNode], dict[str, str]]:
    """A fault that is active while a file exists."""
    return lambda node: {"": ""} if (node.root / path).exists() else {}


def _measure(name: str) -> Callable[[LabNode], dict[str, str]]:
    """A fault whose file holds its measure."""

    def found(node: LabNode) -> dict[str, str]:
        text = simulated_node.fault(node.root, name)
        return {"": text} if text else {}

    return found


def _named(kind: str) -> Callable[[LabNode], dict[str, str]]:
    """A fault that is about an instance."""
    return lambda node: dict.fromkeys(simulated_node.faults(node.root, kind), "")


def _resync(node: LabNode) -> dict[str, str]:
    path = node.root / simulated_store.SPEED_FILE
    return {"": path.read_text()} if path.exists() else {}


def _links(node: LabNode) -> dict[str, str]:
    """The peers to which the link is cut, at whichever end."""
    fault = f"{simulated_node.LINKS}/{node.name}"
    there = {root.name for root in node.root.parent.iterdir() if simulated_node.fault(root, fault)}
    return dict.fromkeys(sorted(there.union(simulated_node.faults(node.root, simulated_node.LINKS))), "")


def _slow_stops(node: LabNode) -> dict[str, str]:
    guests = simulated_node.faults(node.root, simulated_node.GUESTS)
    return {name: text for name, text in guests.items() if text != simulated_node.NEVER}


def _ignored_stops(node: LabNode) -> dict[str, str]:
    guests = simulated_node.faults(node.root, simulated_node.GUESTS)
    return {name: "" for name, text in guests.items() if text == simulated_node.NEVER}


def _bmc(node: LabNode) -> dict[str, str]:
    return dict.fromkeys(sorted(node.faults()), "")


FAULTS = (
    Fault("cut", _file(simulated_node.CUT), lambda node, _: node.cut(is_cut=False)),
    Fault(
        "silent",
        _file(f"{simulated_node.FAULTS}/{simulated_node.SILENT}"),
        lambda node, _: node.silence(is_silent=False),
    ),
    Fault(
        "agent",
        _file(f"{simulated_node.FAULTS}/{simulated_node.AGENT}"),
        lambda node, _: node.cut_agent(is_cut=False),
    ),
    Fault("ssh", _file(f"{simulated_node.FAULTS}/{simulated_node.SSH}"), lambda node, _: node.cut_ssh(is_cut=False)),
    Fault("loss", _measure(simulated_node.LOSS), lambda node, _: node.lose_packets(0)),
    Fault("lies", _file(f"{simulated_node.FAULTS}/{simulated_node.LIES}"), lambda node, _: node.lie(is_lying=False)),
    Fault("clock", _measure(simulated_node.CLOCK), lambda node, _: node.set_clock(0)),
    Fault(
        "replication",
        _file(f"{simulated_node.FAULTS}/{simulated_node.REPLICATION}"),
        lambda node, _: node.cut_replication(is_cut=False),
    ),
    Fault(
        "full", _file(f"{simulated_node.FAULTS}/{simulated_node.FULL}"), lambda node, _: node.fill_group(is_full=False)
    ),
    Fault("slow-resync", _resync, lambda node, _: node.slow_resync(0)),
    Fault("returns", _measure(simulated_node.RETURNS), lambda node, _: node.return_after(0)),
    Fault("link", _links, lambda node, peer: node.cut_link(peer, is_cut=False)),
    Fault("disk", _named(simulated_node.DISKS), lambda node, instance: node.lose_disk(instance, is_lost=False)),
    Fault("hang", _file(simulated_node.HANGS), lambda node, _: node.hang(is_hung=False)),
    Fault("garbage", _measure(simulated_node.GARBAGE), lambda node, _: node.garble("")),
    Fault("late", _measure(simulated_node.LATE), lambda node, _: node.delay(0)),
    Fault("slow-stop", _slow_stops, lambda node, instance: node.slow_stop(instance, 0)),
    Fault("ignore-stop", _ignored_stops, lambda node, instance: node.ignore_stop(instance, is_ignored=False)),
    Fault("autostart", _named(simulated_node.AUTOSTART), lambda node, instance: node.autostart(instance, is_on=False)),
    Fault("migration", _measure(simulated_node.MIGRATION), lambda node, _: node.fail_migrations("")),
    Fault("bmc", _bmc, lambda node, fault: node.set_faults(sorted(node.faults() - {fault}))),
    Fault("panic", _file(simulated_node.PANIC), lambda node, _: node.reboot()),
    Fault("reboot", _reboot, lambda node, _: node.end_reboot()),
    Fault("power", _power, lambda node, _: node.set_power(True)),
)
"""Power comes last: when a node boots, everything else works again."""
_BY_OPTION = {fault.option: fault for fault in FAULTS}
