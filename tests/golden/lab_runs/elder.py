"""A lab whose first daemon is that of another checkout; the next one is this checkout's, on the same folder.

ROUNDSMAN_BEFORE names the environment of the other checkout (`/path/to/checkout/.venv`). What is recorded is a run
whose first daemon is this checkout's, too: the text is the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import world

from .story import Story

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "ROUNDSMAN_BEFORE"


def environment() -> Path | None:
    """The environment of the other checkout, if it is given."""
    given = os.environ.get(VARIABLE)
    return Path(given) if given else None


def up(folder: Path, options: Mapping[str, Any]) -> Story:
    """Make a lab and start its first daemon by the command line of an environment, this checkout's by default."""
    program = options.get("environment", Path(sys.prefix)) / "bin/roundsman"
    sizes = ["--nodes", "3", "--instances", "1", "--migration-seconds", "10", "--diagnose-interval", "0"]
    subprocess.run([program, "lab", "up", "--dir", folder, *sizes], check=True, capture_output=True)
    return Story(world.Lab(folder.resolve()), {}, folder.with_name("faults"))
