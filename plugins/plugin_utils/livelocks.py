"""Livelocks: a file whose flock is held for as long as a process lives."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def is_alive(livelock: Path) -> bool:
    """Whether the process that holds a livelock still runs: the file is there and somebody holds its flock."""
    try:
        descriptor = os.open(livelock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
