"""Kills a daemon at the points of `daemon/faults.py`: in processes of the tests, by a module that Python loads first.

A file with the name of a point is taken away once, and then the daemon of `daemon.pid` is killed with SIGKILL.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

PROGRAMS = (".cluster.daemon", ".opcode_process")
"""How the names of the modules end that have points."""
SITE = f"""import sys
if any(word.endswith({PROGRAMS!r}) for word in sys.orig_argv):
    sys.path.append({str(Path(__file__).resolve().parents[1])!r})
    from tests import crash_points
    crash_points.install({{folder!r}})
    sys.path.pop()
"""


def make(folder: Path) -> dict[str, str]:
    """Make the folder for these files; returns what the daemon needs in its environment."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE.format(folder=str(folder)))
    others = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), others)))}


def install(folder: str) -> None:
    """Have the points of this process kill the daemon when a file of the folder asks for it."""
    from ansible_collections.roundsman.cluster.daemon import faults  # noqa: PLC0415 - in the processes of a lab only

    def point(name: str) -> None:
        try:
            Path(folder, name).rename(Path(folder, f"{name}.hit"))
        except FileNotFoundError:
            return
        os.kill(int(Path(folder, "daemon.pid").read_text()), signal.SIGKILL)

    faults.point = point
