"""Secrets in parameters and results: they are replaced by a word wherever they are shown."""

from __future__ import annotations

import functools
import re
from typing import Any, Mapping

HIDDEN = "hidden"
_NAME = re.compile("pass|pwd|secret|token|key|credential|domain_xml", re.IGNORECASE)
"""Parts of the names of secrets; a domain's definition may hold the password of its display."""
_IN_ADDRESS = re.compile(r"(://[^/\s:@]*:)[^/\s@]+@")


@functools.lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a parameter of this name may hold a secret."""
    return _NAME.search(name) is not None


def masked(value: Any) -> Any:
    """A JSON value without secrets: texts and numbers below a secret's name, and passwords in addresses."""
    if isinstance(value, Mapping):
        return {key: _hidden(one) if is_secret(str(key)) else masked(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(one) for one in value]
    if isinstance(value, str) and "://" in value:
        return _IN_ADDRESS.sub(r"\1" + HIDDEN + "@", value)
    return value


def _hidden(value: Any) -> Any:
    """Everything of a value hidden but its shape; flags and what is empty are no secrets."""
    if isinstance(value, Mapping):
        return {key: _hidden(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(one) for one in value]
    return value if value is None or value == "" or isinstance(value, bool) else HIDDEN
