"""Watching the spool: a file counts when it was closed after writing, or renamed into place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdog.events import FileClosedEvent, FileMovedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers.inotify import InotifyObserver

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from watchdog.observers.api import BaseObserver


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
