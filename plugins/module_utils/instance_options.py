"""The options that the modules of an instance share, and the root of the node they run on."""

from __future__ import annotations

import os
import pathlib
from typing import Any, Dict

SPEC: Dict[str, Any] = {
    "instance": {"type": "str", "required": True},
    "hypervisor": {"type": "str", "required": True, "choices": ["fake", "kvm"]},
    "opcode": {"type": "str", "default": "by hand"},
}
FACTS: Dict[str, Any] = {
    "uuid": {"type": "str", "default": ""},
    "memory": {"type": "int", "default": 0},
    "vcpus": {"type": "int", "default": 1},
    "devices": {"type": "list", "elements": "path", "default": []},
    "nics": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"mac": {"type": "str", "default": ""}, "link": {"type": "str", "default": ""}},
    },
    "hvparams": {"type": "dict", "default": {}},
}
"""What a hypervisor needs to know of an instance that it starts."""


def root() -> pathlib.Path:
    """The folder that holds the node's files: `/`, save in a lab."""
    return pathlib.Path(os.environ.get("ROUNDSMAN_ROOT") or "/")
