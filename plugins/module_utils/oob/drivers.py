"""The power drivers by name, and one command run at many BMCs at once."""

from __future__ import annotations

import concurrent.futures
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Protocol, Sequence, Tuple

from ..domain import errors, power
from . import ipmi, program, redfish

DEADLINE = 30.0


class Run(Protocol):
    """Run one command at many BMCs, each with a deadline of its own, in seconds; outcomes in the targets' order."""

    def __call__(
        self, targets: Sequence[power.Target], *, command: power.Command, deadline: float
    ) -> List[power.Outcome]: ...


@dataclass(frozen=True)
class Driver:
    """A way to reach BMCs: `check` refuses a target before anything is sent, `run` does the work."""

    check: Callable[[power.Target], None]
    run: Run


PROGRAM = Driver(check=program.check, run=program.run)
"""The driver of whoever is named by an absolute path instead."""
DRIVERS: Mapping[str, Driver] = {
    "ipmi": Driver(check=ipmi.check, run=ipmi.run),
    "redfish": Driver(check=redfish.check, run=redfish.run),
}


def run(
    targets: Sequence[power.Target],
    *,
    command: power.Command,
    deadline: float = DEADLINE,
    drivers: Mapping[str, Driver] = DRIVERS,
) -> List[power.Outcome]:
    """Run one command at every target and give the outcomes in the targets' order.

    Each target has `deadline` seconds of its own, so a silent BMC says nothing about the others. Nothing is sent
    unless every target can be tried.

    Raises:
        errors.InvalidInput: an unknown driver, a name given twice, an address a driver cannot use.
    """
    if deadline <= 0:
        raise errors.InvalidInput(f"the deadline must be more than 0 seconds, not {deadline:g}")
    seen: Dict[str, power.Target] = {}
    by_driver: Dict[str, List[power.Target]] = {}
    for target in targets:
        if seen.setdefault(target.name, target) is not target:
            raise errors.InvalidInput(f"{target.name} is named twice")
        _driver(target, drivers).check(target)
        by_driver.setdefault(target.driver, []).append(target)
    groups = [(drivers.get(name, PROGRAM), served) for name, served in by_driver.items()]
    outcomes = {one.name: one for found in _side_by_side(groups, command, deadline) for one in found}
    return [outcomes[target.name] for target in targets]


def _side_by_side(
    groups: Sequence[Tuple[Driver, Sequence[power.Target]]], command: power.Command, deadline: float
) -> List[List[power.Outcome]]:
    """Each driver in a thread of its own: they share nothing, and none waits for another."""
    if len(groups) == 1:
        return [driver.run(served, command=command, deadline=deadline) for driver, served in groups]
    with concurrent.futures.ThreadPoolExecutor(len(groups) or 1) as threads:
        begun = [threads.submit(driver.run, served, command=command, deadline=deadline) for driver, served in groups]
        return [one.result() for one in begun]


def _driver(target: power.Target, drivers: Mapping[str, Driver]) -> Driver:
    if target.driver.startswith("/"):
        return PROGRAM
    driver = drivers.get(target.driver)
    if driver is None:
        known = ", ".join(sorted(drivers))
        raise errors.InvalidInput(
            f"{target.name}: unknown power driver {target.driver!r}; known: {known}, and the absolute path of a program"
        )
    return driver
