"""The archive of jobs that have ended: `queue/archive/<number // 10000>/<number>/`, the run folders too."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors
from ...plugins.plugin_utils import durable_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

PART = 10000
"""How many numbers share a folder, as in Ganeti."""


def numbers(folder: Path) -> Iterator[int]:
    """The names in a folder that are numbers."""
    with os.scandir(folder) as entries:
        yield from (int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdigit())


class Archive:
    """The archive below a queue folder; a job is in the queue or here, never in both, whenever a crash comes."""

    def __init__(self, queue: Path) -> None:
        self._queue = queue
        self._folder = queue / "archive"

    def folder(self, number: int) -> Path:
        """Where an archived job has its files."""
        return self._folder / str(number // PART) / str(number)

    def take_in(self, jobs: Iterable[int], *, on_moved: Callable[[int], object]) -> None:
        """Move jobs here, one after the other; `on_moved` hears of each that is here now.

        Raises:
            StoreFailed: one could not be moved.
        """
        touched: set[Path] = set()
        try:
            for number in jobs:
                target = self.folder(number)
                if target.parent not in touched:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    touched.add(target.parent)
                (self._queue / str(number)).rename(target)
                on_moved(number)
            for folder in [*touched, self._folder, self._queue] if touched else []:
                durable_files.sync_folder(folder)
        except OSError as error:
            raise errors.StoreFailed(f"the archive {self._folder} cannot be written: {error.strerror}") from error

    def highest_id(self) -> int:
        """The highest number here; only the newest part is looked at."""
        return max(self.newest(1), default=0)

    def newest(self, count: int, *, before: int | None = None) -> list[int]:
        """The highest numbers here, at most so many and only those before one, in order."""
        found: list[int] = []
        for part in sorted(self._parts(), reverse=True):
            if len(found) < count and (before is None or part * PART < before):
                inside = (one for one in numbers(self._folder / str(part)) if before is None or one < before)
                found += sorted(inside, reverse=True)[: count - len(found)]
        return sorted(found)

    def remove_older(self, *, than: float, but: Collection[int]) -> list[int]:
        """Remove the jobs whose files were last written before a moment (unix seconds), with all their files.

        The highest number stays whatever its age, for no later job may get it again. Returns the numbers.

        Raises:
            StoreFailed: one could not be removed.
        """
        kept = {*but, self.highest_id()}
        removed: list[int] = []
        try:
            for part in sorted(self._parts()):
                for number in sorted(numbers(self._folder / str(part))):
                    if number not in kept and _written(self.folder(number)) < than:
                        shutil.rmtree(self.folder(number))
                        removed.append(number)
        except OSError as error:
            raise errors.StoreFailed(f"the archive {self._folder} cannot be cleared: {error.strerror}") from error
        return removed

    def _parts(self) -> list[int]:
        return list(numbers(self._folder)) if self._folder.is_dir() else []


def _written(folder: Path) -> float:
    try:
        return (folder / "job.json").stat().st_mtime
    except FileNotFoundError:
        # Its removal was interrupted.
        return folder.stat().st_mtime
