"""Which nodes have reported since something was known of them, whatever the clock has done meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .heard import Received


class Known(NamedTuple):
    """What is known of a node (UUID) since a time (unix seconds): an incident (UUID), '' for a person's statement."""

    uuid: str
    node: str
    since: float


class Spoken:
    """Compares the last accepted report of a node with the one that was the last when something was first seen.

    Dates decide only of what was accepted before that, as by the daemon before this one, and only while the clock was
    not set back: a report that was accepted ahead of the clock says nothing.
    """

    def __init__(self, last: Callable[[str], Received | None]) -> None:
        self._last = last
        self._before: dict[Known, object] = {}

    def look(self, known: Collection[Known]) -> set[Known]:
        """As `since`; what is known is kept in mind from now on, and all else is forgotten."""
        self._before = {each: self._at_first(each) for each in known}
        return self.since(known)

    def since(self, known: Collection[Known]) -> set[Known]:
        """Those whose node has had a report accepted since; nothing is changed by asking."""
        last = {each: self._last(each.node) for each in known}
        return {
            each
            for each, received in last.items()
            if received is not None and received.report is not self._at_first(each)
        }

    def _at_first(self, known: Known) -> object:
        return self._before[known] if known in self._before else _before(known, self._last(known.node))


def _before(known: Known, received: Received | None) -> object:
    if received is not None and received.is_dated and received.accepted > known.since:
        return None
    return received.report if received is not None else None
