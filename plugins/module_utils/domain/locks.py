"""The words of locking: levels in their order, and modes (seed 004, "Locking")."""

from __future__ import annotations

from enum import Enum

LEVELS = ("cluster", "instance", "nodegroup", "node", "node-res", "network", "config")


class Mode(Enum):
    """How a lock is held."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
