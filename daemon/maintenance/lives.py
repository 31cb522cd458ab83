"""When nodes were asked whether they live, and when they last did, as this daemon has seen it itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import evidence, replicas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Lives:
    """What polls and opcodes show of nodes (UUIDs); nothing of it outlives the daemon.

    A daemon that has just started has asked nobody: until a node is known to be off it may have lived.
    """

    def __init__(self, *, clock: Callable[[], float], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._asked: dict[str, evidence.Asked] = {}
        self._alive: dict[str, replicas.Moment] = {}

    def now(self) -> replicas.Moment:
        """The present."""
        return replicas.Moment(self._clock(), self._monotonic())

    def asked(self, node: str) -> evidence.Asked | None:
        """When a node was asked without a gap up to the last question, None for never."""
        return self._asked.get(node)

    def alive(self, node: str) -> replicas.Moment | None:
        """When a node last showed that it lives, None for never."""
        return self._alive.get(node)

    def ask(self, node: str, at: replicas.Moment, *, gap: float) -> None:
        """A node was asked at a moment, and has answered or not; after `gap` seconds without a question it may live."""
        known = self._asked.get(node)
        self._asked[node] = evidence.Asked(at, at) if known is None else known.again(at, gap=gap)

    def live(self, nodes: Iterable[str], at: replicas.Moment | None = None) -> None:
        """These nodes lived at a moment, by default now."""
        for node in nodes:
            known = replicas.latest(self._alive.get(node), at or self.now())
            if known is not None:
                self._alive[node] = known

    def keep(self, members: Iterable[str]) -> None:
        """Forget the nodes that have left the cluster."""
        for known in (self._asked, self._alive):
            for node in known.keys() - set(members):
                del known[node]
