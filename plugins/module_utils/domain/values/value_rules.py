"""Rules of single values: each gives the value as it is kept, or refuses it with the name that it is given."""

from __future__ import annotations

import re
from typing import Any, Callable

from . import errors, ip_addresses

Rule = Callable[[str, Any], Any]
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""A UUID in lower case."""
MOST = 2**53
"""The largest whole number that every reader of JSON keeps."""


def is_uuid(value: str) -> bool:
    """Whether this is a UUID in lower case."""
    return re.fullmatch(UUID, value) is not None


def number(least: float, most: float, *, whole: bool) -> Rule:
    """The rule of a number between two."""

    def check(name: str, value: Any) -> Any:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            bound = f"from {least:g} to {most:g}" if most < MOST else f"of {least:g} or more"
            raise errors.InvalidInput(f"{name}: {value!r} is not {kind} {bound}")
        return value if whole else float(value)

    return check


def flag(name: str, value: Any) -> bool:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise errors.InvalidInput(f"{name}: {value!r} is neither true nor false")
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


def text(pattern: str, what: str) -> Rule:
    """The rule of a text that matches as a whole, and that a file can hold: no half of a surrogate pair."""

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value) or _SURROGATE.search(value):
            raise errors.InvalidInput(f"{name}: {value!r} is not {what}")
        return value

    return check


def one_of(*values: str) -> Rule:
    """The rule of a closed set of texts."""

    def check(name: str, value: Any) -> str:
        if value not in values:
            raise errors.InvalidInput(f"{name}: {value!r} is not one of {', '.join(values)}")
        return str(value)

    return check


def address(name: str, value: Any) -> str:
    """Refuse what is no IP address; it may be empty."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or not ip_addresses.is_address(value):
        raise errors.InvalidInput(f"{name}: {value!r} is no IP address")
    return ip_addresses.normal(value)
