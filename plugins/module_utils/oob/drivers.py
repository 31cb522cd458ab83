"""The power drivers by name, and one thing asked of many BMCs at once."""

from __future__ import annotations

import concurrent.futures
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Protocol, Sequence, Set, Tuple, TypeVar

from ..domain import bmc, errors, power
from ..domain import health as health_values
from . import ipmi, program, pyghmi_health, redfish

DEADLINE = 30.0
SOFT_DEADLINE = 600.0
HEALTH_DEADLINE = 60.0
Told = TypeVar("Told")
Told_co = TypeVar("Told_co", covariant=True)


class Run(Protocol):
    """Run one command at many BMCs, each with a deadline of its own, in seconds; outcomes in the targets' order."""

    def __call__(
        self, targets: Sequence[power.Target], *, command: power.Command, deadline: float
    ) -> List[power.Outcome]: ...


class Ask(Protocol[Told_co]):
    """Ask many BMCs, each with a deadline of its own, in seconds; answers in the targets' order."""

    def __call__(self, targets: Sequence[power.Target], *, deadline: float) -> Sequence[Told_co]: ...


@dataclass(frozen=True)
class Driver:
    """A way to reach BMCs: `check` refuses a target before anything is sent, the others do the work."""

    check: Callable[[power.Target], None]
    run: Run
    health: Ask[health_values.Health]
    describe: Ask[bmc.Description]


Work = Callable[[Driver, Sequence[power.Target]], Sequence[Told]]
PROGRAM = Driver(check=program.check, run=program.run, health=program.ask_health, describe=program.describe)
"""The driver of whoever is named by an absolute path instead."""
DRIVERS: Mapping[str, Driver] = {
    "ipmi": Driver(check=ipmi.check, run=ipmi.run, health=pyghmi_health.ask_ipmi, describe=ipmi.describe),
    "redfish": Driver(
        check=redfish.check, run=redfish.run, health=pyghmi_health.ask_redfish, describe=redfish.describe
    ),
}


def usual_deadline(command: power.Command) -> float:
    """Seconds that a BMC has when nobody says how many: a system that shuts down takes minutes."""
    return SOFT_DEADLINE if command is power.Command.SOFT_OFF else DEADLINE


def check(target: power.Target, *, drivers: Mapping[str, Driver] = DRIVERS) -> None:
    """Refuse a target that its driver cannot try.

    Raises:
        errors.InvalidInput: an unknown driver, or an address that it cannot use. errors.PowerFailed: the driver's
        library is missing.
    """
    _driver(target, drivers).check(target)


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
        errors.PowerFailed: a driver's library is missing.
    """
    return _served(
        targets, lambda driver, some: driver.run(some, command=command, deadline=deadline), deadline, drivers
    )


def health(
    targets: Sequence[power.Target], *, deadline: float = HEALTH_DEADLINE, drivers: Mapping[str, Driver] = DRIVERS
) -> List[health_values.Health]:
    """Ask for the health of every target, in the targets' order, each within `deadline` seconds of its own.

    Raises:
        errors.InvalidInput: as for `run`.
    """
    return _served(targets, lambda driver, some: driver.health(some, deadline=deadline), deadline, drivers)


def describe(
    targets: Sequence[power.Target], *, deadline: float = DEADLINE, drivers: Mapping[str, Driver] = DRIVERS
) -> List[bmc.Description]:
    """Ask what every target is, in the targets' order, each within `deadline` seconds of its own.

    Raises:
        errors.InvalidInput: as for `run`.
    """
    return _served(targets, lambda driver, some: driver.describe(some, deadline=deadline), deadline, drivers)


def _served(
    targets: Sequence[power.Target], work: Work[Told], deadline: float, drivers: Mapping[str, Driver]
) -> List[Told]:
    """Let each driver work for its targets; every one is checked before any driver begins."""
    if deadline <= 0:
        raise errors.InvalidInput(f"the deadline must be more than 0 seconds, not {deadline:g}")
    names: Set[str] = set()
    by_driver: Dict[str, List[power.Target]] = {}
    for target in targets:
        if target.name in names:
            raise errors.InvalidInput(f"{target.name} is named twice")
        names.add(target.name)
        check(target, drivers=drivers)
        by_driver.setdefault(target.driver, []).append(target)
    found = _side_by_side([(_driver(some[0], drivers), some) for some in by_driver.values()], work)
    told = {target.name: one for some, answers in zip(by_driver.values(), found) for target, one in zip(some, answers)}  # noqa: B905 -- Python 3.9 has no strict=
    return [told[target.name] for target in targets]


def _side_by_side(groups: Sequence[Tuple[Driver, Sequence[power.Target]]], work: Work[Told]) -> List[Sequence[Told]]:
    """Each driver in a thread of its own: they share nothing, and none waits for another."""
    if len(groups) == 1:
        return [work(driver, served) for driver, served in groups]
    with concurrent.futures.ThreadPoolExecutor(len(groups) or 1) as threads:
        begun = [threads.submit(work, driver, served) for driver, served in groups]
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
