"""Sizes as people write them: `10G`, `512M`, or a number of MiB."""

from __future__ import annotations

import re

from ...plugins.module_utils.domain import errors

UNITS = {"": 1, "M": 1, "G": 1024, "T": 1024 * 1024}


def mebibytes(text: str) -> int:
    """The MiB that a size means.

    Raises:
        InvalidInput: it is no size, or not a whole number of MiB.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([MGT]?)(?:iB|B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise errors.InvalidInput(f"{text!r} is no size: write it as 10G, 512M or a number of MiB")
    size = float(found[1]) * UNITS[found[2].upper()]
    if size != int(size) or size < 1:
        raise errors.InvalidInput(f"{text!r} is not a whole number of MiB")
    return int(size)
