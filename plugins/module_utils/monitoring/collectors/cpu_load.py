"""How busy the CPUs were in the last ten minutes, from `/proc/stat`."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Callable, Deque, Dict, Tuple

from ...domain.agent import collected
from ...domain.values import errors
from .. import observing

WINDOW = 600.0
_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_BUSY = tuple(place for place, name in enumerate(_COLUMNS) if name != "idle")
_Reading = Tuple[float, Dict[str, int]]


def make(*, clock: Callable[[], float] = time.monotonic) -> observing.Collect:
    """The collector; it keeps its readings of ten minutes."""
    readings: Deque[_Reading] = deque()

    def collect(where: observing.Surroundings) -> observing.Said:
        now = clock()
        readings.append((now, busy_ticks(observing.text_of(where.root / "proc/stat"))))
        while now - readings[0][0] > WINDOW:
            readings.popleft()
        return _average(readings[0], readings[-1])

    return collect


def busy_ticks(text: str) -> Dict[str, int]:
    """By CPU (`cpu` is all of them) the ticks in which it was not idle; time of guests is in `user` already.

    Raises: errors.Failed for a text that is not of `/proc/stat`.
    """
    found: Dict[str, int] = {}
    for line in text.splitlines():
        name, *values = line.split() or [""]
        if name.startswith("cpu"):
            try:
                found[name] = sum(int(values[place]) for place in _BUSY if place < len(values))
            except ValueError as e:
                raise errors.Failed("/proc/stat has no numbers: {}".format(line[:80])) from e
    if "cpu" not in found:
        raise errors.Failed("/proc/stat lists no CPU")
    return found


def _average(first: _Reading, last: _Reading) -> observing.Said:
    ticks = (last[0] - first[0]) * os.sysconf("SC_CLK_TCK")
    if ticks <= 0:
        return collected.Problem("early", "there is one reading, and an average takes two")
    both = [name for name in last[1] if name in first[1]]
    load = {name: max(0.0, (last[1][name] - first[1][name]) / ticks) for name in both}
    total = load.pop("cpu")
    return observing.as_json({"cpu_number": len(load), "cpus": list(load.values()), "cpu_total": total})
