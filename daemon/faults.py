"""Named points of an opcode's way, at which tests end the daemon to prove that nothing is lost or done twice.

Nothing happens at them here, whatever the environment says: the tests replace `point` in the processes that they start
(`tests/crash_points.py`, `docs/decisions/test-switches.md`).
"""

from __future__ import annotations

POINTS = ("before-opcode-start", "before-began", "before-result", "before-settling", "between-commits")


def point(_name: str, /) -> None:
    """Go on; the name is one of `POINTS`."""
