"""Since when a node is off that its BMC reads off: the first reading of an unbroken row of them.

A reading is no fence: off is commanded and read back as well before anything starts elsewhere. The row only says that
the node was off before that already, so that its last writes are not dated later than they were made.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Optional

from . import power

LONGEST_GAP = 30.0
"""Seconds between two readings of off, after which the node may have been on in between."""


@dataclass(frozen=True)
class Row:
    """Readings of off without anything else between them: when the first and the last came, by the same clock.

    `alive_at` is the node's last sign of life on record before it.
    """

    first: float
    last: float
    alive_at: float


def follow(
    row: Optional[Row], state: power.State, *, at: float, alive_at: float, began: Optional[float] = None
) -> Optional[Row]:
    """The row after one more reading; any other answer than off, also none at all, ends it.

    A job that commands the power reads from when it `began` until `at`, however long it takes: it leaves no gap.
    """
    if state is not power.State.OFF:
        return None
    first = at if row is None or began is None else min(at, max(began, row.last))
    if row is None or age(row, at=first, alive_at=alive_at) is None:
        return Row(at, at, alive_at)
    return dataclasses.replace(row, last=at)


def age(row: Row, *, at: float, alive_at: float) -> Optional[float]:
    """How many seconds ago the row began; None for one that is broken, by a gap or by a sign of life since."""
    is_unbroken = 0 <= at - row.last <= LONGEST_GAP and alive_at == row.alive_at
    return at - row.first if is_unbroken else None
