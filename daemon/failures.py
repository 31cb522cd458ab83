"""What fails in the daemon now: each part reports here, and `/1/health`, `status`, `explain` and the page show it."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..plugins.module_utils.domain.values import control_characters, errors

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger(__name__)
TEXT_LIMIT = 1000
MOST = 200
"""How many failing parts are kept; more are only logged."""


class Defect(Exception):
    """An unforeseen exception in a part that others wait for: the daemon ends."""


@dataclass(frozen=True)
class Failure:
    """A part that fails: since when and when last (unix seconds), how often, the last error, and what helps."""

    part: str
    since: float
    last: float
    times: int
    text: str
    remedy: str


class Failures:
    """The parts that fail now. It is in memory only: after a restart each part is tried again."""

    def __init__(self, *, clock: Callable[[], float] = time.time, on_change: Callable[[], None] = lambda: None) -> None:
        self._clock = clock
        self._on_change = on_change
        self._failing: dict[str, Failure] = {}
        self._defect: Exception | None = None
        self._has_defect = asyncio.Event()

    def failed(self, part: str, error: BaseException | str, *, remedy: str = "") -> None:
        """Report that a part failed; the log gets a line when it begins to fail, or fails with another text.

        `part` and `remedy` are words for an operator; the text may come from anywhere.
        """
        part, text, now = one_line(part), one_line(str(error) or type(error).__name__), self._clock()
        known = self._failing.get(part)
        if known is None and len(self._failing) >= MOST:
            LOG.error("%s failed: %s", part, text)
            return
        if known is None or known.text != text:
            cause = error if isinstance(error, BaseException) else None
            LOG.error("%s failed: %s%s", part, text, f"; {remedy}" if remedy else "", exc_info=cause)
        since, times = (now, 0) if known is None else (known.since, known.times)
        self._failing[part] = Failure(part, since, now, times + 1, text, remedy)
        self._on_change()

    def recovered(self, part: str) -> None:
        """Report that a part works; without effect unless it failed before."""
        if self._failing.pop(one_line(part), None) is not None:
            LOG.info("%s works again", one_line(part))
            self._on_change()

    def listed(self) -> list[dict[str, Any]]:
        """Every part that fails now, the longest failing first, as JSON values."""
        return [
            dataclasses.asdict(failure) for failure in sorted(self._failing.values(), key=lambda failure: failure.since)
        ]

    def end(self, part: str, error: BaseException) -> Exception:
        """Report an unforeseen exception after which the part cannot work: the daemon ends, and systemd restarts it.

        Returns what those who wait for the part are to be given.
        """
        if isinstance(error, errors.StateUnknown):
            return self.end_unknown(error)
        LOG.critical("%s ended with an unforeseen exception; the daemon ends", part, exc_info=error)
        defect = Defect(f"{part} ended with an unforeseen exception: {one_line(repr(error))}")
        defect.__cause__ = error
        self._defect = self._defect or defect
        self._has_defect.set()
        return defect

    def end_unknown(self, error: errors.StateUnknown) -> errors.StateUnknown:
        """Report that the disk failed: the daemon ends, and the next one writes the state again; returns the error."""
        if self._defect is None:
            LOG.critical("%s; the daemon ends, and writes its state again when it starts", error)
            self._defect = error
            self._has_defect.set()
        return error

    def watch(self, part: str) -> Callable[[asyncio.Task[Any]], None]:
        """A callback for the end of a task of a part: one that ends with an exception ends the daemon."""

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.end(part, error)

        return ended

    async def until_defect(self) -> None:
        """Wait for an unforeseen exception.

        Raises:
            Defect: there is one.
        """
        await self._has_defect.wait()
        assert self._defect is not None
        raise self._defect


def one_line(text: str) -> str:
    """A text on one line without control characters, at most `TEXT_LIMIT` characters of it."""
    safe = control_characters.escaped(text[:TEXT_LIMIT])
    return safe if len(text) <= TEXT_LIMIT else f"{safe}…"
