"""Answers as text that is the same on every machine: JSON by lines, ids by names, folders as `<root>`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WIDTH = 110
"""What fits into so many characters stands in one line."""
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
GENERATED = (
    (re.compile(r"(?<=nonce-)[A-Za-z0-9_-]+|(?<=nonce=\")[A-Za-z0-9_-]+"), "<nonce>"),
    (re.compile(r"52:54:00(?::[0-9a-f]{2}){3}"), "<generated mac>"),
)


class Number(str):
    """A number with a fraction or an exponent, exactly as it was written."""

    __slots__ = ()


class Names:
    """Replaces in texts what differs from run to run; UUIDs without a name are numbered as they appear."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}
        self._numbered = 0

    def learn(self, names: Mapping[str, str]) -> None:
        """Take over names by UUID."""
        self._known.update({uuid: f"<{name}>" for uuid, name in names.items()})

    def __call__(self, text: str) -> str:
        for pattern, word in GENERATED:
            text = pattern.sub(word, text)
        return UUID.sub(lambda found: self._name(found.group()), text.replace(self._folder, "<root>"))

    def _name(self, uuid: str) -> str:
        if uuid not in self._known:
            self._numbered += 1
            self._known[uuid] = f"<uuid {self._numbered}>"
        return self._known[uuid]


def parse(text: str) -> Any:
    """The value of a JSON text; numbers keep all of their digits."""
    return json.loads(text, parse_float=Number)


def dump(value: Any, indent: int = 0) -> str:
    """A JSON value with sorted keys, by lines where it does not fit into one."""
    flat = _flat(value)
    if indent + len(flat) <= WIDTH or not value or not isinstance(value, dict | list):
        return flat
    inside = " " * (indent + 1)
    if isinstance(value, list):
        parts = [inside + dump(part, indent + 1) for part in value]
    else:
        parts = [f"{inside}{json.dumps(key)}: {dump(value[key], indent + 1)}" for key in sorted(value)]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return "\n".join([opening, ",\n".join(parts), " " * indent + closing])


def _flat(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_flat(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
