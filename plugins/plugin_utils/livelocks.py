"""Livelocks: a file whose flock is held for as long as a process lives."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def opened(livelock: Path) -> int:
    """A descriptor of a livelock; its folder has other writers, so links are refused and pipes do not block.

    Raises:
        OSError: there is none, or it is a link.
    """
    return os.open(livelock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


def is_alive(livelock: Path) -> bool:
    """Whether the process that holds a livelock still runs: the file is there and somebody holds its flock."""
    try:
        descriptor = opened(livelock)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            return False
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
