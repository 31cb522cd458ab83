"""How far the seeds of a run are: a line now and then, and what is said at the end, early or not."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from tests.simulation.trial import Outcome

EVERY = 30.0
"""Seconds from one line to the next, where no terminal shows them."""


class Progress:
    """Counts what the seeds from `first` on come to; `clock` gives seconds, `cpu` those of this process's work."""

    def __init__(
        self,
        first: int,
        *,
        out: TextIO = sys.stdout,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        self._first = first
        self._out = out
        self._clock, self._cpu = clock, cpu
        self._began, self._used = clock(), cpu()
        self._told = self._began
        self._played = self._settled = self._daemons = 0
        self._under_way: int | None = None

    @property
    def seconds(self) -> float:
        """For how long the seeds have been played."""
        return self._clock() - self._began

    @contextlib.contextmanager
    def playing(self, seed: int) -> Iterator[None]:
        """A seed is under way, and has been played once this ends without an error."""
        self._under_way = seed
        yield
        self._under_way = None

    def add(self, outcome: Outcome) -> None:
        """Count a seed, and print a line if it is time; a terminal shows one line after each seed, in one place."""
        self._played += 1
        self._settled += outcome.settled
        self._daemons += outcome.daemons
        is_shown = self._out.isatty()
        if is_shown or self._clock() - self._told >= EVERY:
            self._told = self._clock()
            print(f"{self.text()}; {self.seconds:.0f} s", end="\r" if is_shown else "\n", file=self._out, flush=True)

    def text(self) -> str:
        """What was played, and which seed is under way."""
        last = self._first + self._played - 1
        seeds = f"seeds {self._first} to {last}" if self._played else "no seed"
        minutes = max(self._cpu() - self._used, 0.001) / 60
        rate = f"{self._settled / minutes:.0f} in a CPU minute"
        done = f"{seeds}: {self._settled} jobs settled in {self._daemons} daemons, {rate}"
        return done if self._under_way is None else f"{done}; seed {self._under_way} was under way"
