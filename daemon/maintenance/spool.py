"""The spool: a file in it counts when it was closed after writing, or renamed into place."""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from typing import TYPE_CHECKING

from watchdog.events import FileClosedEvent, FileMovedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.inotify import InotifyObserver

from ...plugins.module_utils.domain import errors, reports

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from watchdog.observers.api import BaseObserver

LOG = logging.getLogger(__name__)


class Watch(FileSystemEventHandler):
    """Calls back in the event loop whenever a file in the folder is complete."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback

    def on_any_event(self, event: FileSystemEvent) -> None:
        if isinstance(event, (FileClosedEvent, FileMovedEvent)) and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._callback)


def watch(folder: Path, callback: Callable[[], None], *, loop: asyncio.AbstractEventLoop) -> BaseObserver:
    """Start watching a folder; `callback` runs in the loop, and the observer is to be stopped by the caller."""
    observer = InotifyObserver(generate_full_events=True)
    observer.schedule(Watch(loop, callback), str(folder))
    observer.start()
    return observer


def content(path: Path, *, is_kept: bool) -> bytes:
    """The bytes of a spooled file, durable if it is to be kept; never those of a link, a pipe or a large file.

    Raises:
        FileNotFoundError, BlockingIOError: it is gone, or somebody still writes it; another event will follow.
        ReportRejected: it is nothing that could be a report.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
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
            os.fsync(stream.fileno())
    return data


def _refuse_while_written(descriptor: int) -> None:
    """A read lease is granted only when nobody has the file open for writing (the daemon ignores SIGIO)."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        raise
    except OSError:
        LOG.debug("no leases on this file: it is taken as complete")
