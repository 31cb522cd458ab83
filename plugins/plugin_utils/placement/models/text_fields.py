"""One line of Ganeti's text format, and what its fields may hold."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from ....module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

Member = TypeVar("Member", bound=Enum)

WHOLE = re.compile(r"-?[0-9]+\Z")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
DIGITS = 15
"""A number of more digits is no size of anything, and no float holds it exactly."""


@dataclass(frozen=True)
class Line:
    """A line by its number (from 1) and its fields by name; each reader says line, field and what it expected."""

    number: int
    values: dict[str, str]

    def wrong(self, field: str, text: str) -> errors.InvalidInput:
        """The error that names this line and a field of it."""
        return errors.InvalidInput(f"line {self.number}, field {field}: {text}")

    def text(self, field: str) -> str:
        """A field as it stands."""
        return self.values[field]

    def name(self, field: str) -> str:
        """A field that must not be empty."""
        if not self.values[field]:
            raise self.wrong(field, "a name was expected, and it is empty")
        return self.values[field]

    def names(self, field: str) -> tuple[str, ...]:
        """The parts of a list, none for an empty field."""
        value = self.values[field]
        return tuple(value.split(",")) if value else ()

    def whole(self, field: str, *, least: int | None = 0) -> int:
        """A whole number, by default not negative."""
        return self.as_whole(field, self.values[field], least=least)

    def as_whole(self, field: str, value: str, *, least: int | None = 0) -> int:
        """A whole number that is a part of a field."""
        if not WHOLE.match(value):
            raise self.wrong(field, f"'{value}' is not a whole number")
        if len(value) > DIGITS:
            raise self.wrong(field, f"{value} is too large")
        found = int(value)
        if least is not None and found < least:
            raise self.wrong(field, f"{value} is less than {least}")
        return found

    def real(self, field: str, *, above: float | None = None) -> float:
        """A finite number that is not negative, or is more than `above`."""
        value = self.values[field]
        if not NUMBER.match(value) or not math.isfinite(float(value)):
            raise self.wrong(field, f"'{value}' is not a number")
        found = float(value)
        if found < 0:
            raise self.wrong(field, f"{value} is less than 0")
        if above is not None and found <= above:
            raise self.wrong(field, f"{value} is not more than {above:g}")
        return found

    def flag(self, field: str) -> bool:
        """Y or N."""
        if self.values[field] not in {"Y", "N"}:
            raise self.wrong(field, f"'{self.values[field]}' is neither Y nor N")
        return self.values[field] == "Y"

    def one_of(self, field: str, kind: type[Member]) -> Member:
        """A member of an Enum by its value."""
        return self.as_one_of(field, self.values[field], kind)

    def as_one_of(self, field: str, value: str, kind: type[Member]) -> Member:
        """A member of an Enum by a part of a field."""
        try:
            return kind(value)
        except ValueError as error:
            names = ", ".join(str(member.value) for member in kind)
            raise self.wrong(field, f"'{value}' is not one of {names}") from error


def split(text: str, number: int, *, fields: Sequence[str], defaults: Sequence[str] = ()) -> Line:
    """The fields of a line; the last ones may be missing and have defaults, fields of newer formats are ignored.

    Raises:
        InvalidInput: there are too few.
    """
    found = text.split("|")
    needed = len(fields) - len(defaults)
    if len(found) < needed:
        expected = "|".join(fields[:needed])
        raise errors.InvalidInput(f"line {number}: {len(found)} fields instead of at least {needed}: {expected}")
    if missing := max(0, len(fields) - len(found)):
        found += defaults[len(defaults) - missing :]
    return Line(number, dict(zip(fields, found, strict=False)))
