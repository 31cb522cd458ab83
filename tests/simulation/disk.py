"""The controller's disk: what is durable of files and of the names in folders, and what a loss of power leaves.

Only what was synced is certain. Of content that was not, a part may be there; of names that were not, the old or the
new ones. A sync that failed leaves its file as it was on the disk for ever: the kernel takes it for written.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.simulation.world import World

FULL_SECONDS = 40.0
"""For how long a disk is full at the most."""
NO_ROOM = 0.5
"""How often a file finds no room meanwhile: others take room, and give it back, all the time."""
FAILING_SECONDS = 60.0
"""Within how many seconds a failed sync is followed by a loss of power, where it is."""


class Disk:
    """The files below a root; inodes are those of the file system that they really are on."""

    def __init__(self, world: World, root: Path, *, concern: str = "power loss") -> None:
        self._world = world
        self._root = root
        self._concern = concern
        self._content: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._lost: set[int] = set()
        self._moves: list[tuple[int, int, str, int, str]] = []
        self._full_until = 0.0
        self._is_old = False

    def sync(self, descriptor: int) -> None:
        """Make an open file or folder durable, unless the disk has no room, or fails."""
        found = os.fstat(descriptor)
        is_folder = stat.S_ISDIR(found.st_mode)
        self._refuse(found, is_folder=is_folder)
        if is_folder:
            self._sync_names(descriptor, found.st_ino)
        elif found.st_ino not in self._lost:
            self._content[found.st_ino] = _content(f"/proc/self/fd/{descriptor}")

    def _refuse(self, found: os.stat_result, *, is_folder: bool) -> None:
        """Raises: OSError: the disk has no room for what has grown, or it fails."""
        world = self._world
        if world.happens("disk-full"):
            self._full_until = world.now + world.rng("disk").random() * FULL_SECONDS
        has_grown = not is_folder and found.st_size > len(self._content.get(found.st_ino, b""))
        is_full = has_grown and world.now < self._full_until and not world.is_calm
        if is_full and world.rng("room").random() < NO_ROOM:
            world.tell("the disk is full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if world.happens("sync-fails"):
            world.tell("a sync fails")
            self._lost.add(found.st_ino)
            if world.happens("power-loss-after-failed-sync"):
                world.cut_power(FAILING_SECONDS, "after a failed sync")
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _sync_names(self, folder: int, inode: int) -> None:
        with os.scandir(folder) as entries:
            names = {entry.name: entry.inode() for entry in entries}
        if inode in self._lost:
            if names == self._names.get(inode, {}):
                return
            # The kernel takes the names of before for written; with a new one it writes the folder again.
            self._lost.discard(inode)
        self._names[inode] = names
        for move in [move for move in self._moves if inode in {move[1], move[3]}]:
            self._moves.remove(move)
            moved, source, old, target, new = move
            if self._names.get(source, {}).get(old) == moved:
                del self._names[source][old]
            self._names.setdefault(target, {})[new] = moved

    def moves(self, source: Path, target: Path) -> None:
        """A file or folder is about to get a name in another folder: both change at once, whichever is synced."""
        old, new = os.path.split(source), os.path.split(target)
        if old[0] != new[0] and os.path.lexists(source):
            self._moves.append((_inode(source), _inode(old[0]), old[1], _inode(new[0]), new[1]))

    def settle(self) -> None:
        """All that is there now is durable."""
        self._lost.clear()
        self.write_back()

    def write_back(self) -> None:
        """The kernel has written by itself what was not synced, save what it takes for written."""
        self._moves.clear()
        self._write_folder_back(str(self._root))

    def _write_folder_back(self, folder: str) -> None:
        names: dict[str, int] = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                inode = names[entry.name] = entry.inode()
                if entry.is_dir(follow_symlinks=False):
                    self._write_folder_back(entry.path)
                elif entry.is_file(follow_symlinks=False) and inode not in self._lost:
                    self._content[inode] = _content(entry.path)
        if (own := _inode(folder)) not in self._lost:
            self._names[own] = names

    def lose_power(self) -> None:
        """Have only that which the disk has kept."""
        # Names come to the disk in their order: here all that were not synced did, or none.
        self._is_old = self._world.rng(self._concern).random() < 0.5
        self._restore(self._root)
        self.settle()

    def _restore(self, folder: Path) -> None:
        inode = folder.stat().st_ino
        there = {path.name: path.lstat().st_ino for path in folder.iterdir()}
        kept = self._names.get(inode, {}) if self._is_old or inode in self._lost else there
        for name in sorted(there.keys() - kept.keys()):
            _remove(folder / name)
        for name in sorted(kept):
            self._restore_entry(folder / name, kept[name], there)

    def _restore_entry(self, path: Path, inode: int, there: Mapping[str, int]) -> None:
        if there.get(path.name) != inode:
            _remove(path)
            self._make(path, inode)
        elif path.is_symlink():
            return
        elif path.is_dir():
            self._restore(path)
        elif path.is_file():
            self._tear(path, inode)

    def _make(self, path: Path, inode: int) -> None:
        """What had this name when its folder was synced."""
        if inode in self._names:
            path.mkdir()
            for name, child in sorted(self._names[inode].items()):
                self._make(path / name, child)
        else:
            path.write_bytes(self._content.get(inode, b""))

    def _tear(self, path: Path, inode: int) -> None:
        """Leave what is durable of a file, and perhaps a part of the rest."""
        chances, now = self._world.rng(self._concern), path.read_bytes()
        durable = self._content.get(inode, b"")
        if now == durable:
            return
        if inode in self._lost or not now.startswith(durable):
            kept = durable
        else:
            kept = now[: chances.randint(len(durable), len(now))]
        with path.open("r+b") as stream:
            stream.truncate(0)
            stream.write(kept)


def _inode(path: str | Path) -> int:
    return os.lstat(path).st_ino


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
