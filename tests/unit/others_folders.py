"""Folders of an account that is trusted less than root, and what it plants there: for tests that run as root."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit import other_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LESSER = other_users.DAEMON
"""An uid without an account, and the gid of its only group."""
Known = dict[str, tuple[int, int, int, bytes]]
"""Owner, group, mode and content of files by their names."""


def start(act: Callable[[], object], *, uid: int = LESSER) -> int:
    """Begin something in a process of another user, and return its pid; its exit status is 1 after an error.

    It is a fork: other users may not reach this interpreter's files.
    """
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        act()
        status = 0
    finally:
        os._exit(status)


def give(path: Path, uid: int = LESSER) -> None:
    """Give a folder and all in it to the lesser account."""
    for each in (path, *path.rglob("*")):
        os.chown(each, uid, uid, follow_symlinks=False)


def make_victims(path: Path) -> Path:
    """A folder of root's with a secret file in it, which no other account may read or change."""
    path.mkdir(mode=0o700)
    (path / "secret").write_text("secret of root\n")
    (path / "secret").chmod(0o600)
    return path


def look(path: Path) -> Known:
    """All there is in a folder, and the folder itself."""
    found: Known = {}
    for each in (path, *sorted(path.rglob("*"))):
        status = each.lstat()
        content = each.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(each.relative_to(path))] = (status.st_uid, status.st_gid, status.st_mode, content)
    return found


def plant(path: Path, victims: Path) -> None:
    """Put a link in the place of a file or folder: to the secret file, or to the folder that it is in."""
    target = victims
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}.kept"))
    else:
        target = victims / "secret"
        path.unlink(missing_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
    os.chown(path, LESSER, LESSER, follow_symlinks=False)


@dataclasses.dataclass
class _Watch:
    """The paths that this process opened or changed, while it is switched on."""

    below: str = ""
    paths: set[Path] = dataclasses.field(default_factory=set)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.below and event in PATHS_OF:
            for given in arguments[: PATHS_OF[event]]:
                if isinstance(given, str | bytes | os.PathLike) and os.fsdecode(given).startswith(self.below):
                    self.paths.add(Path(os.fsdecode(given)))


PATHS_OF = {"open": 1, "os.chmod": 1, "os.chown": 1, "os.link": 2, "os.mkdir": 1, "os.remove": 1, "os.rename": 2}
"""Python's audit events about files, and how many paths come first among their arguments."""
_WATCH: list[_Watch] = []


@contextlib.contextmanager
def watched(below: Path) -> Iterator[set[Path]]:
    """The paths below a folder that this process opens or changes meanwhile."""
    if not _WATCH:
        _WATCH.append(_Watch())
        sys.addaudithook(_WATCH[0])
    watch = _WATCH[0]
    watch.paths = set()
    watch.below = f"{below}/"
    try:
        yield watch.paths
    finally:
        watch.below = ""
