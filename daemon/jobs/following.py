"""Being told of new lines in the logs of a job's runs, as they are written."""

from __future__ import annotations

import contextlib
import logging
from pathlib import PurePath
from typing import TYPE_CHECKING

from watchdog.events import FileCreatedEvent, FileModifiedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.inotify import InotifyObserver

from . import task_log

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOG = logging.getLogger(__name__)


class _Lines(FileSystemEventHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
        self._loop = loop
        self._tell = tell

    def on_any_event(self, event: FileSystemEvent) -> None:
        is_written = isinstance(event, (FileCreatedEvent, FileModifiedEvent))
        if is_written and PurePath(str(event.src_path)).name == task_log.NAME:
            # The loop may close between a look and a call.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._tell)


@contextlib.contextmanager
def lines(folder: Path, tell: Callable[[], None], *, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While the block runs, `tell` is called in the loop for new lines of any run in a job's folder.

    Where the kernel has no more watches to give, nobody is told: the lines are there all the same.
    """
    try:
        # The first of these may fail, too: an instance of inotify is made with the observer.
        observer = InotifyObserver()
        observer.schedule(_Lines(loop, tell), str(folder), recursive=True)
        observer.start()
    except OSError as error:
        LOG.warning("%s cannot be followed: %s", folder, error.strerror)
        yield
        return
    try:
        yield
    finally:
        observer.stop()
