"""JSON files of variables for Ansible in which no string is a template: each is marked unsafe (untrusted)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

UNSAFE = "__ansible_unsafe"
RESERVED = "__ansible_"
"""How the keys begin with which Ansible's JSON marks a value: none may come from outside."""


def dumps(value: Any) -> bytes:
    """The value as JSON for `--extra-vars @FILE`, every string of it marked unsafe.

    Raises:
        ValueError: a mapping has a key that is a mark of Ansible's own, or the value is not one of JSON's.
    """
    return json.dumps(marked(value), indent=1).encode()


def marked(value: Any) -> Any:
    """The value with every string marked unsafe; keys stay as they are, because Ansible never templates a key.

    Raises:
        ValueError: a mapping has a key that is a mark of Ansible's own.
    """
    if isinstance(value, str):
        return {UNSAFE: value}
    if isinstance(value, Mapping):
        for key in value:
            if str(key).startswith(RESERVED):
                raise ValueError(f"{key!r} is a mark of Ansible and cannot be the name of a value")
        return {key: marked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [marked(item) for item in value]
    return value
