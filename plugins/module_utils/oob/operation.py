"""One power command at one BMC: read, send, read back until it is done or the time is up."""

from __future__ import annotations

import time
from typing import Callable, List, Optional, Protocol

from ..domain import errors, power

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.5
# A power cycle keeps a node off for about a second: looking more often than that sees it.
CYCLE_PAUSE = 0.1


class Bmc(Protocol):
    """The few verbs a power driver has; each raises errors.PowerFailed when there is no usable answer."""

    def state(self) -> power.State:
        """Read the power state, connecting anew if the connection was lost."""

    def send(self, command: power.Command, /) -> None:
        """Ask for on, off or cycle, and return when the BMC accepted."""


class Operation:
    """Runs one command at one BMC; `report` gets the verdict so far before each risk and after each reading.

    `until` is a reading of `clock`; nothing is begun after it, but a single answer can outlast it.
    """

    def __init__(
        self,
        bmc: Bmc,
        *,
        name: str,
        command: power.Command,
        until: float,
        report: Callable[[power.Outcome], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bmc = bmc
        self._name = name
        self._command = command
        self._until = until
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._started = clock()
        self._before = power.State.UNKNOWN
        self._seen: List[power.State] = []
        self._attempts = 0
        self._failure: Optional[power.Failure] = None

    def run(self) -> power.Outcome:
        """Do it, and return the verdict, which was also the last one reported."""
        try:
            self._before = self._bmc.state()
        except errors.PowerFailed as error:
            self._failure = _failure(error)
        else:
            self._failure = power.objection(self._command, before=self._before)
            if power.needs_sending(self._command, before=self._before):
                self._carry_out()
        return self._tell()

    def _carry_out(self) -> None:
        pause = FIRST_PAUSE
        accepted = False
        while True:
            if not accepted and self._may_send():
                accepted = self._send()
            self._read()
            hopeless = not accepted and self._failure is not None and not _passing(self._failure)
            if self._is_done() or hopeless or self._clock() >= self._until:
                return
            self._sleep(max(0.0, min(pause, self._until - self._clock())))
            longest = CYCLE_PAUSE if self._command is power.Command.CYCLE else LONGEST_PAUSE
            pause = min(longest, pause * 2)

    def _may_send(self) -> bool:
        return self._attempts == 0 or self._command is not power.Command.CYCLE

    def _send(self) -> bool:
        self._attempts += 1
        self._tell()
        try:
            self._bmc.send(self._command)
        except errors.PowerFailed as error:
            self._failure = _failure(error)
            return False
        self._failure = None
        return True

    def _read(self) -> None:
        try:
            self._seen.append(self._bmc.state())
        except errors.PowerFailed:
            self._seen.append(power.State.UNKNOWN)
        self._tell()

    def _is_done(self) -> bool:
        return power.is_done(self._command, before=self._before, seen=self._seen, sent=self._attempts > 0)

    def _tell(self) -> power.Outcome:
        outcome = power.judge(
            self._command,
            name=self._name,
            before=self._before,
            seen=self._seen,
            attempts=self._attempts,
            seconds=round(self._clock() - self._started, 3),
            failure=self._failure,
        )
        self._report(outcome)
        return outcome


def _failure(error: errors.PowerFailed) -> power.Failure:
    return power.Failure(power.Reason(error.reason), str(error))


def _passing(failure: power.Failure) -> bool:
    return failure.reason in power.PASSING
