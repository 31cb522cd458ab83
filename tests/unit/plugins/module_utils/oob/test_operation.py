from __future__ import annotations

import asyncio

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import operation

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
ALREADY, LOST = power.Answer.ALREADY, power.Answer.LOST


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class BusyBmc:
    """Is busy, and then neither on nor off, for some readings each; then off."""

    def __init__(self, *, busy: int, between: int) -> None:
        self.busy, self.between = busy, between

    async def state(self) -> power.State:
        if self.busy:
            self.busy -= 1
            raise errors.PowerFailed("busy", "not now")
        if self.between:
            self.between -= 1
            return UNKNOWN
        return OFF

    async def send(self, command: power.Command, /) -> None:
        raise AssertionError(f"{command} was sent to a node that is off")


class ScriptedBmc:
    """Reads the states it was given, the last one for ever; answers each command with the next answer.

    An answer is a failure's reason, ALREADY or LOST; None accepts the command.
    """

    def __init__(self, *states: power.State, answers: tuple[power.Reason | power.Answer | None, ...] = ()) -> None:
        self.states = list(states)
        self.answers = list(answers)
        self.sent: list[power.Command] = []

    async def state(self) -> power.State:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is UNKNOWN:
            raise errors.PowerFailed("timeout", "silent")
        return state

    async def send(self, command: power.Command, /) -> None:
        self.sent.append(command)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, power.Answer):
            reason = "timeout" if answer is LOST else "refused"
            raise errors.PowerFailed(reason, "no", answer=answer.value)
        if answer is not None:
            raise errors.PowerFailed(answer.value, "no")


def run(bmc: operation.Bmc, command: power.Command) -> tuple[power.Outcome, list[power.Outcome]]:
    clock = Clock()
    told: list[power.Outcome] = []
    one = operation.Operation(
        bmc, name="node1", command=command, until=110.0, report=told.append, clock=clock, sleep=clock.sleep
    )
    return asyncio.run(one.run()), told


def test_off_is_read_back_until_the_node_is_off() -> None:
    outcome, _ = run(ScriptedBmc(ON, ON, ON, OFF), power.Command.OFF)
    assert (outcome.confirmed, outcome.after, outcome.attempts) == (True, OFF, 1)


def test_a_busy_bmc_is_asked_again_for_off() -> None:
    bmc = ScriptedBmc(ON, ON, ON, OFF, answers=(power.Reason.BUSY, None))
    outcome, _ = run(bmc, power.Command.OFF)
    assert (outcome.confirmed, bmc.sent) == (True, [power.Command.OFF, power.Command.OFF])


def test_an_off_whose_answer_was_lost_is_not_repeated_when_the_node_reads_off() -> None:
    bmc = ScriptedBmc(ON, OFF, answers=(power.Reason.TIMEOUT,))
    outcome, _ = run(bmc, power.Command.OFF)
    assert (outcome.confirmed, bmc.sent) == (True, [power.Command.OFF])


@pytest.mark.parametrize("command", [power.Command.CYCLE, power.Command.SOFT_OFF])
def test_what_a_second_time_would_undo_is_never_sent_twice(command: power.Command) -> None:
    bmc = ScriptedBmc(ON, answers=(power.Reason.TIMEOUT,))
    outcome, _ = run(bmc, command)
    assert (outcome.confirmed, outcome.reason, bmc.sent) == (False, "timeout", [command])


def test_in_an_emergency_a_node_that_reads_off_is_sent_an_off() -> None:
    bmc = ScriptedBmc(OFF, answers=(power.Reason.REFUSED,))
    outcome, _ = run(bmc, power.Command.EMERGENCY_OFF)
    assert (outcome.confirmed, outcome.changed, bmc.sent) == (True, False, [power.Command.OFF])


FENCES = [power.Command.FENCE, power.Command.CONFIRM_OFF]


@pytest.mark.parametrize("command", FENCES)
def test_a_node_that_read_off_before_it_was_asked_is_fenced_only_by_an_off_and_two_readings(
    command: power.Command,
) -> None:
    bmc = ScriptedBmc(OFF)
    outcome, told = run(bmc, command)
    assert (outcome.confirmed, outcome.after, bmc.sent) == (True, OFF, [power.Command.OFF])
    assert [one.confirmed for one in told].count(True) == 2
    assert outcome.seconds >= operation.FENCE_PAUSE


@pytest.mark.parametrize("command", FENCES)
def test_an_already_off_that_is_an_error_is_a_fence_once_the_node_reads_off_twice(command: power.Command) -> None:
    bmc = ScriptedBmc(OFF, answers=(ALREADY,))
    outcome, _ = run(bmc, command)
    assert (outcome.confirmed, outcome.reason, bmc.sent) == (True, None, [power.Command.OFF])


@pytest.mark.parametrize("command", FENCES)
@pytest.mark.parametrize(
    "answer",
    [
        power.Reason.AUTH,
        power.Reason.CIPHER,
        power.Reason.UNREACHABLE,
        power.Reason.TIMEOUT,
        power.Reason.BUSY,
        power.Reason.DRIVER,
        power.Reason.REFUSED,
        LOST,
    ],
)
def test_a_node_that_reads_off_and_whose_bmc_took_no_off_is_not_fenced(
    command: power.Command, answer: power.Reason | power.Answer
) -> None:
    outcome, told = run(ScriptedBmc(OFF, answers=(answer,) * 50), command)
    assert not any(one.confirmed for one in (*told, outcome))
    assert (outcome.after, outcome.reason) == (OFF, "timeout" if answer is LOST else answer.value)
    assert outcome.text is not None
    assert "reads off, but accepted no command to power off (no)" in outcome.text
    assert "`roundsman node confirm-off node1`" in outcome.text


@pytest.mark.parametrize("command", FENCES)
@pytest.mark.parametrize("answer", [power.Reason.BUSY, power.Reason.TIMEOUT, LOST])
def test_an_off_that_was_not_taken_is_sent_again_and_only_readings_after_it_was_count(
    command: power.Command, answer: power.Reason | power.Answer
) -> None:
    bmc = ScriptedBmc(OFF, answers=(answer, answer, None))
    outcome, _ = run(bmc, command)
    assert (outcome.confirmed, bmc.sent) == (True, [power.Command.OFF] * 3)
    # Two readings after the third off; none of those before it counts.
    assert outcome.seconds >= 3 * operation.FENCE_PAUSE


@pytest.mark.parametrize("second", [None, ALREADY])
@pytest.mark.parametrize("between", [(), (LOST,), (power.Reason.BUSY, LOST)])
def test_an_off_whose_answer_was_lost_is_sent_again_and_a_fence_once_its_bmc_answers(
    between: tuple[power.Reason | power.Answer, ...], second: power.Answer | None
) -> None:
    bmc = ScriptedBmc(ON, OFF, answers=(LOST, *between, second))
    outcome, told = run(bmc, power.Command.FENCE)
    assert (outcome.confirmed, outcome.before, bmc.sent) == (True, ON, [power.Command.OFF] * (2 + len(between)))
    assert [one.confirmed for one in told].count(True) == 2, "the first one when it read off twice after the last off"


@pytest.mark.parametrize("first", [ON, UNKNOWN, OFF])
@pytest.mark.parametrize("reason", [power.Reason.REFUSED, power.Reason.AUTH])
def test_a_bmc_that_restarts_reads_off_and_refuses_every_further_off_fences_nobody(
    first: power.State, reason: power.Reason
) -> None:
    bmc = ScriptedBmc(ON, first, OFF, answers=(LOST, *[reason] * 50))
    outcome, _ = run(bmc, power.Command.FENCE)
    assert (outcome.confirmed, outcome.attempts) == (False, 2)


@pytest.mark.parametrize("first", [ON, UNKNOWN, OFF])
@pytest.mark.parametrize("later", [power.Reason.BUSY, power.Reason.UNREACHABLE, LOST])
def test_a_bmc_that_restarts_reads_off_and_answers_no_further_off_fences_nobody(
    first: power.State, later: power.Reason | power.Answer
) -> None:
    """As IPMI does with 0xD2 and 0xC0, and Redfish with 503: the node is on all the time."""
    outcome, told = run(ScriptedBmc(ON, first, OFF, answers=(LOST, *[later] * 50)), power.Command.FENCE)
    assert not any(one.confirmed for one in (*told, outcome))
    assert (outcome.after, outcome.attempts > 2) == (OFF, True), "it was sent again until the time was up"
    assert outcome.text is not None
    assert "reads off, but accepted no command to power off (no)" in outcome.text


def test_an_already_off_of_a_node_that_reads_on_is_a_contradiction_and_off_is_sent_again() -> None:
    bmc = ScriptedBmc(ON, OFF, answers=(ALREADY, ALREADY))
    outcome, _ = run(bmc, power.Command.FENCE)
    assert (outcome.confirmed, bmc.sent) == (True, [power.Command.OFF] * 2)
    stubborn, _ = run(ScriptedBmc(ON, answers=(ALREADY,) * 50), power.Command.FENCE)
    assert (stubborn.confirmed, stubborn.after) == (False, ON)


@pytest.mark.parametrize("reason", [power.Reason.BUSY, power.Reason.UNREACHABLE, power.Reason.TIMEOUT])
def test_a_node_that_goes_off_while_its_bmc_takes_no_off_is_not_fenced(reason: power.Reason) -> None:
    outcome, _ = run(ScriptedBmc(ON, ON, OFF, answers=(reason,) * 50), power.Command.FENCE)
    assert (outcome.confirmed, outcome.after, outcome.reason) == (False, OFF, reason.value)


@pytest.mark.parametrize("command", FENCES)
@pytest.mark.parametrize("answers", [(), (ALREADY,), (power.Reason.REFUSED,)])
def test_a_bmc_that_said_off_of_a_node_that_is_on_is_exposed(
    command: power.Command, answers: tuple[power.Reason | power.Answer, ...]
) -> None:
    outcome, _ = run(ScriptedBmc(OFF, ON, answers=answers), command)
    assert (outcome.confirmed, outcome.after) == (False, ON)


@pytest.mark.parametrize("command", FENCES)
@pytest.mark.parametrize("second", [ON, UNKNOWN])
def test_a_bmc_that_changes_its_answer_fences_nobody(command: power.Command, second: power.State) -> None:
    outcome, _ = run(ScriptedBmc(OFF, *[OFF, second] * 40), command)
    assert not outcome.confirmed


def test_an_already_off_with_a_reading_that_changes_is_none() -> None:
    bmc = ScriptedBmc(OFF, OFF, ON, OFF, answers=(ALREADY,) * 9)
    outcome, _ = run(bmc, power.Command.FENCE)
    assert (outcome.confirmed, bmc.sent) == (False, [power.Command.OFF])


def test_a_busy_bmc_that_changes_its_answer_is_told_as_that() -> None:
    outcome, _ = run(ScriptedBmc(OFF, *[OFF, ON] * 40, answers=(power.Reason.BUSY,) * 99), power.Command.FENCE)
    assert (outcome.confirmed, outcome.reason) == (False, "not_off" if outcome.after is OFF else "busy")


@pytest.mark.parametrize("seen", [(ON,), (OFF, ON)])
@pytest.mark.parametrize("first", [None, ALREADY, LOST, power.Reason.BUSY, power.Reason.UNREACHABLE])
def test_a_node_that_reads_on_after_its_bmc_restarted_is_not_confirmed_off_and_is_sent_no_more(
    first: power.Reason | power.Answer | None, seen: tuple[power.State, ...]
) -> None:
    bmc = ScriptedBmc(OFF, *seen, OFF, answers=(*[first] * len(seen), None))
    outcome, told = run(bmc, power.Command.CONFIRM_OFF)
    assert not any(one.confirmed for one in told)
    assert (outcome.after, outcome.read_on, outcome.reason) == (ON, True, "refused")
    assert outcome.text == "the node read on after it had read off, and off is not sent again"
    assert len(bmc.sent) <= len(seen), "nothing after it read on"


def test_a_bmc_that_read_on_and_hangs_then_is_known_to_have_read_on() -> None:
    class Hangs(ScriptedBmc):
        async def state(self) -> power.State:
            if not self.states:
                await asyncio.Event().wait()
            return self.states.pop(0)

    bmc = Hangs(OFF, ON, answers=(LOST,))
    outcome = asyncio.run(operation.within(bmc, name="node1", command=power.Command.FENCE, deadline=0.5))
    assert (outcome.confirmed, outcome.after, outcome.read_on) == (False, UNKNOWN, True)


def test_a_node_that_is_on_is_fenced_and_never_confirmed_off() -> None:
    fenced, _ = run(ScriptedBmc(ON, ON, OFF), power.Command.FENCE)
    assert (fenced.confirmed, fenced.before, fenced.after) == (True, ON, OFF)
    bmc = ScriptedBmc(ON)
    kept, _ = run(bmc, power.Command.CONFIRM_OFF)
    assert (kept.confirmed, kept.reason, kept.after, bmc.sent) == (False, "refused", ON, [])


@pytest.mark.parametrize("command", FENCES)
def test_a_fence_that_never_went_out_is_none_whatever_the_node_reads(command: power.Command) -> None:
    outcome, _ = run(ScriptedBmc(UNKNOWN, OFF), command)
    assert (outcome.confirmed, outcome.sent) == (False, False)


@pytest.mark.parametrize("answer", [power.Reason.REFUSED, ALREADY])
def test_a_refused_off_is_read_back_once_and_not_repeated(answer: power.Reason | power.Answer) -> None:
    """Nor is one that contradicts the reading: that is a matter of fences."""
    bmc = ScriptedBmc(ON, answers=(answer,) * 50)
    outcome, _ = run(bmc, power.Command.OFF)
    assert (outcome.reason, bmc.sent, outcome.seconds) == ("refused", [power.Command.OFF], 0.0)


def test_a_bmc_that_is_silent_for_a_moment_after_the_command_is_read_again() -> None:
    outcome, _ = run(ScriptedBmc(ON, UNKNOWN, OFF), power.Command.OFF)
    assert (outcome.confirmed, outcome.after) == (True, OFF)


def test_that_a_command_goes_out_is_reported_before_it_does() -> None:
    told: list[power.Outcome] = []

    class Watching(ScriptedBmc):
        async def send(self, command: power.Command, /) -> None:
            assert told[-1].sent
            assert told[-1].after is UNKNOWN
            await super().send(command)

    clock = Clock()
    bmc = Watching(ON, OFF)
    asyncio.run(
        operation.Operation(
            bmc,
            name="node1",
            command=power.Command.OFF,
            until=110.0,
            report=told.append,
            clock=clock,
            sleep=clock.sleep,
        ).run()
    )
    assert bmc.sent == [power.Command.OFF]


def test_the_verdict_is_the_last_thing_reported() -> None:
    outcome, told = run(ScriptedBmc(ON, ON), power.Command.OFF)
    assert (told[-1], outcome.reason) == (outcome, "not_off")


def test_a_soft_off_is_read_back_for_as_long_as_it_may_take() -> None:
    bmc = ScriptedBmc(*[ON] * 6, OFF)
    outcome, _ = run(bmc, power.Command.SOFT_OFF)
    assert (outcome.confirmed, outcome.after, bmc.sent) == (True, OFF, [power.Command.SOFT_OFF])


def test_a_soft_off_that_nothing_comes_of_never_becomes_a_hard_one() -> None:
    bmc = ScriptedBmc(ON)
    outcome, _ = run(bmc, power.Command.SOFT_OFF)
    assert (outcome.reason, set(bmc.sent)) == ("not_off", {power.Command.SOFT_OFF})


@pytest.mark.parametrize("bmc", [BusyBmc(busy=3, between=0), BusyBmc(busy=0, between=3), BusyBmc(busy=2, between=2)])
def test_a_bmc_that_is_busy_or_between_on_and_off_is_read_again_before_anything_is_sent(bmc: BusyBmc) -> None:
    outcome, told = run(bmc, power.Command.OFF)
    assert (outcome.confirmed, outcome.before, outcome.sent) == (True, OFF, False)
    assert told[0].reason == "busy"


@pytest.mark.parametrize(
    ("bmc", "text"),
    [(BusyBmc(busy=999, between=0), "not now"), (BusyBmc(busy=0, between=999), "the BMC says neither on nor off")],
)
def test_a_bmc_that_stays_so_is_busy_at_the_end_of_its_time(bmc: BusyBmc, text: str) -> None:
    outcome, _ = run(bmc, power.Command.OFF)
    assert (outcome.after, outcome.sent, outcome.reason, outcome.text) == (UNKNOWN, False, "busy", text)
    assert outcome.seconds == 10.0
