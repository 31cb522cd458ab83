"""News: a number that grows with every change of state, for those who wait for one."""

from __future__ import annotations

import asyncio
import contextlib


class News:
    """Counts changes; a waiter names the last number it knows."""

    def __init__(self) -> None:
        self.number = 0
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Something has changed."""
        self.number += 1
        self._next.set()
        self._next = asyncio.Event()

    async def after(self, number: int, *, seconds: float) -> int:
        """The newest number, as soon as it is another than `number`, at the latest after so many seconds."""
        if self.number == number:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._next.wait(), seconds)
        return self.number
