"""What chaos did, in order and with times: a file to read afterwards, and a line about how far it has come."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

QUIET = 30.0
"""Seconds between two lines about how far it has come."""


class Chronicle:
    """The file, and what is counted by kind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: dict[str, Counter[str]] = {}
        self._began = self._reported = time.monotonic()
        self._stream: TextIO = path.open("a", buffering=1)

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._began

    def note(self, what: str) -> None:
        """Write one line."""
        self._stream.write(f"{time.monotonic_ns()} {self.seconds:9.3f} {what}\n")

    def count(self, kind: str, what: str, detail: str = "") -> None:
        """Count something, and write it down."""
        self.counts.setdefault(kind, Counter())[what] += 1
        self.note(f"{kind}: {what} {detail}".rstrip())

    def total(self, kind: str) -> int:
        """How many there were of a kind."""
        return self.counts.get(kind, Counter()).total()

    def report(self, *, is_last: bool = False) -> None:
        """Print how far it has come, unless that was printed shortly ago."""
        now = time.monotonic()
        if is_last or now - self._reported >= QUIET:
            self._reported = now
            kinds = ", ".join(f"{kind} {self.total(kind)}" for kind in sorted(self.counts))
            print(f"{self.seconds:6.0f} s: {kinds}", flush=True)

    def last(self, count: int) -> str:
        """The last lines of the file."""
        return "\n".join(self.path.read_text().splitlines()[-count:])

    def summary(self) -> str:
        """Everything that was counted."""
        return "\n".join(
            f"{kind} {counted.total()}: " + ", ".join(f"{what} {count}" for what, count in sorted(counted.items()))
            for kind, counted in sorted(self.counts.items())
        )

    def missing(self, expected: Mapping[str, Iterable[str]]) -> str:
        """What never came of what could have, by kind: nothing is proven about it; '' where all came."""
        never = {
            kind: [name for name in sorted(set(names)) if not self.counts.get(kind, Counter())[name]]
            for kind, names in expected.items()
        }
        return "\n".join(f"no {kind}: {', '.join(names)}" for kind, names in sorted(never.items()) if names)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
