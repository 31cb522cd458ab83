"""Named points at which a test kills the daemon, to prove that nothing is lost or done twice.

Without the environment variable ROUNDSMAN_FAULTS a point does nothing. With it, the variable names a folder; a file
there with the name of a point is taken away once, and the daemon of the given pid file is killed with SIGKILL.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

POINTS = ("before-opcode-start", "before-began", "before-result", "before-settling", "between-commits")


def point(name: str) -> None:
    """Kill the daemon here when a test asked for it."""
    folder = os.environ.get("ROUNDSMAN_FAULTS")
    if not folder:
        return
    try:
        (Path(folder) / name).rename(Path(folder) / f"{name}.hit")
    except FileNotFoundError:
        return
    pid = int((Path(folder) / "daemon.pid").read_text())
    os.kill(pid, signal.SIGKILL)
