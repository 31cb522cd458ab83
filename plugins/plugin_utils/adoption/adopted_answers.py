"""Whether the answer of an adopted host has the shape that `host_inventory_info` gives it: no host is trusted."""

from __future__ import annotations

import math
from typing import Any

from ...module_utils.domain import errors

MOST_ITEMS = 10_000
LONGEST_TEXT, LONGEST_DEFINITION = 4096, 1 << 20
MOST_NUMBER = 2**53
_NUMBER, _TEXT, _DEFINITION, _FLAG = "a number", "a short text", "a text", "true or false"
_VOLUMES = [{"minor": _NUMBER, "device": _TEXT, "disk": _TEXT}]
SHAPE: Any = {
    "hostname": _TEXT,
    "libvirt": {
        "memory": _NUMBER,
        "own_memory": _NUMBER,
        "cpus": _NUMBER,
        "domains": [
            {
                "name": _TEXT,
                "uuid": _TEXT,
                "xml": _DEFINITION,
                "memory": _NUMBER,
                "vcpus": _NUMBER,
                "running": _FLAG,
                "autostart": _FLAG,
                "disks": [{"type": _TEXT, "source": _TEXT, "target": _TEXT}],
                "nics": [{"type": _TEXT, "mac": _TEXT, "link": _TEXT}],
            }
        ],
    },
    "storage": {
        "disk": _NUMBER,
        "groups": {"": _NUMBER},
        "volumes": {"": _NUMBER},
        "devices": {"": _NUMBER},
        "files": {"": {"shared": _FLAG, "size": _NUMBER}},
        "shared_folders": [_TEXT],
        "resources": [{"name": _TEXT, "hosts": {"": {"address": _TEXT, "volumes": _VOLUMES}}}],
    },
}
"""What is read of an answer: an object by its members, a list by its item, a mapping by its values (under "")."""


def check(answer: Any) -> None:
    """Go on only with an answer that can be read.

    Raises:
        InvalidInput: a member is missing, of another kind, or beyond a limit; the text says where.
    """
    _check("", answer, SHAPE)


def _check(place: str, value: Any, shape: Any) -> None:
    if isinstance(shape, list):
        _refuse_unless(isinstance(value, list) and len(value) <= MOST_ITEMS, place, "a list")
        for index, item in enumerate(value):
            _check(f"{place}/{index}", item, shape[0])
    elif isinstance(shape, dict):
        _refuse_unless(isinstance(value, dict) and len(value) <= MOST_ITEMS, place, "an object")
        members = dict.fromkeys(value, shape[""]) if "" in shape else shape
        for name, inner in members.items():
            _refuse_unless(name in value, f"{place}/{name}", "there")
            _check(f"{place}/{name}", value[name], inner)
    else:
        _refuse_unless(_is_right(value, shape), place, shape)


def _is_right(value: Any, kind: str) -> bool:
    if kind in {_TEXT, _DEFINITION}:
        return isinstance(value, str) and len(value) <= (LONGEST_TEXT if kind == _TEXT else LONGEST_DEFINITION)
    if kind == _FLAG:
        return isinstance(value, bool)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 <= value <= MOST_NUMBER


def _refuse_unless(is_right: object, place: str, kind: str) -> None:
    if not is_right:
        raise errors.InvalidInput(f"its answer cannot be read: {place[:200]!a} is not {kind}")
