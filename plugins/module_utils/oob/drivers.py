"""The power drivers by name, and one command run at many BMCs at once."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Optional, Protocol, Sequence

from ..domain import errors, power
from . import children, ipmi

DEADLINE = 30.0
# What a driver leaves of its time for the last answer and for logging out.
LONGEST_MARGIN = 1.0


class Drive(Protocol):
    """Run one command at one BMC in a child process, reporting each verdict so far."""

    def __call__(
        self,
        target: power.Target,
        *,
        command: power.Command,
        until: float,
        report: Callable[[power.Outcome], None],
    ) -> None: ...


@dataclass(frozen=True)
class Driver:
    """A way to reach BMCs: `check` refuses a target before anything is sent, `drive` does the work."""

    check: Callable[[power.Target], None]
    drive: Drive


DRIVERS: Mapping[str, Driver] = {
    "ipmi": Driver(check=ipmi.check, drive=ipmi.drive),
}


def run(
    targets: Sequence[power.Target],
    *,
    command: power.Command,
    deadline: float = DEADLINE,
    drivers: Mapping[str, Driver] = DRIVERS,
) -> List[power.Outcome]:
    """Run one command at every target and give the outcomes in the targets' order.

    Each target has a child process and `deadline` seconds of its own, eight targets side by side, so a
    silent BMC says nothing about the others. Nothing is sent unless every target can be tried.

    Raises:
        errors.InvalidInput: an unknown driver, a name given twice, an address a driver cannot use.
        errors.PowerFailed: a driver's library is missing.
    """
    if deadline <= 0:
        raise errors.InvalidInput(f"the deadline must be more than 0 seconds, not {deadline:g}")
    seen: Dict[str, power.Target] = {}
    for target in targets:
        if seen.setdefault(target.name, target) is not target:
            raise errors.InvalidInput(f"{target.name} is named twice")
        _driver(target, drivers).check(target)
    tasks = [_task(target, _driver(target, drivers), command=command, deadline=deadline) for target in targets]
    ends = children.run(tasks, deadline=deadline)
    return [_outcome(target, end, command=command, deadline=deadline) for target, end in zip(targets, ends)]  # noqa: B905 -- Python 3.9 has no strict=


def _driver(target: power.Target, drivers: Mapping[str, Driver]) -> Driver:
    driver = drivers.get(target.driver)
    if driver is None:
        known = ", ".join(sorted(drivers))
        raise errors.InvalidInput(f"{target.name}: unknown power driver {target.driver!r}; known: {known}")
    return driver


def _task(target: power.Target, driver: Driver, *, command: power.Command, deadline: float) -> children.Task:
    def task(report: children.Report) -> None:
        driver.drive(
            target,
            command=command,
            until=time.monotonic() + deadline - min(LONGEST_MARGIN, deadline / 10),
            report=lambda outcome: report(json.dumps(outcome.as_dict())),
        )

    return task


def _outcome(target: power.Target, end: children.Ended, *, command: power.Command, deadline: float) -> power.Outcome:
    """Take the last verdict that a child reported, however the child ended."""
    last: Optional[power.Outcome] = None
    if end.line is not None:
        last = power.parse_outcome(json.loads(end.line))
    if end.killed:
        unread = power.judge(command, name=target.name, before=power.State.UNKNOWN, seconds=end.seconds)
        return power.cut_off(last or unread, seconds=deadline)
    if last is not None:
        return last
    failure = power.Failure(power.Reason.DRIVER, f"the driver {target.driver} ended without a verdict")
    return power.judge(command, name=target.name, before=power.State.UNKNOWN, seconds=end.seconds, failure=failure)
