"""JSON whose numbers keep their exact text, for values that are passed through and compared."""

from __future__ import annotations

import dataclasses
import decimal
import json
import re
from typing import Dict, List, NoReturn, Tuple, Union

from . import errors

DEPTH = 100

_NUMBER = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([-+]?[0-9]+))?")
# An unterminated string matches too, so that the scan stays linear for any text.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Number:
    """A JSON number as it was written; `==` compares the text, `canonical` the value."""

    token: str

    def __post_init__(self) -> None:
        if not _NUMBER.fullmatch(self.token):
            raise errors.InvalidInput("not a JSON number: " + ascii(self.token[:40]))


Value = Union[None, bool, str, Number, List["Value"], Dict[str, "Value"]]


def parse(text: str, *, depth: int = DEPTH) -> Value:
    """Read one JSON value and lose nothing of it; what two readers could understand differently is refused.

    Refused are duplicate keys, NaN and Infinity, lone surrogates, and nesting deeper than `depth`.

    Raises: errors.InvalidInput, and nothing else for any text.
    """
    _check_depth(text, limit=depth)
    try:
        value: Value = _DECODER.decode(text)
    except ValueError as e:
        raise errors.InvalidInput("not JSON: " + str(e)) from e
    _check_strings(value)
    return value


def dump(value: Value) -> str:
    """Write a value as compact JSON, keys in their order, numbers exactly as they were read."""
    if isinstance(value, Number):
        return value.token
    if isinstance(value, dict):
        return "{" + ",".join(_text(k) + ":" + dump(v) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(dump(v) for v in value) + "]"
    return _text(value)


def canonical(value: Value) -> str:
    """Give the same string for two values exactly when they are the same JSON value.

    The order of keys does not count, strings are compared by code points, numbers by their exact value
    (`1` is `1.0` is `10e-1`), and `true` is not `1`. The string is JSON itself.
    """
    if isinstance(value, Number):
        return _canonical_number(value.token)
    if isinstance(value, dict):
        return "{" + ",".join(_text(k) + ":" + canonical(value[k]) for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(v) for v in value) + "]"
    return _text(value)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _canonical_number(token: str) -> str:
    found = _NUMBER.fullmatch(token)
    assert found is not None
    sign, whole, fraction, exponent = found.groups(default="")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0"
    shortest = digits.rstrip("0")
    shift = len(digits) - len(shortest) - len(fraction)
    return sign + shortest + "e" + _add(exponent or "0", number=shift)


def _add(exponent: str, *, number: int) -> str:
    # int() refuses or crawls on thousands of digits; decimal adds them exactly in linear time.
    exact = decimal.Context(prec=len(exponent) + 20, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    return format(exact.add(decimal.Decimal(exponent), decimal.Decimal(number)), "f")


def _check_depth(text: str, *, limit: int) -> None:
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            if depth > limit:
                raise errors.InvalidInput("JSON is nested deeper than {}".format(limit))
        elif first in "]}":
            depth -= 1


def _check_strings(value: Value) -> None:
    if isinstance(value, str):
        _check_string(value)
    elif isinstance(value, list):
        for element in value:
            _check_strings(element)
    elif isinstance(value, dict):
        for key, element in value.items():
            _check_string(key)
            _check_strings(element)


def _check_string(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise errors.InvalidInput("a string holds a lone surrogate: " + ascii(text[e.start])) from e


def _object(pairs: List[Tuple[str, Value]]) -> Dict[str, Value]:
    members: Dict[str, Value] = {}
    for key, value in pairs:
        if key in members:
            raise errors.InvalidInput("duplicate key in JSON: " + ascii(key[:40]))
        members[key] = value
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise errors.InvalidInput(name + " is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
)
