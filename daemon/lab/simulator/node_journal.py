"""The journal of a simulated node: what happened to its instances and their disks, durable and in order."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Mapping

if TYPE_CHECKING:
    from pathlib import Path

JOURNAL = "var/log/roundsman/journal"
_RECENT = 65536


def append(root: Path, entry: Mapping[str, Any], *, is_durable: bool = True) -> None:
    """Add one event to a node's journal, dated with the machine's monotonic clock in ns."""
    _append(root, json.dumps({"ns": time.monotonic_ns(), **entry}), is_durable=is_durable)


def append_once(root: Path, line: str) -> None:
    """Add one dated event, unless it is there: whoever wants it may have been killed after it was added."""
    path = root / JOURNAL
    if path.exists():
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _RECENT))
            if line.encode() in stream.read().splitlines():
                return
    _append(root, line)


def _append(root: Path, line: str, *, is_durable: bool = True) -> None:
    path = root / JOURNAL
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        os.write(descriptor, line.encode() + b"\n")
        if is_durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
