"""The disk template `file`: raw files in a folder of the instance's only node."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Iterator, List, Tuple

from ..domain.values import errors
from .disks import Disk, Disks, LocalDisk, State, Step

if TYPE_CHECKING:
    from typing import ClassVar

MIB = 1024 * 1024


class Template:
    """The files `<file_dir>/<uuid>/disk<N>` of an instance, or a path where a disk was adopted."""

    reaches_others: ClassVar[bool] = False
    """Whether several nodes see the same files."""

    def __init__(self, disks: Disks, *, proc: pathlib.Path = pathlib.Path("/proc")) -> None:
        self._disks = disks
        self._proc = proc

    def steps(self, wanted: State) -> List[Step]:
        """As `Storage.steps`; the files of a running instance are not removed."""
        if wanted is State.SHARED and not self.reaches_others:
            raise errors.Refused(f"the disks of {self._disks.instance} are files of this node: no other can reach them")
        steps = []
        for disk, path in self._placed():
            if wanted is State.PRESENT and not disk.name and not path.exists():
                steps.append(_step(f"make the file {path} of {disk.size} MiB", self._create, path, disk.size))
            elif wanted in {State.PRESENT, State.ACTIVE, State.SHARED} and not path.exists():
                raise errors.Refused(f"{self._disks.instance} has no file {path} on this node")
            elif wanted is State.ABSENT and path.exists() and not disk.name:
                self._refuse_in_use(path)
                steps.append(_step(f"remove the file {path}", _remove, path))
        return steps

    def local_disks(self) -> List[LocalDisk]:
        """As `Storage.local_disks`."""
        return [
            LocalDisk(str(path), path.stat().st_size / MIB if path.exists() else None) for _, path in self._placed()
        ]

    def _placed(self) -> Iterator[Tuple[Disk, pathlib.Path]]:
        for number, disk in enumerate(self._disks.disks):
            folder, _, name = self._disks.own_name(number, "disk").partition(".")
            yield disk, pathlib.Path(disk.name or f"{self._disks.file_dir}/{folder}/{name}")

    def _create(self, path: pathlib.Path, size: int) -> None:
        """A file with its room taken, so that the instance does not meet a full disk; whole, or not there."""
        made = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(str(made), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                if self.reaches_others:
                    # Without the server's help each block of it would be written, over the network.
                    os.ftruncate(descriptor, size * MIB)
                else:
                    os.posix_fallocate(descriptor, 0, size * MIB)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            made.rename(path)
        except OSError as error:
            if made.exists():
                made.unlink()
            raise errors.Failed(f"{path}: {error.strerror}") from error

    def _refuse_in_use(self, path: pathlib.Path) -> None:
        wanted = path.stat()
        for opened in self._opened():
            try:
                found = opened.stat()
            except OSError:
                continue
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                raise errors.Refused(f"the file {path} of {self._disks.instance} is in use on this node")

    def _opened(self) -> Iterator[pathlib.Path]:
        """What the processes of this node have open; one that ends meanwhile has nothing open."""
        for process in self._proc.iterdir():
            if process.name.isdigit():
                try:
                    yield from (process / "fd").iterdir()
                except OSError:
                    continue


def _step(text: str, act: "object", *given: "object") -> Step:
    assert callable(act)
    return Step(text, lambda: act(*given))


def _remove(path: pathlib.Path) -> None:
    try:
        path.unlink()
        # The folder goes with the last disk.
        if not any(path.parent.iterdir()):
            path.parent.rmdir()
    except OSError as error:
        raise errors.Failed(f"{path}: {error.strerror}") from error
