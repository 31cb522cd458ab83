"""The spool: a file in it counts when it was closed after writing, or renamed into place.

The kernel's events are proven from time to time by a file that is opened and closed; while they do not arrive the spool
is polled.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import stat
from typing import TYPE_CHECKING

from watchdog.events import (
    FileClosedEvent,
    FileClosedNoWriteEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers.inotify import InotifyObserver

from ...plugins.module_utils.domain.agent import reports
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import durable_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from watchdog.observers.api import BaseObserver

    from ..failures import Failures

LOG = logging.getLogger(__name__)
PART = "spool watcher"
REMEDY = (
    "none needed for reports, which are polled meanwhile; if it lasts, see `sysctl fs.inotify` and restart roundsmand"
)
UNREADABLE = "unreadable"
"""Why a file is rejected that the daemon's user may not read."""
PROBE = ".watch"
INTERVAL, POLLING, LIMIT = 30.0, 5.0, 10.0
"""Seconds between two proofs, between two looks while there are no events, and for the event of a proof."""


class Watch(FileSystemEventHandler):
    """Calls back in the event loop whenever a file in the folder is complete."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self.is_proven = asyncio.Event()

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, FileClosedNoWriteEvent) and os.fsdecode(event.src_path).endswith(f"/{PROBE}"):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.is_proven.set)
        if isinstance(event, (FileClosedEvent, FileMovedEvent)) and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._callback)


def watch(folder: Path, handler: Watch) -> BaseObserver:
    """Start watching a folder; the observer is to be stopped by the caller."""
    observer = InotifyObserver(generate_full_events=True)
    observer.schedule(handler, str(folder))
    observer.start()
    return observer


async def keep_watching(folder: Path, callback: Callable[[], None], *, failures: Failures) -> None:
    """Call back for ever when a file is complete: by the kernel's events, or every few seconds while these fail."""
    observer: BaseObserver | None = None
    handler = Watch(asyncio.get_running_loop(), callback)
    try:
        while True:
            try:
                if observer is None:
                    await asyncio.to_thread(folder.mkdir, mode=0o750, parents=True, exist_ok=True)
                    observer = watch(folder, handler)
                    callback()
                await _prove(folder, handler)
            except (OSError, errors.Failed) as error:
                failures.failed(PART, error, remedy=REMEDY)
                if observer is not None:
                    observer.stop()
                    observer = None
                callback()
                await asyncio.sleep(POLLING)
            else:
                failures.recovered(PART)
                await asyncio.sleep(INTERVAL)
    finally:
        if observer is not None:
            observer.stop()


async def _prove(folder: Path, handler: Watch) -> None:
    handler.is_proven.clear()
    await asyncio.to_thread(_open_and_close, folder / PROBE)
    try:
        await asyncio.wait_for(handler.is_proven.wait(), LIMIT)
    except TimeoutError as error:
        raise errors.Failed(f"no events of {folder} arrive from the kernel") from error


def _open_and_close(path: Path) -> None:
    if not path.exists():
        path.touch(mode=0o600)
    os.close(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))


def content(path: Path, *, is_kept: bool) -> bytes:
    """The bytes of a spooled file, durable if it is to be kept; never those of a link, a pipe or a large file.

    Raises:
        FileNotFoundError, BlockingIOError: it is gone, or somebody still writes it; another event will follow.
        ReportRejected: it is nothing that could be a report. StateUnknown: the disk failed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise errors.ReportRejected(UNREADABLE, _why_unreadable(path)) from error
    except OSError as error:
        raise errors.ReportRejected("malformed", f"not a file that can be read: {error.strerror}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise errors.ReportRejected("malformed", "not a regular file")
    with os.fdopen(descriptor, "rb") as stream:
        _refuse_while_written(stream.fileno())
        if found.st_size > reports.LIMIT:
            raise errors.ReportRejected("oversized", f"{found.st_size} bytes, and {reports.LIMIT} is the limit")
        data = stream.read(reports.LIMIT + 1)
        if is_kept:
            durable_files.sync(stream.fileno(), path)
    return data


def _why_unreadable(path: Path) -> str:
    found = path.lstat()
    return (
        f"the user with uid {os.geteuid()}, which is roundsmand's, may not read this file of uid {found.st_uid} with "
        f"the mode {stat.S_IMODE(found.st_mode):04o}: put reports into the spool as that user, or readable by it (0644)"
    )


def _refuse_while_written(descriptor: int) -> None:
    """A read lease is granted only when nobody has the file open for writing (the daemon ignores SIGIO)."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        raise
    except OSError:
        LOG.debug("no leases on this file: it is taken as complete")
