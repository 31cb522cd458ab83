"""Parameters of several parts on the command line: instance policies as Ganeti's commands take them, and lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT = "default"
PAIRS, ENDS = "//", "/"


def policy(name: str, text: str) -> Any:
    """One part of a policy, `ipolicy.NAME`: sizes, pairs of them, or names; None where it is a plain value.

    Raises:
        InvalidInput: it is not in that form.
    """
    if text == DEFAULT:
        return text
    readers = {"ipolicy.std": _sizes, "ipolicy.minmax": _pairs, "ipolicy.disk-templates": names}
    return readers[name](name, text) if name in readers else None


def names(_name: str, text: str) -> list[str]:
    """Names with commas between them, or none."""
    return [name.strip() for name in text.split(",")] if text else []


def numbers(name: str, text: str) -> list[int] | str:
    """Whole numbers with commas between them.

    Raises:
        InvalidInput: one is no whole number.
    """
    if text == DEFAULT:
        return text
    found = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in found):
        raise errors.InvalidInput(f"{name}: {text!r} is no list of whole numbers, such as 32768,1048576,8")
    return [int(part) for part in found]


def pairs(found: Iterable[Mapping[str, Mapping[str, int]]]) -> str:
    """Pairs of sizes in the form in which they are given."""
    return PAIRS.join(
        ENDS.join(f"{end}:{','.join(f'{key}={size}' for key, size in sizes.items())}" for end, sizes in pair.items())
        for pair in found
    )


def _pairs(name: str, text: str) -> list[dict[str, dict[str, int]]]:
    return [dict(_end(name, end) for end in pair.split(ENDS)) for pair in text.split(PAIRS)]


def _end(name: str, text: str) -> tuple[str, dict[str, int]]:
    end, colon, sizes = text.partition(":")
    if not colon:
        raise errors.InvalidInput(f"{name}: {text!r} is not of the form min:SIZES/max:SIZES, several with {PAIRS}")
    return end.strip(), _sizes(f"{name}.{end.strip()}", sizes)


def _sizes(name: str, text: str) -> dict[str, int]:
    found = {}
    for part in text.split(","):
        key, _, size = part.partition("=")
        if not (size.strip().isascii() and size.strip().isdigit()):
            raise errors.InvalidInput(f"{name}: {part!r} is not NAME=NUMBER, as in memory-size=1024,cpu-count=2")
        found[key.strip()] = int(size)
    return found
