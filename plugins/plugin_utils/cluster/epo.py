"""An emergency power off that stands: what it took, and what its return brings back (seed 001, "epo").

From its first step to the end of its return it holds all maintenance.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Epo:
    """The nodes that are to be off, and the instances that ran there and start again (UUIDs).

    `by` says who asked, `since` when (unix seconds); `returning` is true once its return has begun. `lost` says that
    nobody ordered it: what returns had lost its power.
    """

    nodes: tuple[str, ...]
    instances: tuple[str, ...]
    by: str = ""
    since: float = 0.0
    returning: bool = False
    lost: bool = False
