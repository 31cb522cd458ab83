"""Files that survive kill -9, a full disk, a torn write and a failed fsync.

A failed fsync does not fail twice: the kernel takes what it could not write for written. So what a disk without room
refuses is taken back and refused; after any other failure, and after each one of a folder whose names have changed, it
is unknown what the disk keeps. From then on this process writes nothing more, and those who listen are told.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
TAIL = 1 << 16
"""How many bytes of an unfinished last line are looked at together."""


@dataclass
class Disk:
    """What this process knows of its disk: the first failure that left something unknown, and who is told of it."""

    failure: errors.StateUnknown | None = None
    listeners: list[Callable[[errors.StateUnknown], None]] = field(default_factory=list)

    def refuse_if_failed(self) -> None:
        """Raises: StateUnknown: something is unknown already, and nothing may rely on it."""
        if self.failure is not None:
            raise errors.StateUnknown(str(self.failure))

    def failed(self, path: Path, error: OSError) -> errors.StateUnknown:
        """Keep a failure and tell it; returns what is to be raised."""
        found = errors.StateUnknown(f"{path}: the disk failed ({error.strerror}), and what it keeps is unknown")
        if self.failure is None:
            self.failure = found
            for tell in self.listeners:
                tell(found)
        return found


_DISK = Disk()


def on_unknown(tell: Callable[[errors.StateUnknown], None]) -> None:
    """Have the first failure that leaves something unknown told, in the thread in which it happens."""
    _DISK.listeners.append(tell)


def replace(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o640,
    is_of_folder: bool = False,
    changed: float | None = None,
    for_this_boot: bool = False,
) -> None:
    """Give a file a new content in one step: after a crash there is either the old or the new one, whole.

    It keeps the group of the file that it replaces, which says who else may read it. With `is_of_folder` a file that
    root writes belongs to the owner of its folder, a daemon that has to read and replace it, and the umask of the
    writer does not count. `changed` is the unix time at which it was changed, if that is not now. With `for_this_boot`
    nothing waits for the disk: after a loss of power the file may be missing or empty, and nobody may rely on it.

    Raises:
        StoreFailed: the new content could not be made durable; the old one is still there.
        StateUnknown: the disk failed; the old or the new content may be there.
    """
    _DISK.refuse_if_failed()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        folder = _open_folder(path.parent)
        try:
            with os.fdopen(_create(temporary, mode), "wb") as stream:
                if is_of_folder:
                    give_to_owner_of(path.parent, stream.fileno())
                    os.fchmod(stream.fileno(), mode)
                _keep_group(path, stream.fileno())
                stream.write(data)
                stream.flush()
                if changed is not None:
                    os.utime(stream.fileno(), (changed, changed))
                if not for_this_boot:
                    sync(stream.fileno(), path)
            rename(temporary, path)
            if not for_this_boot:
                _sync_names(folder, path)
        finally:
            os.close(folder)
    except errors.StateUnknown:
        _remove(temporary)
        raise
    except OSError as error:
        _remove(temporary)
        raise errors.StoreFailed(
            f"{path} could not be written: {error.strerror}; what was there before is kept"
        ) from error


def write_again(path: Path, *, is_of_folder: bool = False) -> None:
    """Rewrite a file to a new one: what the disk may not have kept of it is durable then.

    Raises:
        FileNotFoundError: there is none. StoreFailed, StateUnknown: as for `replace`.
    """
    with path.open("rb") as stream:
        known, data = os.fstat(stream.fileno()), stream.read()
    # Renaming sets the ctime, and the writer of the file chose its mtime.
    changed = min(known.st_mtime, known.st_ctime)
    replace(path, data, mode=stat.S_IMODE(known.st_mode), is_of_folder=is_of_folder, changed=changed)


@contextlib.contextmanager
def opened_folder(folder: Path) -> Iterator[Path]:
    """A path to a folder that leads to it even if somebody puts a link, or another folder, into its place meanwhile.

    Raises:
        OSError: it is no folder, or a link to one.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


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
        replaced = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISREG(replaced.st_mode) and replaced.st_gid != os.fstat(descriptor).st_gid:
        os.fchown(descriptor, -1, replaced.st_gid)


def _remove(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError:
        # The next write of this process replaces it, and what failed before is what is to be told.
        return


def append_line(path: Path, line: str) -> None:
    """Add one line to a file, durably; what is left of a torn line before it is removed.

    Raises:
        StoreFailed: the line could not be made durable; nothing of it is left to spoil the next one.
        StateUnknown: the disk failed; the line may be there.
    """
    _DISK.refuse_if_failed()
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            # A line that is taken back must not be that of another process.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = _whole_lines(descriptor)
            if not size:
                sync_folder(path.parent)
            _append(descriptor, line.encode() + b"\n", size=size, path=path)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise errors.StoreFailed(f"{path} could not be written: {error.strerror}") from error


def _whole_lines(descriptor: int) -> int:
    """Remove what follows the last whole line; returns the size that is left."""
    end = size = os.fstat(descriptor).st_size
    while end:
        begin = max(0, end - TAIL)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            end = begin + found + 1
            break
        end = begin
    if end < size:
        os.ftruncate(descriptor, end)
    return end


def _append(descriptor: int, data: bytes, *, size: int, path: Path) -> None:
    try:
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301 - taken back like any other
        sync(descriptor, path)
    except OSError:
        _take_back(descriptor, size=size, path=path)
        raise


def _take_back(descriptor: int, *, size: int, path: Path) -> None:
    """Let a file have so many bytes again, durably: a part of a line that was refused may be on the disk."""
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    except OSError as error:
        raise _DISK.failed(path, error) from error


def sync(descriptor: int, path: Path) -> None:
    """Make the content of an open file durable.

    Raises:
        OSError: the disk has no room for it. StateUnknown: the disk failed.
    """
    _DISK.refuse_if_failed()
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        raise _DISK.failed(path, error) from error


def rename(path: Path, target: Path) -> None:
    """Give a file or folder another name, not yet durably.

    Raises:
        OSError: it has its old name. StateUnknown: the disk failed; it may have either name after a restart.
    """
    try:
        path.replace(target)
    except OSError as error:
        if error.errno == errno.EIO:
            raise _DISK.failed(target, error) from error
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: it cannot be opened. StateUnknown: the disk failed; names may be the old or the new ones.
    """
    _DISK.refuse_if_failed()
    descriptor = _open_folder(folder)
    try:
        _sync_names(descriptor, folder)
    finally:
        os.close(descriptor)


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _sync_names(descriptor: int, path: Path) -> None:
    """The names have changed already: it does not matter why the disk does not keep them."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise _DISK.failed(path, error) from error
