"""Secrets in parameters and results: they are replaced by a word wherever they are shown."""

from __future__ import annotations

import functools
import re
from typing import Any, Mapping, Sequence

HIDDEN = "hidden"
PAIR = 2
LONGEST_NAME = 100
_NAME = re.compile(
    "pass|pwd|secret|token|key|credential|domain_xml|psk|community|(?<![a-z])auth(?![a-z])", re.IGNORECASE
)
"""Parts of the names of secrets; a domain's definition may hold the password of its display."""
_WORDS = "pass|password|passwd|passphrase|pwd|secret|token|api[_-]?key|psk|community"
_IN_PAIR = re.compile(
    f"(?:.*[^a-z0-9])?(?:{_WORDS}|key|credentials?|auth|domain_xml)(?:[^a-z0-9].*)?", re.IGNORECASE | re.DOTALL
)
"""Whole words only: the first of two texts may as well be the name of a node."""
_IN_ADDRESS = re.compile(r"(://[^/\s:\[]*:)(?!\d+(?:[/?#,;]|$))(?:(?!://)[^\s\"'<>])+@")
"""Up to the last @, as a password may hold one, or a slash; a port is no password."""
_IN_TEXT = re.compile(
    rf"""((?<![a-z0-9])(?:[a-z0-9]+[_-]){{0,6}}(?:{_WORDS})=)("[^"]*"|'[^']*'|[^\s,;&"']+)""",
    re.IGNORECASE,
)
"""`ansible_become_password=X`."""
_OF_DRBD = re.compile(
    r"""(shared-secret\\*["']?(?:\s*[=:,]\s*|\s+)(?:value=)?)"""
    r"""(?:(\\*")(?:\\.|[^"\\\n])*|(\\*')(?:\\.|[^'\\\n])*|(?:\\.|[^\s;,&"'\\])+)""",
    re.IGNORECASE,
)
"""As an option of drbdsetup, a line of DRBD's configuration, or in its XML; a quote may be cut off before it closes.

It hides more than the secret where a name ends like the option, so it is only for texts that people read.
"""


@functools.lru_cache(maxsize=4096)
def is_secret(name: str) -> bool:
    """Whether a parameter of this name may hold a secret."""
    return _NAME.search(name) is not None


def masked(value: Any) -> Any:
    """A JSON value without secrets: values of secret names, passwords in addresses and in texts."""
    if isinstance(value, Mapping):
        return {key: _hidden(part) if is_secret(str(key)) else masked(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        if _is_secret_pair(value):
            return [value[0], _hidden(value[1])]
        return [masked(part) for part in value]
    if isinstance(value, str):
        without = _IN_ADDRESS.sub(r"\1" + HIDDEN + "@", value) if "://" in value else value
        return _IN_TEXT.sub(r"\1" + HIDDEN, _OF_DRBD.sub(r"\1\2\3" + HIDDEN, without))
    return value


def _is_secret_pair(value: Sequence[Any]) -> bool:
    name = value[0] if len(value) == PAIR else None
    return isinstance(name, str) and len(name) <= LONGEST_NAME and _IN_PAIR.fullmatch(name) is not None


def _hidden(value: Any) -> Any:
    """Everything of a value hidden but its shape; flags and what is empty are no secrets."""
    if isinstance(value, Mapping):
        return {key: _hidden(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hidden(part) for part in value]
    return value if value is None or value == "" or isinstance(value, bool) else HIDDEN
