"""Livelocks, files whose flock is held for as long as a process lives, and what plays keep beside them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from ..module_utils.domain.values import errors

if TYPE_CHECKING:
    from pathlib import Path


def opened(livelock: Path) -> int:
    """A descriptor of a livelock; its folder has other writers, so links are refused and pipes do not block.

    Raises:
        OSError: there is none, or it is a link.
    """
    return os.open(livelock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)


def is_alive(livelock: Path, *, owner: int | None = None) -> bool:
    """Whether the process that holds a livelock still runs: the file is there and somebody holds its flock.

    With `owner`, a uid, only a file of that user counts.

    Raises:
        Refused: this user may not read it, so nothing is known.
    """
    try:
        descriptor = opened(livelock)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP}:
            return False
        if error.errno == errno.EACCES:
            raise errors.Refused(
                f"{livelock} cannot be read by the user with uid {os.geteuid()}: {error.strerror}; "
                f"check as root that no process has it open (`fuser {livelock}`), "
                f"remove it (`rm {livelock}`), then retry"
            ) from error
        raise
    try:
        if owner is not None and os.fstat(descriptor).st_uid != owner:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a file of the calling user in a folder that others may write to; with `O_CREAT` it is made.

    Raises:
        FileNotFoundError: there is none.
        Refused: it belongs to somebody else, has other names, or is not a regular file; the text begins with its name.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise errors.Refused(f"{path.name}: {error.strerror}: it must be a file of this user, not a link") from error
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    raise errors.Refused(
        f"{path.name} belongs to the user with uid {found.st_uid}, or is no file of one name: remove it, then retry"
    )
