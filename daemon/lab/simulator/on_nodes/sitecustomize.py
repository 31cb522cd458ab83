"""The clock of a node of a lab, which Python loads wherever this folder is in its path: wrong by the node's fault."""

from __future__ import annotations

import os
import time
from pathlib import Path

_NS = 10**9


def _set_clock(fault: Path) -> None:
    real, real_ns = time.time, time.time_ns

    def ahead() -> float:
        try:
            return float(fault.read_text())
        except (OSError, ValueError):
            return 0.0

    time.time = lambda: real() + ahead()
    time.time_ns = lambda: real_ns() + int(ahead() * _NS)


if os.environ.get("ROUNDSMAN_ROOT"):
    _set_clock(Path(os.environ["ROUNDSMAN_ROOT"]) / "lab/faults/clock")
