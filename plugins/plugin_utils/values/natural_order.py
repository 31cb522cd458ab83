"""The order in which people expect names with numbers in them."""

from __future__ import annotations

import functools
import re

REMEMBERED = 1 << 16
"""Names whose keys are kept: lists of one cluster are put in order again and again."""


@functools.lru_cache(maxsize=REMEMBERED)
def key(name: str) -> tuple[object, ...]:
    """A sort key that puts node2 before node10."""
    return (*(_part(part) for part in re.split("([0-9]+)", name) if part), (-1, 0, name))


def _part(part: str) -> tuple[int, int, str]:
    if part[0] not in "0123456789":
        return 1, 0, part
    # The number with more digits is the larger one: int() refuses thousands of them.
    digits = part.lstrip("0")
    return 0, len(digits), digits
