"""The version that this process runs, where several stand side by side, as the role `controller` installs them.

A version is a virtual environment that is reached by a link. Interpreter, collection and roles of a process come from
the environment to which the link led when the process started.
"""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

LOCK = ".in-use"
_held: list[int] = []


def hold() -> int | None:
    """Keep the folder of this version as long as this process lives, or another one that inherits the descriptor.

    Returns the descriptor, or None where no such folder is kept (in a checkout, or after `pip install`) or its lock
    is taken by somebody else.
    """
    if not _held:
        try:
            descriptor = os.open(Path(sys.prefix, LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            # Every user of the machine can lock the file, so nothing waits for it: `versions.py` finds this process by
            # /proc, too.
            os.close(descriptor)
            return None
        _held.append(descriptor)
    return _held[0]
