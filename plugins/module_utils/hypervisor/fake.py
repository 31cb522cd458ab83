"""The simulated hypervisor of the lab, and no real one: an instance "runs" where a file says so.

State is `var/lib/roundsman/fake/running/<instance>.json` below the node's root. What happens to an instance is
appended, durably, to the node's journal `var/log/roundsman/journal`. A live migration sleeps for the instance's
hypervisor parameter `migration_seconds`, then moves the file to the other node in one step.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Mapping

from ..domain import errors

RUNNING = "var/lib/roundsman/fake/running"
JOURNAL = "var/log/roundsman/journal"


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

    def running(self) -> list[str]:
        """The names of the instances that run here."""
        folder = self._root / RUNNING
        return sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []

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

    def stop(self, name: str) -> bool:
        """Stop an instance; returns whether it was running."""
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
        time.sleep(float(hvparams.get("migration_seconds", "0")))
        try:
            self._path(name).rename(there)
        except OSError as error:
            raise errors.Failed(f"the migration of {name} broke off: {error.strerror}; it still runs here") from error
        self._note(name, "handed over")
        append(Path(target), {"instance": name, "opcode": self._opcode, "event": "received"})
        return True

    def _path(self, name: str) -> Path:
        return self._root / RUNNING / f"{name}.json"

    def _note(self, name: str, event: str) -> None:
        append(self._root, {"instance": name, "opcode": self._opcode, "event": event})
