"""Which instances run on the node, asked of its hypervisor."""

from __future__ import annotations

from ...hypervisor import drivers
from .. import observing


def make() -> observing.Collect:
    """The collector; it keeps nothing."""
    return collect


def collect(where: observing.Surroundings) -> observing.Said:
    """The running instances by name; which ones ought to run only the controller knows.

    Raises: errors.RoundsmanError if the hypervisor does not tell.
    """
    running = drivers.get(where.settings.hypervisor, where.root, opcode="").running()
    return observing.status(observing.OK, [], [{"name": name, "actualState": "running"} for name in sorted(running)])
