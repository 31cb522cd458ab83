"""A tree of the collection of its own for each run: nothing that is edited meanwhile changes what is tried.

Its limits are shorter than those of the product, so that a process may be stopped beyond each of them; and it may have
a mutant in it.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.chaos.mutants.mutant import ROOT, Edit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.mutants.mutant import Mutant

PARTS = ("plugins", "daemon", "roles", "playbooks", "meta", "galaxy.yml")
SHORTER = (
    Edit("plugins/plugin_utils/silent_nodes/report_ages.py", "\nAGENT_INTERVAL = 60.0\n", "\nAGENT_INTERVAL = 5.0\n"),
    Edit("daemon/maintenance/dead_nodes.py", "\nCOMMANDED_AGAIN = 300.0\n", "\nCOMMANDED_AGAIN = 15.0\n"),
    Edit("daemon/jobs/process.py", "\nMARGIN = 60.0\n", "\nMARGIN = 5.0\n"),
    Edit(
        "plugins/plugin_utils/opcodes/time_limits.py",
        "    return math.ceil(RUN + sum(parts))\n",
        "    return math.ceil(min(110.0, RUN + sum(parts)))\n",
    ),
    Edit("daemon/warm/client.py", "\nPATIENCE = 60.0\n", "\nPATIENCE = 15.0\n"),
)


SHORTER_WITH_TWO = (
    Edit("daemon/maintenance/leading.py", "\nLAPSE_SECONDS = 180.0\n", "\nLAPSE_SECONDS = 30.0\n"),
    Edit("daemon/maintenance/leadership.py", "\nEVERY = 60.0\n", "\nEVERY = 10.0\n"),
    Edit("daemon/maintenance/leadership.py", "\nAGAIN = 600.0\n", "\nAGAIN = 60.0\n"),
)
"""With two controllers those of who leads, too: three rounds of questions are three rounds."""


def make(folder: Path, *, mutant: Mutant | None, has_two: bool = False) -> Path:
    """Copy the collection into a folder, shorten its limits, apply a mutant; returns what PYTHONPATH needs.

    With `has_two` two controllers are to take over from each other.
    """
    folder.mkdir()
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, folder / name)
    for edit in (*SHORTER, *(SHORTER_WITH_TWO if has_two else ())):
        edit.apply(folder)
    if mutant is not None:
        mutant.apply(folder)
    return folder / "playbooks/collections"
