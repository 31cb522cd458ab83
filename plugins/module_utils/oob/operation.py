"""One power command at one BMC: read, send, read back until it is done or the time is up."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Awaitable, Callable, List, Mapping, Optional, Protocol

from ..domain.power import power
from ..domain.values import errors

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.5
# A power cycle keeps a node off for about a second: looking more often than that sees it.
CYCLE_PAUSE = 0.1
# Between the readings after a fence: a BMC that changes its answer is to be noticed.
FENCE_PAUSE = 1.0
# A system that shuts down takes many seconds, and its BMC has other things to do.
SOFT_PAUSE = 2.0
# What an operation leaves of its time for the last answer and for logging out.
LONGEST_MARGIN = 1.0

_PAUSES: Mapping[power.Command, float] = {
    power.Command.CYCLE: CYCLE_PAUSE,
    power.Command.SOFT_OFF: SOFT_PAUSE,
    power.Command.FENCE: FENCE_PAUSE,
    power.Command.CONFIRM_OFF: FENCE_PAUSE,
}
Report = Callable[[power.Outcome], None]


class Bmc(Protocol):
    """The few verbs a power driver has; each raises errors.PowerFailed when there is no usable answer."""

    async def state(self) -> power.State:
        """Read the power state, connecting anew if the connection was lost."""

    async def send(self, command: power.Command, /) -> None:
        """Ask for a change of the power, and return when the BMC accepted.

        A failure's `answer` says what became of the command; a driver that cannot tell leaves it "rejected".
        """


async def within(bmc: Bmc, *, name: str, command: power.Command, deadline: float) -> power.Outcome:
    """Run one command and give its verdict after `deadline` seconds at the latest, whatever the BMC or its driver does.

    What a driver stumbles over is the verdict for its own node, so that it takes no other node's command down.
    """
    clock = asyncio.get_running_loop().time
    until = clock() + deadline - min(LONGEST_MARGIN, deadline / 10)
    operation = Operation(bmc, name=name, command=command, until=until, clock=clock)
    running = asyncio.ensure_future(operation.run())
    try:
        await asyncio.wait({running}, timeout=deadline)
    finally:
        # Also when this is cancelled itself: the operation has a session to give back.
        if running.cancel():
            await asyncio.wait({running}, timeout=LONGEST_MARGIN)
    if not running.done() or running.cancelled():
        return power.cut_off(operation.verdict(), seconds=deadline)
    error = running.exception()
    return running.result() if error is None else _stumbled(operation.verdict(), error)


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
        report: Optional[Report] = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
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
        self._attempts: List[power.Attempt] = []
        self._failure: Optional[power.Failure] = None

    async def run(self) -> power.Outcome:
        """Do it, and return the verdict, which was also the last one reported."""
        await self._look()
        if self._failure is None:
            self._failure = power.objection(self._command, before=self._before)
            if power.needs_sending(self._command, before=self._before):
                await self._carry_out()
        return self._tell()

    def verdict(self) -> power.Outcome:
        """What can be said of the command now."""
        return power.judge(
            self._command,
            name=self._name,
            before=self._before,
            seen=self._seen,
            attempts=self._attempts,
            seconds=round(self._clock() - self._started, 3),
            failure=self._failure,
        )

    async def _look(self) -> None:
        """Read the state before; a BMC that is busy, with a change of the power for one, is asked again."""
        while True:
            self._failure = None
            try:
                self._before = await self._bmc.state()
            except errors.PowerFailed as error:
                self._failure = _failure(error)
            else:
                if self._before is not power.State.UNKNOWN:
                    return
                self._failure = power.Failure(power.Reason.BUSY, "the BMC says neither on nor off")
            if self._failure.reason is not power.Reason.BUSY or self._clock() >= self._until:
                return
            self._tell()
            await self._sleep(max(0.0, min(LONGEST_PAUSE, self._until - self._clock())))

    async def _carry_out(self) -> None:
        pause = FENCE_PAUSE if self._command.fences else FIRST_PAUSE
        accepted = hopeless = False
        while True:
            if not (accepted or hopeless) and self._may_send():
                accepted = await self._send()
            await self._read()
            hopeless = not accepted and self._is_refused()
            if power.is_exposed(self._command, seen=self._seen):
                return
            if self._is_done() or self._clock() >= self._until or (hopeless and not self._may_be_fenced()):
                return
            await self._sleep(max(0.0, min(pause, self._until - self._clock())))
            pause = min(_PAUSES.get(self._command, LONGEST_PAUSE), pause * 2)

    def _may_be_fenced(self) -> bool:
        """Whether one more reading may do: a BMC may say that the node is off already."""
        known = power.was_commanded(before=self._before, seen=self._seen, attempts=self._attempts)
        return self._command.fences and known and self._seen[-1] is power.State.OFF

    def _is_refused(self) -> bool:
        """Whether a command that was not accepted would not be the next time either."""
        is_contradictory = power.is_contradictory(before=self._before, seen=self._seen, attempts=self._attempts)
        is_sent_again = self._command.fences and is_contradictory
        return self._failure is not None and not _passing(self._failure) and not is_sent_again

    def _may_send(self) -> bool:
        return not self._attempts or self._command.repeats

    async def _send(self) -> bool:
        reads = len(self._seen)
        # Until its answer is known: this may be ended while it waits.
        self._attempts.append(power.Attempt(power.Answer.LOST, reads))
        self._tell()
        try:
            await self._bmc.send(self._command.verb)
        except errors.PowerFailed as error:
            self._failure = _failure(error)
            self._attempts[-1] = power.Attempt(power.Answer(error.answer), reads)
            return False
        self._failure = None
        self._attempts[-1] = power.Attempt(power.Answer.ACCEPTED, reads)
        return True

    async def _read(self) -> None:
        try:
            self._seen.append(await self._bmc.state())
        except errors.PowerFailed:
            self._seen.append(power.State.UNKNOWN)
        self._tell()

    def _is_done(self) -> bool:
        return power.is_done(self._command, before=self._before, seen=self._seen, attempts=self._attempts)

    def _tell(self) -> power.Outcome:
        outcome = self.verdict()
        if self._report is not None:
            self._report(outcome)
        return outcome


def _stumbled(outcome: power.Outcome, error: BaseException) -> power.Outcome:
    if outcome.confirmed:
        return outcome
    text = f"the driver failed: {type(error).__name__}: {error}"
    return dataclasses.replace(outcome, reason=power.Reason.DRIVER.value, text=text)


def _failure(error: errors.PowerFailed) -> power.Failure:
    return power.Failure(power.Reason(error.reason), str(error))


def _passing(failure: power.Failure) -> bool:
    return failure.reason in power.PASSING
