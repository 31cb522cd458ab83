"""Ends of the daemon by unforeseen exceptions, counted across restarts; after the third the next start is read-only.

Only ends that the daemon recorded itself count: a power cut, kill -9 or a refused start (no configuration, a port in
use) do not. The clock is the kernel's, which no step of the wall clock moves; a reboot and a clean stop begin a new
count.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..plugins.plugin_utils import unsynced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = logging.getLogger(__name__)
MOST, WINDOW = 3, 300.0
"""So many ends within so many seconds, and the next start is read-only."""


@dataclass(frozen=True)
class End:
    """One end: the boot, the seconds since that boot, and the exception."""

    boot: str
    moment: float
    text: str


def _moment() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class AbnormalEnds:
    """The file of recorded ends; one that cannot be read or written counts nothing, and the log says so."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = _moment) -> None:
        self._path = path
        self._clock = clock
        self._boot = unsynced.boot()
        self._at_start = self.recent()

    def record(self, text: str) -> None:
        """Add an end that happens now; if the daemon was read-only, and was not resumed, the next start is so too."""
        now, known = self._clock(), self.recent()
        if len(self._at_start) >= MOST and self._path.exists():
            known = [dataclasses.replace(end, moment=now) for end in self._at_start[-MOST:]]
        ends = [*known, End(self._boot, now, text)]
        # Within this boot a file need not be durable, and the disk may be what has failed.
        made = self._path.with_name(f".{self._path.name}.new")
        try:
            made.write_text(json.dumps([vars(end) for end in ends]))
            made.replace(self._path)
        except OSError:
            LOG.exception("this end is not counted")

    def recent(self) -> list[End]:
        """The ends within the last five minutes of this boot, oldest first."""
        try:
            ends = [End(str(row["boot"]), float(row["moment"]), str(row["text"])) for row in self._rows()]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as error:
            LOG.warning("%s cannot be read and counts nothing: %s", self._path, error)
            return []
        now = self._clock()
        return [end for end in ends if end.boot == self._boot and 0 <= now - end.moment <= WINDOW]

    def clear(self) -> None:
        """Begin a new count."""
        self._path.unlink(missing_ok=True)

    def _rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._path.read_bytes())
        return found


class ReadOnly:
    """Whether the daemon only answers questions, and why; `reason` is '' when it works.

    While it `is_uncertain` what the disk has kept, it answers none either: a loss of power may take back what it knows.
    """

    REMEDY = (
        "read the log and remove the cause (`roundsman config import FILE` is accepted), then run `roundsman resume` "
        "or restart roundsmand"
    )
    DISK_REMEDY = "check the disk (see `dmesg`) and its free space, then run `roundsman resume` or restart roundsmand"

    def __init__(self, ends: AbnormalEnds, *, failed_disk: str = "") -> None:
        """`failed_disk` says what failed in this boot, if state must be written again."""
        self._ends = ends
        self.reason = ""
        self.is_uncertain = False
        self.remedy = self.DISK_REMEDY if failed_disk else self.REMEDY
        self.is_over = asyncio.Event()
        known = ends.recent()
        if len(known) >= MOST:
            count = f"{len(known)} times within {WINDOW / 60:.0f} minutes"
            self._set(f"roundsmand ended {count}, last because of {known[-1].text}")

    def wait_for_disk(self, failed_disk: str, why: str) -> None:
        """Answer no questions until the state is written again."""
        self.remedy, self.is_uncertain = self.DISK_REMEDY, True
        cause = f"{failed_disk}; roundsmand cannot write its state again: {why}"
        said = "; ".join(filter(None, (self.reason, cause)))
        self.reason = f"{said}: until then it answers no questions, and starts no jobs and no rounds"

    def _set(self, cause: str) -> None:
        self.reason = f"{cause}: it is read-only, and starts no jobs and no rounds"

    def release(self) -> None:
        """Let the daemon work; if it ends before `clear`, the next start is read-only again."""
        self.reason, self.is_uncertain = "", False
        self.is_over.set()

    def clear(self) -> None:
        """Begin a new count of ends."""
        self._ends.clear()
