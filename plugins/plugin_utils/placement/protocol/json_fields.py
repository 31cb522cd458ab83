"""Fields of foreign JSON: each with its place in the document, so that an error names it and what was expected."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ....module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import Enum

Member = TypeVar("Member", bound="Enum")
LARGEST = 10**15
"""A number beyond it is no size of anything, and no float holds it exactly."""
SHOWN = 60


def document(text: str, *, name: str) -> Field:
    """The whole of a text, an object; `name` says what it is.

    Raises:
        InvalidInput: it is no JSON, or no object.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInput(f"{name} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise errors.InvalidInput(f"{name} is no JSON object")
    return Field(value, "")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


@dataclass(frozen=True)
class Field:
    """A value and its place, from the document's root; "" is the root itself."""

    value: Any
    place: str

    def wrong(self, expected: str) -> errors.InvalidInput:
        """The error of a value that is not what was expected."""
        shown = json.dumps(self.value)
        shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "..."
        return errors.InvalidInput(f"{self.place}: {expected} was expected, not {shown}")

    def get(self, key: str) -> Field:
        """A value of an object.

        Raises:
            InvalidInput: this is no object, or the key is missing.
        """
        found = self.find(key)
        if found is None:
            raise errors.InvalidInput(f"{self.place or 'the document'}: the key '{key}' is missing")
        return found

    def find(self, key: str) -> Field | None:
        """A value of an object, None where the key is missing or null."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return None if self.value.get(key) is None else self._at(key)

    def _at(self, key: str) -> Field:
        return Field(self.value[key], f"{self.place}.{key}" if self.place else key)

    def items(self) -> Iterator[tuple[str, Field]]:
        """The pairs of an object, in their order."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return ((key, self._at(key)) for key in self.value)

    def each(self) -> list[Field]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Field(value, f"{self.place}[{number}]") for number, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def name(self) -> str:
        """A string that is not empty."""
        if not self.text():
            raise self.wrong("a name")
        return self.text()

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def whole(self, *, least: int | None = 0) -> int:
        """A whole number, by default not negative."""
        value = self.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
            raise self.wrong("a whole number")
        if least is not None and value < least:
            raise self.wrong(f"a whole number of at least {least}")
        return value

    def real(self, *, least: float = 0.0) -> float:
        """A finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.wrong("a number")
        if not least <= self.value <= LARGEST or not math.isfinite(self.value):
            raise self.wrong(f"a number of at least {least:g}")
        return float(self.value)

    def texts(self) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(field.text() for field in self.each())

    def one_of(self, kind: type[Member]) -> Member:
        """A member of an Enum by its value."""
        for member in kind:
            if member.value == self.value:
                return member
        raise self.wrong("one of " + ", ".join(str(member.value) for member in kind))
