"""The power drivers by name, and one thing asked of many BMCs at once."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Protocol, Sequence, Set, Tuple, TypeVar

from ..domain.power import bmc, power
from ..domain.power import health as health_values
from ..domain.values import errors
from . import children, ipmi, program, pyghmi_health, redfish

DEADLINE = 30.0
SOFT_DEADLINE = 600.0
HEALTH_DEADLINE = 60.0
Told = TypeVar("Told", bound="Telling")
Told_co = TypeVar("Told_co", covariant=True)


class Telling(Protocol):
    """An answer of any kind."""

    def as_dict(self) -> Dict[str, Any]:
        """Give the answer as JSON values."""


class Run(Protocol):
    """Run one command at many BMCs, each with a deadline of its own, in seconds; outcomes in the targets' order."""

    def __call__(
        self, targets: Sequence[power.Target], *, command: power.Command, deadline: float
    ) -> List[power.Outcome]: ...


class Ask(Protocol[Told_co]):
    """Ask many BMCs, each with a deadline of its own, in seconds; answers in the targets' order."""

    def __call__(self, targets: Sequence[power.Target], *, deadline: float) -> Sequence[Told_co]: ...


def usual_deadline(command: power.Command) -> float:
    """Seconds that a BMC has unless the caller sets a deadline: a system that shuts down takes minutes."""
    return SOFT_DEADLINE if command is power.Command.SOFT_OFF else DEADLINE


@dataclass(frozen=True)
class Driver:
    """A way to reach BMCs: `check` refuses a target before anything is sent, the others do the work.

    `run_seconds`, `health_seconds` and `describe_seconds` are the deadlines where the caller sets none.
    """

    check: Callable[[power.Target], None]
    run: Run
    health: Ask[health_values.Health]
    describe: Ask[bmc.Description]
    run_seconds: Callable[[power.Command], float] = usual_deadline
    health_seconds: float = HEALTH_DEADLINE
    describe_seconds: float = DEADLINE


@dataclass(frozen=True)
class _Question(Generic[Told]):
    """What is asked of a driver; `parse` reads an answer back, `fail` is that of a driver that died.

    `seconds` is the driver's own deadline.
    """

    ask: Callable[[Driver, Sequence[power.Target], float], Sequence[Told]]
    seconds: Callable[[Driver], float]
    parse: Callable[[Mapping[str, Any]], Told]
    fail: Callable[[str, power.Failure], Told]


PROGRAM = Driver(
    check=program.check,
    run=program.run,
    health=program.ask_health,
    describe=program.describe,
    run_seconds=program.usual_deadline,
    health_seconds=program.deadline(1),
    describe_seconds=program.deadline(1),
)
"""The driver of whoever is named by an absolute path instead."""
DRIVERS: Mapping[str, Driver] = {
    "ipmi": Driver(check=ipmi.check, run=ipmi.run, health=pyghmi_health.ask_ipmi, describe=ipmi.describe),
    "redfish": Driver(
        check=redfish.check, run=redfish.run, health=pyghmi_health.ask_redfish, describe=redfish.describe
    ),
}


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
    deadline: Optional[float] = None,
    drivers: Mapping[str, Driver] = DRIVERS,
) -> List[power.Outcome]:
    """Run one command at every target and give the outcomes in the targets' order.

    Each target has `deadline` seconds of its own, so a silent BMC says nothing about the others; without one it has
    what its driver gives, which for helper programs is a minute for each call. Nothing is sent
    unless every target can be tried.

    Raises:
        errors.InvalidInput: an unknown driver, a name given twice, an address a driver cannot use.
        errors.PowerFailed: a driver's library is missing.
    """
    question = _Question(
        ask=lambda driver, some, seconds: driver.run(some, command=command, deadline=seconds),
        seconds=lambda driver: driver.run_seconds(command),
        parse=power.parse_outcome,
        fail=lambda name, failure: power.untried(command, name=name, failure=failure),
    )
    return _served(targets, question, deadline=deadline, drivers=drivers)


def health(
    targets: Sequence[power.Target], *, deadline: Optional[float] = None, drivers: Mapping[str, Driver] = DRIVERS
) -> List[health_values.Health]:
    """Ask for the health of every target, in the targets' order, each within `deadline` seconds or its driver's.

    Raises:
        errors.InvalidInput: as for `run`.
    """
    question = _Question(
        ask=lambda driver, some, seconds: driver.health(some, deadline=seconds),
        seconds=lambda driver: driver.health_seconds,
        parse=health_values.parse_health,
        fail=health_values.unread,
    )
    return _served(targets, question, deadline=deadline, drivers=drivers)


def describe(
    targets: Sequence[power.Target], *, deadline: Optional[float] = None, drivers: Mapping[str, Driver] = DRIVERS
) -> List[bmc.Description]:
    """Ask what every target is, in the targets' order, each within `deadline` seconds or its driver's.

    Raises:
        errors.InvalidInput: as for `run`.
    """
    question = _Question(
        ask=lambda driver, some, seconds: driver.describe(some, deadline=seconds),
        seconds=lambda driver: driver.describe_seconds,
        parse=bmc.parse_description,
        fail=bmc.unread,
    )
    return _served(targets, question, deadline=deadline, drivers=drivers)


def _served(
    targets: Sequence[power.Target],
    question: _Question[Told],
    *,
    deadline: Optional[float],
    drivers: Mapping[str, Driver],
) -> List[Told]:
    """Let each driver work for its targets; every one is checked before any driver begins."""
    if deadline is not None and deadline <= 0:
        raise errors.InvalidInput(f"the deadline must be more than 0 seconds, not {deadline:g}")
    names: Set[str] = set()
    by_driver: Dict[str, List[power.Target]] = {}
    for target in targets:
        if target.name in names:
            raise errors.InvalidInput(f"{target.name} is named twice")
        names.add(target.name)
        check(target, drivers=drivers)
        by_driver.setdefault(target.driver, []).append(target)
    groups = [(_driver(some[0], drivers), some) for some in by_driver.values()]
    found = _side_by_side(groups, question, deadline=deadline)
    told = {target.name: answer for (_, some), answers in zip(groups, found) for target, answer in zip(some, answers)}  # noqa: B905 -- Python 3.9 has no strict=
    return [told[target.name] for target in targets]


def _side_by_side(
    groups: Sequence[Tuple[Driver, Sequence[power.Target]]], question: _Question[Told], *, deadline: Optional[float]
) -> List[Sequence[Told]]:
    """Each driver in a process of its own: none waits for another, and those that fork need one without threads."""
    seconds = [question.seconds(driver) if deadline is None else deadline for driver, _ in groups]
    if len(groups) < 2:  # noqa: PLR2004 -- nothing to do side by side
        return [question.ask(driver, some, seconds[0]) for driver, some in groups]
    tasks = [
        functools.partial(_tell, question, driver, some, limit)
        for (driver, some), limit in zip(groups, seconds)  # noqa: B905 -- Python 3.9 has no strict=
    ]
    # Each driver keeps the deadlines itself; it may need one round after the other.
    longest = max(seconds) * (1 + len(groups) + sum(len(some) for _, some in groups))
    ends = children.run(tasks, deadline=longest, width=len(tasks) or 1)
    return [_answers(question, some, end) for (_, some), end in zip(groups, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def _tell(
    question: _Question[Told],
    driver: Driver,
    targets: Sequence[power.Target],
    seconds: float,
    report: children.Report,
) -> None:
    report(json.dumps([answer.as_dict() for answer in question.ask(driver, targets, seconds)]))


def _answers(question: _Question[Told], targets: Sequence[power.Target], end: children.Ended) -> Sequence[Told]:
    if end.line is not None:
        return [question.parse(document) for document in json.loads(end.line)]
    failure = power.Failure(power.Reason.DRIVER, f"the driver {targets[0].driver} ended without an answer")
    return [question.fail(target.name, failure) for target in targets]


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
