"""Files that survive kill -9, a full disk and a torn write."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ..module_utils.domain import errors

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, data: bytes, *, mode: int = 0o640, is_of_folder: bool = False) -> None:
    """Give a file a new content in one step: after a crash there is either the old or the new one, whole.

    It keeps the group of the file that it replaces, which says who else may read it. With `is_of_folder` a file that
    root writes belongs to the owner of its folder, a daemon that has to read and replace it.

    Raises:
        StoreFailed: the new content could not be made durable; the old one is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = _create(temporary, mode)
        with os.fdopen(descriptor, "wb") as stream:
            if is_of_folder:
                give_to_owner_of(path.parent, descriptor)
            _keep_group(path, descriptor)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise errors.StoreFailed(
            f"{path} could not be written: {error.strerror}; what was there before is kept"
        ) from error


def give_to_owner_of(folder: Path, descriptor: int) -> None:
    """Give what root has just made in a folder to the owner of the folder; without effect for anybody else."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _create(path: Path, mode: int) -> int:
    """Open a new file, whatever has its name: the folder may have other writers, who could put a link there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        path.unlink()
        return os.open(path, flags, mode)


def _keep_group(path: Path, descriptor: int) -> None:
    try:
        group = path.stat().st_gid
    except FileNotFoundError:
        return
    if group != os.fstat(descriptor).st_gid:
        os.fchown(descriptor, -1, group)


def append_line(path: Path, line: str) -> None:
    """Add one line to a file, durably.

    Raises:
        StoreFailed: the line could not be made durable; nothing of it is left to spoil the next one.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            size = os.fstat(descriptor).st_size
            _append(descriptor, line.encode() + b"\n", size=size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not size:
            sync_folder(path.parent)
    except OSError as error:
        raise errors.StoreFailed(f"{path} could not be written: {error.strerror}") from error


def _append(descriptor: int, data: bytes, *, size: int) -> None:
    if os.write(descriptor, data) < len(data):
        os.ftruncate(descriptor, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
