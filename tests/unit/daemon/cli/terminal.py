"""A terminal at which somebody sits."""

from __future__ import annotations


class Terminal:
    """A terminal at which somebody has typed an answer already."""

    def __init__(self, typed: str) -> None:
        self._typed = typed

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._typed
