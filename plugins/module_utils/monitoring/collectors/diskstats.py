"""What the disks did since the node started, from `/proc/diskstats`."""

from __future__ import annotations

from typing import Any, Dict, List

from ...domain.values import errors
from .. import observing

FIELDS = (
    "readsNum",
    "mergedReads",
    "secRead",
    "timeRead",
    "writes",
    "mergedWrites",
    "secWritten",
    "timeWrite",
    "ios",
    "timeIO",
    "wIOmillis",
)
"""Ganeti's names of the counters, in the kernel's order; newer kernels have more of them."""


def make() -> observing.Collect:
    """The collector; it keeps nothing."""
    return lambda where: observing.as_json(parse(observing.text_of(where.root / "proc/diskstats")))


def parse(text: str) -> List[Dict[str, Any]]:
    """The disks and partitions of the kernel's table.

    Raises: errors.Failed for a line that is none of it.
    """
    found: List[Dict[str, Any]] = []
    for line in text.splitlines():
        words = line.split()
        try:
            entry: Dict[str, Any] = {"major": int(words[0]), "minor": int(words[1]), "name": words[2]}
            entry.update((name, int(words[3 + place])) for place, name in enumerate(FIELDS))
        except (ValueError, IndexError) as e:
            raise errors.Failed("/proc/diskstats is not as expected: {}".format(line[:80])) from e
        found.append(entry)
    return found
