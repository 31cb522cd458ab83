"""Signals of a child that a test interrupts: `nohup` and `&` have the tests ignore some, and children inherit that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def reset(command: Sequence[str], names: str = "HUP,INT,QUIT") -> list[str]:
    """A command whose process gets the default action of the signals of these names, comma-separated."""
    return ["env", f"--default-signal={names}", *command]
