"""The way between a console and simulated BMCs: how long a datagram takes, which are lost, and which come twice."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Conditions:
    """What the way does to datagrams, in both directions alike, save that only answers take their time.

    `delay` is the time before each answer, in seconds: some clients miss an answer that comes at once. `jitter` is the
    most that chance adds to it, so that one answer can overtake another. `loss` and `doubling` are the shares of
    datagrams that are lost and that come twice; which ones follows from `seed`.
    """

    delay: float = 0.001
    jitter: float = 0.0
    loss: float = 0.0
    doubling: float = 0.0
    seed: int = 0


CALM = Conditions()


class Wire:
    """Decides the fate of one datagram after the other."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._chance = random.Random(conditions.seed)  # noqa: S311 -- which datagrams are lost is no secret

    def copies(self) -> int:
        """How often the next datagram arrives: not at all, once or twice."""
        if self._happens(self._conditions.loss):
            return 0
        return 2 if self._happens(self._conditions.doubling) else 1

    def delays(self) -> Iterator[float]:
        """How long each copy of the next answer takes, in seconds."""
        jitter = self._conditions.jitter
        for _ in range(self.copies()):
            yield self._conditions.delay + (self._chance.uniform(0.0, jitter) if jitter else 0.0)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share
