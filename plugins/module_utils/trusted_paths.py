"""Files that are run or obeyed, and that only root may have written: programs, playbooks, host variables.

The rule for a program or playbook holds for every step of its path, links and their targets included:

- Each folder, link and file is owned by an allowed user (see `owners`), and group and others may not write it.
- One folder that others may write is accepted: a sticky one of an allowed user, such as /tmp, and only if the next
  step in it is a folder of an allowed user. The sticky bit keeps everybody else from renaming or removing that folder.
  A file or a link does not count there, although it may be root's: others can move a file of root's from a folder of
  their own into the sticky one, or give it a second name there. A folder cannot be moved or linked that way by somebody
  who may not write it.

Each step is opened below the one before it, without following links, and judged by its descriptor, so that what was
checked is what is used. A program is run by the descriptor of its file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Collection, FrozenSet, Iterator, List, Optional, Tuple

from .domain.values import errors

WRITABLE_BY_OTHERS = 0o022
MOST_LINKS = 40
SYSTEM_FOLDERS = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin"})
"""Commands of the operating system: root's, and made for anything but being run for somebody else."""
_OPEN_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Opened:
    """A file that passed the rule, by its descriptor, which is open as long as the context of `opened`.

    `places` are the links on the way to it and, last, where it is in the end.
    """

    path: str
    descriptor: int
    places: Tuple[str, ...]

    @property
    def executable(self) -> str:
        """A name for this very file, in this process and in those that inherit the descriptor."""
        return f"/proc/self/fd/{self.descriptor}"

    def refuse_unless_executable(self) -> None:
        """Go on only if this process may execute it."""
        if not os.access(self.executable, os.X_OK):
            raise errors.Refused(f"{self.path} cannot be executed: `chmod 0755 {shlex.quote(self.path)}`")


def owners(root: Optional[Path] = None) -> FrozenSet[int]:
    """The uids that may own such files: 0 and the caller's.

    Below a root folder, the caller's counts only where that folder is its own (a lab).
    """
    own = os.geteuid()
    if root is None:
        return frozenset({0, own})
    try:
        return frozenset({0, own}) if root.stat().st_uid == own else frozenset({0})
    except OSError:
        return frozenset({0})


@contextlib.contextmanager
def opened(path: str, *, allowed: Optional[Collection[int]] = None) -> Iterator[Opened]:
    """Open a regular file by an absolute path whose every step passes the rule; `allowed` are the uids of owners.

    Raises:
        Refused: it is not there, is no regular file, or a step of the path does not pass; the text names the step, and
            what to do.
    """
    with contextlib.ExitStack() as descriptors:
        walk = _Walk(path, owners() if allowed is None else allowed, descriptors)
        descriptor = walk.to_a_file()
        yield Opened(path, descriptor, tuple(walk.places))


@contextlib.contextmanager
def helper(path: str) -> Iterator[Opened]:
    """Open a program whose path somebody else than root may have chosen: it is no command of the system, either.

    Raises:
        Refused: as `opened`, or it cannot be executed, or it or a link to it is in one of SYSTEM_FOLDERS.
    """
    with opened(path) as found:
        system = SYSTEM_FOLDERS.intersection(map(os.path.dirname, found.places))
        if system:
            raise errors.Refused(
                f"{path} is a command of the system, in {min(system)}: "
                "put the helper program into a folder of its own, such as /opt/roundsman-oob"
            )
        found.refuse_unless_executable()
        yield found


def refuse_unlisted(found: Opened, folder: str) -> None:
    """Go on only if a folder has this very file, or a link to it whose every step passes the rule.

    Raises:
        Refused: it has not, or as `check_folder`.
    """
    is_there = os.path.lexists(folder)
    if is_there:
        check_folder(folder)
    known = os.fstat(found.descriptor)
    if not is_there or not any(_leads_to(str(entry), known) for entry in Path(folder).iterdir()):
        make = "" if is_there else f"install -d -m 0755 {shlex.quote(folder)} && "
        raise errors.Refused(
            f"{found.path} is not run by root, because neither it nor a link to it is in {folder}: "
            f"`{make}ln -s {shlex.quote(found.path)} {shlex.quote(folder)}/`"
        )


def _leads_to(path: str, known: os.stat_result) -> bool:
    try:
        with opened(path) as entry:
            return os.path.samestat(os.fstat(entry.descriptor), known)
    except errors.Refused:
        return False


def check_folder(path: str) -> None:
    """Go on only if an absolute path leads to a folder and every step of it passes the rule.

    Raises:
        Refused: as `opened`.
    """
    with contextlib.ExitStack() as descriptors:
        _Walk(path, owners(), descriptors).to_a_folder()


def check(path: Path, *, root: Path) -> None:
    """Go on only if a path below or outside of a root leads to a regular file and every step of it passes the rule.

    Raises:
        Refused: as `opened`.
    """
    with opened(str(path), allowed=owners(root)):
        pass


def is_trusted(path: Path, *, root: Path) -> bool:
    """Whether `check` goes on."""
    try:
        check(path, root=root)
    except errors.Refused:
        return False
    return True


def read(path: Path, *, root: Path) -> Optional[bytes]:
    """The content of a file in a folder of the controller's, or None where there is no such file.

    Only the folder and the file are looked at, and neither may be a link: the folders above are the controller's own.

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
        _refuse_others(str(path.parent), os.fstat(folder), owners(root))
        return _content(path, folder, owners(root))
    finally:
        os.close(folder)


def variants(folder: Path, name: str, suffixes: Tuple[str, ...]) -> Iterator[Path]:
    """The paths that a file of this name may have in a folder, one for each suffix; none for a name with a slash."""
    if name and not name.startswith(".") and Path(name).name == name:
        yield from (folder / f"{name}{suffix}" for suffix in suffixes)


@dataclass(frozen=True)
class _Folder:
    path: str
    descriptor: int
    is_shared: bool
    """Whether others may create entries in it."""


class _Walk:
    """The way along a path, step by step from /."""

    def __init__(self, path: str, allowed: Collection[int], descriptors: contextlib.ExitStack) -> None:
        self._path, self._allowed, self._descriptors = path, allowed, descriptors
        self._folders: List[_Folder] = []
        self.places: List[str] = []

    def to_a_file(self) -> int:
        """Take all steps, and give the descriptor of the regular file that the path leads to."""
        descriptor, mode = self._to_the_end()
        if not stat.S_ISREG(mode):
            raise errors.Refused(f"{self._path} must be a regular file")
        return descriptor

    def to_a_folder(self) -> None:
        """Take all steps, and refuse what is no folder."""
        if not stat.S_ISDIR(self._to_the_end()[1]):
            raise errors.Refused(f"{self._path} must be a folder")

    def _to_the_end(self) -> Tuple[int, int]:
        """The descriptor and the mode of what the path leads to."""
        if not self._path.startswith("/"):
            raise errors.Refused(f"{self._path!r} is not an absolute path")
        try:
            self._start()
            return self._take(_steps(self._path))
        except (OSError, ValueError) as error:
            raise errors.Refused(f"{self._path}: {getattr(error, 'strerror', None) or error}") from error

    def _start(self) -> None:
        descriptor = self._opened("/", None)
        self._folders = [self._judged("/", descriptor, os.fstat(descriptor))]

    def _take(self, left: List[str]) -> Tuple[int, int]:
        while left:
            name, folder = left.pop(), self._folders[-1]
            if name == "..":
                del self._folders[max(1, len(self._folders) - 1) :]
                continue
            place = folder.path.rstrip("/") + "/" + name
            descriptor = self._opened(name, folder.descriptor)
            found = os.fstat(descriptor)
            self._refuse_in_shared(place, folder, found)
            if stat.S_ISDIR(found.st_mode):
                self._folders.append(self._judged(place, descriptor, found))
                continue
            self._refuse_others(place, found)
            self.places.append(place)
            if stat.S_ISLNK(found.st_mode):
                left += self._target(descriptor)
            elif left:
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            else:
                return descriptor, found.st_mode
        return self._folders[-1].descriptor, stat.S_IFDIR

    def _opened(self, name: str, folder: Optional[int]) -> int:
        descriptor = os.open(name, _OPEN_STEP, dir_fd=folder)
        self._descriptors.callback(os.close, descriptor)
        return descriptor

    def _target(self, link: int) -> List[str]:
        if len(self.places) > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink("", dir_fd=link)
        if target.startswith("/"):
            del self._folders[1:]
        return _steps(target)

    def _judged(self, place: str, descriptor: int, found: os.stat_result) -> _Folder:
        is_shared = bool(found.st_mode & WRITABLE_BY_OTHERS and found.st_mode & stat.S_ISVTX)
        self._refuse_others(place, found, even_writable=is_shared)
        return _Folder(place, descriptor, is_shared)

    def _refuse_in_shared(self, place: str, folder: _Folder, found: os.stat_result) -> None:
        if folder.is_shared and not stat.S_ISDIR(found.st_mode):
            raise errors.Refused(
                f"{self._about(place)} is in {folder.path}, where others can create files too: "
                "move it to a folder that only its owner can write"
            )

    def _refuse_others(self, place: str, found: os.stat_result, *, even_writable: bool = False) -> None:
        _refuse_others(place, found, self._allowed, about=self._about(place), even_writable=even_writable)

    def _about(self, place: str) -> str:
        """A step as an error names it: with the path that led there, where this is another one."""
        return place if place == self._path else f"{self._path}: {place}"


def _steps(path: str) -> List[str]:
    """The steps of a path, the first one last."""
    return [step for step in path.split("/") if step not in {"", "."}][::-1]


def _content(path: Path, folder: int, allowed: Collection[int]) -> Optional[bytes]:
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
        _refuse_others(str(path), found, allowed)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _refuse_others(
    place: str, found: os.stat_result, allowed: Collection[int], *, about: str = "", even_writable: bool = False
) -> None:
    if found.st_uid not in allowed:
        names = " or ".join(f"uid {uid}" if uid else "root" for uid in sorted(allowed))
        follow = "-h " if stat.S_ISLNK(found.st_mode) else ""
        raise errors.Refused(
            f"{about or place} is owned by uid {found.st_uid}: it must be owned by {names}: "
            f"`chown {follow}root:root {shlex.quote(place)}`"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & WRITABLE_BY_OTHERS and not even_writable and not stat.S_ISLNK(found.st_mode):
        raise errors.Refused(
            f"{about or place} has the mode {mode:04o}, so others than its owner can write it: "
            f"`chmod go-w {shlex.quote(place)}`"
        )
