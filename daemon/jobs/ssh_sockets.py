"""The sockets of a run's connections over SSH, in a folder of its own.

Connections that two runs share would end in the middle of one when the other is over and its processes are ended.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

LONGEST = 60
"""Characters of a path below which a folder with sockets can be made: a socket's whole path has 107 at most."""
_LINK = "ssh"


def make(run: Path, *, below: Path) -> Path:
    """Make the folder for a run, below a folder that nobody else may write; where its path is long, elsewhere."""
    below.mkdir(mode=0o750, parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ssh-", dir=below if len(str(below)) <= LONGEST else None))
    (run / _LINK).symlink_to(folder)
    return folder


def remove(run: Path) -> None:
    """Remove what `make` made for a run, if it did."""
    link = run / _LINK
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
        link.unlink()
