"""Following the logs of jobs as they grow: one inotify of the daemon for all of them, however many clients follow.

It is there as long as somebody follows a log, and watches the folders of the jobs that are followed.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import struct
from typing import TYPE_CHECKING

from . import task_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODIFY, MOVED_TO, CREATE, IGNORED = 0x2, 0x80, 0x100, 0x8000
"""Events of Linux' inotify.h."""
ONLY_FOLDERS = 0x01000000
_HEADER = struct.Struct("iIII")
_READ = 65536


class Logs:
    """Wakes those who follow the log of a job when there may be new lines in it."""

    def __init__(self) -> None:
        self._inotify: int | None = None
        self._watches: dict[int, Path] = {}
        self._followers: dict[Path, set[asyncio.Event]] = {}

    @contextlib.contextmanager
    def follow(self, job: Path) -> Iterator[asyncio.Event]:
        """Follow the log of the job with this folder: the event is set when there may be new lines."""
        changed = asyncio.Event()
        self._followers.setdefault(job, set()).add(changed)
        try:
            yield changed
        finally:
            self._followers[job].discard(changed)
            if not self._followers[job]:
                del self._followers[job]
                self._forget(job)

    def watch(self, job: Path) -> bool:
        """Watch every folder in which new lines of a job that is followed may come; returns whether that worked.

        To be called before each look at the log: an opcode that began meanwhile has made another folder.
        """
        inotify = self._open()
        try:
            return inotify is not None and all(self._add(inotify, folder) for folder in _folders(job))
        except FileNotFoundError:
            return False

    def _open(self) -> int | None:
        if self._inotify is None:
            descriptor = ctypes.CDLL(None).inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if descriptor < 0:
                # Too many are open on this machine.
                return None
            self._inotify = descriptor
            asyncio.get_running_loop().add_reader(descriptor, self._read)
        return self._inotify

    def _add(self, inotify: int, folder: Path) -> bool:
        mask = MODIFY | MOVED_TO | CREATE | ONLY_FOLDERS
        watch = ctypes.CDLL(None).inotify_add_watch(inotify, os.fsencode(folder), mask)
        if watch >= 0:
            self._watches[watch] = folder
        return bool(watch >= 0)

    def _forget(self, job: Path) -> None:
        """Nobody follows this job any more, and perhaps none."""
        if self._inotify is None:
            return
        for watch in [watch for watch, folder in self._watches.items() if job in {folder, *folder.parents}]:
            del self._watches[watch]
            ctypes.CDLL(None).inotify_rm_watch(self._inotify, watch)
        if not self._followers:
            asyncio.get_running_loop().remove_reader(self._inotify)
            os.close(self._inotify)
            self._inotify = None

    def _read(self) -> None:
        if self._inotify is None:
            return
        with contextlib.suppress(BlockingIOError):
            for watch, mask, name in _events(os.read(self._inotify, _READ)):
                if mask & IGNORED:
                    self._watches.pop(watch, None)
                elif watch not in self._watches:
                    # There were more events than the kernel keeps.
                    self._wake(*self._followers)
                elif name in {task_log.NAME, task_log.LOOKUP} or name.isdigit():
                    folder = self._watches[watch]
                    self._wake(*(job for job in self._followers if job in {folder, *folder.parents}))

    def _wake(self, *jobs: Path) -> None:
        for job in jobs:
            for changed in self._followers[job]:
                changed.set()


def _folders(job: Path) -> Iterator[Path]:
    """The folder of a job, those of its runs, and those of their looks."""
    yield job
    for run in job.iterdir():
        if run.name.isdigit():
            yield run
            if (run / task_log.LOOKUP).is_dir():
                yield run / task_log.LOOKUP


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The watch, the mask and the file name of each event that was read."""
    start = 0
    while start < len(data):
        watch, mask, _cookie, length = _HEADER.unpack_from(data, start)
        start += _HEADER.size + length
        yield watch, mask, os.fsdecode(data[start - length : start].rstrip(b"\0"))
