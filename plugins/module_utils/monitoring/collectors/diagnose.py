"""How the node is: what its diagnose command says (seed 000, section "Self-diagnose data collector")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import node_diagnosis
from ...domain.agent import collected, diagnosis, reports

if TYPE_CHECKING:
    from .. import observing


def make() -> observing.Collect:
    """The collector; it keeps nothing."""
    return collect


def collect(where: observing.Surroundings) -> observing.Said:
    """Run the diagnose command.

    While the newest settings do not count, a failure that the last good command finds is still reported; its Ok is not,
    since another command may be the one that was wanted.
    """
    said = node_diagnosis.observe(where.node, command=where.settings.diagnose_command)
    if isinstance(said, collected.Problem):
        return said
    if where.settings_error and said.status is diagnosis.Status.OK:
        return reports.problem("settings", text=where.settings_error)
    return said.original
