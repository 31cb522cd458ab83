"""Host variables of nodes: the few plain ones that the configuration may hold, each with the rule of its values.

Anything else that Ansible may need to reach a node (keys, options of SSH, an interpreter, another connection,
templates) can run code on the controller. It belongs in a file that root owns, `etc/roundsman/host_vars/NODE.yml`.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Optional

from ...module_utils.domain.values import errors, ip_addresses

Rule = Callable[[str, str], None]
DEFAULT = "default"
MOST_NAME = 200
HIGHEST_PORT = 65535


def _matches(pattern: str, what: str) -> Rule:
    def check(name: str, text: str) -> None:
        if not re.fullmatch(pattern, text):
            raise errors.InvalidInput(f"{name} must be {what} (got {text!r})")

    return check


def _host(name: str, text: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", text) and not ip_addresses.is_address(text):
        raise errors.InvalidInput(f"{name} must be a host name or an IP address (got {text!r})")


def _port(name: str, text: str) -> None:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text) or int(text) > HIGHEST_PORT:
        raise errors.InvalidInput(f"{name} must be a port number from 1 to 65535 (got {text!r})")


_USER = _matches(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", "the name of a user: letters, digits and _ . @ -")
RULES: Mapping[str, Rule] = {
    "ansible_host": _host,
    "ansible_port": _port,
    "ansible_user": _USER,
    "ansible_become": _matches("(?i:true|false|yes|no)", "true or false"),
    "ansible_become_user": _USER,
    "ansible_become_method": _matches("sudo|su", "sudo or su"),
}
"""The host variables that the configuration may hold; none of them can run code or open a file on the controller."""


def given(name: str, value: Any) -> Dict[str, Optional[str]]:
    """The host variables to set, by name; None removes one, which an empty text and `default` ask for.

    Raises:
        InvalidInput: it is no object with string values, a variable is not on the list, or its value is not plain.
    """
    if not isinstance(value, dict):
        raise errors.InvalidInput(f"{name}: expected an object with string values, got {value!r}")
    return {_checked_name(name, key): _checked(f"{name}.{key}", key, text) for key, text in value.items()}


def merged(known: Mapping[str, str], changes: Mapping[str, Optional[str]]) -> Dict[str, str]:
    """The host variables with these changes; None removes one."""
    return {key: text for key, text in {**known, **changes}.items() if text is not None}


def plain(known: Mapping[str, Any]) -> Dict[str, str]:
    """Those variables that are on the list and have a plain value: only they reach a run."""
    return {name: text for name, text in known.items() if is_plain(name, text)}


def ignored(known: Mapping[str, Any]) -> List[str]:
    """The names of the variables that no run uses, as a configuration of an earlier version may have them."""
    return sorted(name for name, text in known.items() if not is_plain(name, text))


def is_plain(name: str, text: object) -> bool:
    """Whether a host variable is on the list and its value keeps the rule."""
    if name not in RULES or not isinstance(text, str):
        return False
    try:
        RULES[name](name, text)
    except errors.InvalidInput:
        return False
    return True


def _checked_name(field: str, key: Any) -> str:
    if not isinstance(key, str) or not key or len(key) > MOST_NAME:
        raise errors.InvalidInput(f"{field}: {key!r} is not the name of a host variable")
    return key


def _as_text(key: str, value: Any) -> Any:
    """The text of a port that is a JSON number, or of `ansible_become` as a JSON boolean; otherwise the value."""
    if key == "ansible_port" and type(value) is int and 0 < value <= HIGHEST_PORT:
        return str(value)
    if key == "ansible_become" and isinstance(value, bool):
        return str(value).lower()
    return value


def _checked(place: str, key: str, text: Any) -> Optional[str]:
    if text is None or (isinstance(text, str) and text in {"", DEFAULT}):
        return None
    if key not in RULES:
        raise errors.InvalidInput(
            f"{place}: the configuration holds only the host variables {', '.join(RULES)}: have root write "
            f"{key!r} to etc/roundsman/host_vars/NODE.yml on the controller"
        )
    text = _as_text(key, text)
    if not isinstance(text, str):
        raise errors.InvalidInput(f"{place}: expected a string, got {text!r}")
    RULES[key](place, text)
    return text
