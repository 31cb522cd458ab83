"""Which nodes have reported since something was known of them: no dates are compared, because the clock may be set."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...plugins.module_utils.domain import reports

Known = tuple[str, str]
"""What is known of a node, as the UUID of its incident, and the node's UUID."""


class Spoken:
    """Compares the last accepted report of a node with the one that was the last when something was first seen."""

    def __init__(self, last_report: Callable[[str], reports.Report | None]) -> None:
        self._last_report = last_report
        self._before: dict[Known, reports.Report | None] = {}

    def since(self, known: Collection[Known]) -> set[Known]:
        """Those whose node has had a report accepted since they were first asked for; others are forgotten."""
        last = {each: self._last_report(each[1]) for each in known}
        self._before = {each: self._before.get(each, report) for each, report in last.items()}
        return {each for each, report in last.items() if report is not self._before[each]}
