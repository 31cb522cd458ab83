"""The simulated hypervisor of the lab, and no real one: an instance "runs" where a file says so.

State is `var/lib/roundsman/fake/running/<instance>.json` below the node's root. What happens to an instance is
appended, durably, to the node's journal `var/log/roundsman/journal`. A live migration sleeps for the instance's
hypervisor parameter `migration_seconds`, then moves the file to the other node in one step. A step that is killed
between its act and its entry is put into the journal by `recover`; a migration leaves a note of what it is about to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping

from ..domain import errors

RUNNING = "var/lib/roundsman/fake/running"
JOURNAL = "var/log/roundsman/journal"
MIGRATING = "var/lib/roundsman/fake/migrating"
ARRIVALS, DEPARTURES = frozenset({"started", "received"}), frozenset({"stopped", "handed over"})


def append(root: Path, entry: Mapping[str, Any]) -> None:
    """Add one event to a node's journal, dated with the machine's monotonic clock in ns."""
    path = root / JOURNAL
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"ns": time.monotonic_ns(), **entry}).encode() + b"\n"
    descriptor = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Driver:
    """The fake hypervisor of the node with this root; `opcode` is written beside every event."""

    def __init__(self, root: Path, *, opcode: str) -> None:
        self._root = root
        self._opcode = opcode

    @property
    def progress(self) -> Mapping[str, float]:
        """Nothing: a simulated migration has no memory to copy."""
        return {}

    def running(self) -> List[str]:
        """The names of the instances that run here."""
        folder = self._root / RUNNING
        return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []

    def states(self) -> Dict[str, str]:
        """Of every instance that is here its state in plain words; a simulated one runs, or is not here."""
        return dict.fromkeys(self.running(), "running")

    def facts(self) -> Dict[str, Dict[str, Any]]:
        """Of every instance that is here its memory (MiB), vcpus, and the CPU time it has used, which is none."""
        made = {}
        for name in self.running():
            with contextlib.suppress(OSError, ValueError):  # it is being started, or was just stopped
                stated = json.loads(self._path(name).read_text())
                made[name] = {"memory": stated.get("memory", 0), "vcpus": stated.get("vcpus", 1), "cpu_seconds": 0.0}
        return made

    def migrations(self) -> Dict[str, Dict[str, Any]]:
        """The migrations that were begun and have no known end."""
        folder = self._root / MIGRATING
        return {path.stem: {} for path in folder.glob("*.json")} if folder.is_dir() else {}

    def start(self, name: str, facts: Mapping[str, Any]) -> bool:
        """Start an instance; returns whether it was not running yet."""
        path = self._path(name)
        try:
            descriptor = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise errors.Failed(f"this node has no fake hypervisor at {path.parent}") from error
        with os.fdopen(descriptor, "w") as stream:
            json.dump(dict(facts), stream)
        self._note(name, "started")
        return True

    def stop(self, name: str, *, time_limit: float) -> bool:  # noqa: ARG002 - the port's
        """Stop an instance, which takes no time; returns whether it was running."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        self._note(name, "stopped")
        return True

    def migrate(self, name: str, target: str, *, hvparams: Mapping[str, str]) -> bool:
        """Hand a running instance over to the node whose wire is the folder `target`.

        Returns whether it was here; when it runs there already, nothing is done.

        Raises:
            Failed: it runs on neither node, or the other node does not answer.
        """
        there = Path(target) / RUNNING / f"{name}.json"
        if not self._path(name).exists():
            if there.exists():
                return False
            raise errors.Failed(f"{name} does not run here, nor on the target")
        if not there.parent.is_dir():
            raise errors.Failed("the target node does not answer")
        if there.exists():
            raise errors.Failed(f"{name} runs on the target already: it must be stopped on one of the two")
        intent = self._root / MIGRATING / f"{name}.json"
        intent.parent.mkdir(exist_ok=True)
        intent.write_text(json.dumps({"target": target, "opcode": self._opcode}))
        time.sleep(float(hvparams.get("migration_seconds", "0")))
        try:
            self._path(name).rename(there)
        except OSError as error:
            intent.unlink()
            raise errors.Failed(f"the migration of {name} broke off: {error.strerror}; it still runs here") from error
        self._note(name, "handed over")
        append(Path(target), {"instance": name, "opcode": self._opcode, "event": "received"})
        intent.unlink()
        return True

    def recover(self, name: str) -> str:
        """Write into the journals what a step that was killed had done to an instance; nobody else may work on it.

        Returns "": what is in the journals needs no words.
        """
        intent = self._root / MIGRATING / f"{name}.json"
        if intent.exists():
            self._recover_migration(name, intent)
        is_here, last = self._path(name).exists(), self._last(self._root, name)
        if is_here and last not in ARRIVALS:
            self._note(name, "started")
        elif not is_here and last in ARRIVALS:
            self._note(name, "stopped")
        return ""

    def _recover_migration(self, name: str, intent: Path) -> None:
        try:
            begun = json.loads(intent.read_text())
        except ValueError:
            # It was killed while it wrote down what it was about to do, and had done nothing yet.
            intent.unlink()
            return
        entry, target = {"instance": name, "opcode": begun["opcode"]}, Path(begun["target"])
        if not self._path(name).exists():
            if self._last(self._root, name) in ARRIVALS:
                append(self._root, {**entry, "event": "handed over"})
            if (target / RUNNING / f"{name}.json").exists() and self._last(target, name) not in ARRIVALS:
                append(target, {**entry, "event": "received"})
        intent.unlink()

    @staticmethod
    def _last(root: Path, name: str) -> str:
        path = root / JOURNAL
        lines = path.read_text().splitlines() if path.exists() else []
        entries = (json.loads(line) for line in reversed(lines) if f'"{name}"' in line)
        moves = (one["event"] for one in entries if one["instance"] == name)
        return next((event for event in moves if event in ARRIVALS | DEPARTURES), "")

    def _path(self, name: str) -> Path:
        return self._root / RUNNING / f"{name}.json"

    def _note(self, name: str, event: str) -> None:
        append(self._root, {"instance": name, "opcode": self._opcode, "event": event})
