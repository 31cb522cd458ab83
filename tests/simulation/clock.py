"""An event loop on virtual time: it stands still while there is work, and leaps to what is next when there is none."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RESOLUTION = 1e-5


class _Idle(selectors.SelectSelector):
    """Nothing ever arrives; where the loop would wait, time leaps."""

    def __init__(self, leap: Callable[[float | None], None]) -> None:
        super().__init__()
        self._leap = leap

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._leap(timeout)
        return []


class Loop(asyncio.SelectorEventLoop):
    """`leap` moves the time of `now` on, by so many seconds at most, None for any."""

    def __init__(self, now: Callable[[], float], leap: Callable[[float | None], None]) -> None:
        super().__init__(_Idle(leap))
        self._now = now
        self._clock_resolution = RESOLUTION

    def time(self) -> float:
        return self._now()

    def _write_to_self(self) -> None:
        """Nobody else wakes this loop."""
