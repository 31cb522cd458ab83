"""Event loops on virtual time, which stands still while there is work in any, and leaps when there is none."""

from __future__ import annotations

import asyncio
import selectors
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RESOLUTION = 1e-5


class _Idle(selectors.SelectSelector):
    """Nothing ever arrives; `seconds` is for how long the loop would have waited, None for ever."""

    seconds: float | None = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.seconds = timeout
        return []


class Loop(asyncio.SelectorEventLoop):
    """A loop whose time is that of `now`; it does not run by itself, but as far as it gets at this moment."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)
        self._now = now
        self._clock_resolution = RESOLUTION

    def turn(self) -> float | None:
        """Do what there is to do; returns for how many seconds there was nothing, 0 where there was, None for ever."""
        asyncio._set_running_loop(self)
        self._thread_id = threading.get_ident()
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            self._thread_id = None  # type: ignore[assignment]
            asyncio._set_running_loop(None)
        return self._idle.seconds

    def time(self) -> float:
        return self._now()

    def _write_to_self(self) -> None:
        """Nobody else wakes this loop."""
