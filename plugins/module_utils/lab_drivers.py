"""The simulated drivers of a lab's nodes, which are no part of the collection's modules: the lab brings them along.

A lab has the folder of `MODULE` in the PYTHONPATH of what runs on its nodes; no other node has such a module, so that
the hypervisor `fake` is refused there (`docs/decisions/test-switches.md`).
"""

from __future__ import annotations

import importlib
from typing import Any

from .domain.values import errors

NAME = "fake"
"""The hypervisor of the nodes of a lab."""
MODULE = "roundsman_lab_node"


def load() -> Any:
    """The lab's own module with its `hypervisor`, its `programs` and its `disk_files`.

    Raises:
        InvalidInput: this node is not a lab's.
    """
    try:
        return importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name != MODULE:
            raise
        raise errors.InvalidInput(f"hypervisor {NAME!r} is for the nodes of a lab, and this is none") from error
