"""Files of the controller that only root may have written: what they hold or name is run by the daemon."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ..module_utils.domain import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITABLE_BY_OTHERS = 0o022


def owners(root: Path) -> frozenset[int]:
    """The uids that may own such files below a root: 0, and the caller's where the root folder is its own (a lab)."""
    own = os.geteuid()
    try:
        return frozenset({0, own}) if root.stat().st_uid == own else frozenset({0})
    except OSError:
        return frozenset({0})


def read(path: Path, *, root: Path) -> bytes | None:
    """The content of a file in such a folder, or None where there is no such file.

    Raises:
        Refused: folder or file is a link, can be written by group or others, or is not owned by root.
    """
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.Refused(
            f"{path.parent}: {error.strerror}: it must be a folder owned by root, not a link"
        ) from error
    try:
        _refuse_others(path.parent, os.fstat(folder), root=root)
        return _content(path, folder, root=root)
    finally:
        os.close(folder)


def is_trusted(path: Path, *, root: Path) -> bool:
    """Whether a file and the folder it is in are root's alone, and the file is a regular one."""
    try:
        refuse_untrusted(path, root=root)
    except errors.Refused:
        return False
    return True


def refuse_untrusted(path: Path, *, root: Path) -> None:
    """Go on only if a file is regular, and it and its folder are owned by root and writable by nobody else.

    A link to a file counts as what it points to: only root could make it in such a folder.

    Raises:
        Refused: they are not, or not there.
    """
    for place, follow, is_right, kind in (
        (path.parent, False, stat.S_ISDIR, "a folder, not a link"),
        (path, True, stat.S_ISREG, "a regular file"),
    ):
        try:
            found = place.stat(follow_symlinks=follow)
        except OSError as error:
            raise errors.Refused(f"{place}: {error.strerror}") from error
        if not is_right(found.st_mode):
            raise errors.Refused(f"{place} must be {kind}")
        _refuse_others(place, found, root=root)


def _content(path: Path, folder: int, *, root: Path) -> bytes | None:
    try:
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.Refused(f"{path}: {error.strerror}: it must be a regular file that this user can read") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise errors.Refused(f"{path} must be a regular file, not a link or anything else")
        _refuse_others(path, found, root=root)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _refuse_others(place: Path, found: os.stat_result, *, root: Path) -> None:
    allowed = owners(root)
    if found.st_uid not in allowed:
        names = " or ".join(f"uid {uid}" if uid else "root" for uid in sorted(allowed))
        raise errors.Refused(f"{place} is owned by uid {found.st_uid}: it must be owned by {names}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & WRITABLE_BY_OTHERS:
        raise errors.Refused(
            f"{place} has the mode {mode:04o}, so others than its owner can write it: "
            f"`chmod {mode & ~WRITABLE_BY_OTHERS:04o} {place}`"
        )


def variants(folder: Path, name: str, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """The paths that a file of this name may have in a folder, one for each suffix; none for a name with a slash."""
    if name and not name.startswith(".") and Path(name).name == name:
        yield from (folder / f"{name}{suffix}" for suffix in suffixes)
