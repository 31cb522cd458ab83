"""Whether the machine is fast enough to prove anything: limits that processes cannot keep cry wolf."""

from __future__ import annotations

import os
import statistics
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

TICK, LATE = 0.1, 0.6
"""Seconds between two looks at the clock, and how long one of them may take instead."""
MOST_LATE = 0.05
"""The share of looks that may be late."""
SLOW = 30.0
"""Seconds within which half of the opcodes have to end; on an idle machine of two cores it is about five."""
MOST_LOAD = 4.0
"""Processes for each CPU that want to run, on average; a run of chaos alone has about two on two cores."""
ENOUGH = 5
"""Opcodes of which it is said how long they took."""


class Speed:
    """Looks at the clock in a thread of its own, and says how often the machine kept it waiting."""

    def __init__(self) -> None:
        self._count = self._late = 0
        self._load = 0.0
        self._ends = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._ends.set()

    def problem(self, opcodes: Iterable[float]) -> str:
        """Why nothing is proven, by the seconds that each opcode took; '' where the machine was fast enough."""
        count = max(1, self._count)
        return why_slow(self._late / count, list(opcodes), load=self._load / count)

    def _look(self) -> None:
        before = time.monotonic()
        while not self._ends.wait(TICK):
            now = time.monotonic()
            self._count, self._late = self._count + 1, self._late + (now - before > LATE)
            self._load += os.getloadavg()[0] / (os.cpu_count() or 1)
            before = now


def why_slow(late: float, opcodes: list[float], *, load: float = 0.0) -> str:
    """Why nothing is proven where this share of looks was late and opcodes took so many seconds, or ''.

    `load` is that for each CPU, on average.
    """
    if load > MOST_LOAD:
        return f"too slow to prove anything: {load:.0f} processes for each CPU wanted to run"
    if late > MOST_LATE:
        return f"too slow to prove anything: {100 * late:.0f} % of the looks at the clock came late"
    if len(opcodes) >= ENOUGH and (half := statistics.median(opcodes)) > SLOW:
        return f"too slow to prove anything: half of the opcodes took longer than {half:.0f} s"
    return ""
