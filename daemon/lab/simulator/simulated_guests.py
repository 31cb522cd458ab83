"""The guests of a simulated node: which run, what they write to its disks, and what its journal says of them.

An instance "runs" on the node that has its file in `RUNNING`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

from . import node_journal, simulated_node, simulated_world

if TYPE_CHECKING:
    import contextlib
    from pathlib import Path

RUNNING = "var/lib/roundsman/fake/running"
ARRIVALS, DEPARTURES = frozenset({"started", "received", "resumed"}), frozenset({"stopped", "handed over"})
LOOK = 0.1
"""How often a soft stop looks whether the instance has stopped, in seconds."""


class Guests:
    """The guests of the node with this root; `opcode` is written beside every event."""

    def __init__(self, root: Path, *, opcode: str) -> None:
        self._root = root
        self._opcode = opcode
        self._boot = simulated_node.boot_id(root)

    def running(self) -> List[str]:
        """The names of the instances that run here."""
        return names(self._root / RUNNING)

    def facts(self) -> Dict[str, Dict[str, Any]]:
        """Of every instance that runs here its memory (MiB), vcpus, and the CPU time it has used, which is none."""
        found = {}
        for name in self.running():
            stated = self._stated(name)
            if stated is not None:
                found[name] = {"memory": stated.get("memory", 0), "vcpus": stated.get("vcpus", 1), "cpu_seconds": 0.0}
        return found

    def end(self, name: str, *, why: str) -> bool:
        """Let an instance end at once, by its hypervisor, its user or a crash; returns whether it ran."""
        with self._alive():
            try:
                self._path(name).unlink()
            except FileNotFoundError:
                return False
            self._note(name, "stopped", why=why, counter=self._stop_writing(name))
        return True

    @staticmethod
    def _last(root: Path, name: str) -> str:
        path = root / node_journal.JOURNAL
        lines = path.read_text().splitlines() if path.exists() else []
        entries = (json.loads(line) for line in reversed(lines) if f'"{name}"' in line)
        moves = (entry["event"] for entry in entries if entry.get("instance") == name)
        return next((event for event in moves if event in ARRIVALS | DEPARTURES), "")

    def _ends_softly(self, name: str, *, time_limit: float) -> bool:
        """Wait until an instance has shut itself down; False when the time is over before."""
        seconds = self._shutdown_seconds(name)
        deadline = time.monotonic() + min(seconds, time_limit)
        while self._path(name).exists():
            left = deadline - time.monotonic()
            if left <= 0:
                return seconds <= time_limit
            time.sleep(min(LOOK, left))
        return True

    def _shutdown_seconds(self, name: str) -> float:
        fault = simulated_node.stop_fault(self._root, name)
        if fault:
            return float("inf") if fault == simulated_node.NEVER else float(fault)
        return float(((self._stated(name) or {}).get("hvparams") or {}).get("shutdown_seconds", "0"))

    def _stated(self, name: str) -> Optional[Dict[str, Any]]:
        """The facts with which an instance was started; None while it is being started, or has just stopped."""
        return read(self._path(name))

    def _alive(self) -> contextlib.AbstractContextManager[None]:
        return simulated_node.alive(self._root, boot=self._boot)

    def _path(self, name: str) -> Path:
        return self._root / RUNNING / f"{name}.json"

    def _note(self, name: str, event: str, **more: Any) -> None:
        node_journal.append(self._root, self._entry(name, event, **more))

    def _entry(self, name: str, event: str, **more: Any) -> Dict[str, Any]:
        known = {key: value for key, value in more.items() if value is not None}
        return {"instance": name, "opcode": self._opcode, "event": event, **known}

    def _has_disks(self) -> bool:
        """Whether this is a node of a lab, whose disks are simulated."""
        return (self._root / simulated_node.LAB).is_dir()

    def _start_writing(self, name: str, facts: Mapping[str, Any]) -> Optional[int]:
        """Open the disks of an instance; returns the counter that it reads, None where it has none."""
        devices = facts.get("devices") or ()
        if not devices or not self._has_disks():
            return None
        return simulated_world.start_writing(self._root, name, devices=devices, opcode=self._opcode)

    def _stop_writing(self, name: str) -> Optional[int]:
        return simulated_world.stop_writing(self._root, name) if self._has_disks() else None

    def _acknowledged(self, name: str) -> Optional[int]:
        return simulated_world.acknowledged(self._root, name) if self._has_disks() else None

    def _hand_over_disks(self, name: str, target: Path) -> Optional[int]:
        return simulated_world.hand_over(self._root, target, name) if self._has_disks() else None


def names(folder: Path) -> List[str]:
    """The instances of which a folder has a file."""
    return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []


def read(path: Path) -> Optional[Dict[str, Any]]:
    """What a file of an instance says; None where it is not there, or was cut off."""
    try:
        content: Dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content
