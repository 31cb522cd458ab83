from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from hypothesis import given
from hypothesis import strategies as st

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
SENT = power.Attempt(power.Answer.ACCEPTED)


def judged(command: power.Command, **observed: object) -> power.Outcome:
    values: dict[str, object] = {"name": "node1", "before": ON, "seconds": 1.0, **observed}
    return power.judge(command, **values)  # type: ignore[arg-type]


def test_off_is_done_when_off_was_read_back() -> None:
    outcome = judged(power.Command.OFF, seen=[ON, OFF], attempts=[SENT])
    assert (outcome.ok, outcome.changed, outcome.after, outcome.reason) == (True, True, OFF, None)


def test_off_is_done_without_sending_when_the_node_is_already_off() -> None:
    assert not power.needs_sending(power.Command.OFF, before=OFF)
    outcome = judged(power.Command.OFF, before=OFF)
    assert (outcome.ok, outcome.sent, outcome.changed) == (True, False, False)


def test_an_accepted_off_that_reads_on_is_not_off() -> None:
    outcome = judged(power.Command.OFF, seen=[ON], attempts=[SENT])
    assert (outcome.ok, outcome.changed, outcome.reason) == (False, False, "not_off")


def test_the_read_back_overrules_a_refusal() -> None:
    refusal = power.Failure(power.Reason.REFUSED, "not in this state")
    outcome = judged(power.Command.OFF, seen=[OFF], attempts=[SENT], failure=refusal)
    assert (outcome.ok, outcome.reason, outcome.text) == (True, None, None)


def attempts(*answers: power.Answer, reads: int = 0) -> list[power.Attempt]:
    """One attempt after the other, with a reading between any two."""
    return [power.Attempt(answer, reads + number) for number, answer in enumerate(answers)]


ACCEPTED, ALREADY, LOST, REJECTED = power.Answer


@pytest.mark.parametrize("command", [power.Command.FENCE, power.Command.CONFIRM_OFF])
@pytest.mark.parametrize(
    ("before", "answers", "seen", "fenced"),
    [
        (OFF, [ACCEPTED], [OFF, OFF], True),
        (OFF, [ALREADY], [OFF, OFF], True),
        (OFF, [REJECTED], [OFF, OFF], False),
        (OFF, [LOST], [OFF, OFF], False),
        (OFF, [REJECTED, LOST, REJECTED], [OFF, OFF, OFF], False),
        (OFF, [], [OFF, OFF], False),
        # Only what is read after an off that its BMC took.
        (OFF, [REJECTED, ACCEPTED], [OFF, OFF], False),
        (OFF, [REJECTED, ACCEPTED], [OFF, OFF, OFF], True),
        (OFF, [LOST, ALREADY], [OFF, OFF], False),
        (OFF, [ACCEPTED, REJECTED], [OFF, OFF], True),
        # An off whose answer was lost is none: a BMC that restarts reads off, too.
        (ON, [LOST], [OFF, OFF], False),
        (ON, [LOST, LOST], [ON, OFF, OFF], False),
        (ON, [REJECTED, LOST], [ON, OFF, OFF], False),
        (ON, [LOST, ACCEPTED], [OFF, OFF, OFF], True),
        (ON, [LOST, ACCEPTED], [OFF, OFF], False),
        (ON, [LOST, ALREADY], [OFF, OFF, OFF], True),
        (ON, [LOST, ALREADY], [ON, OFF, OFF], False),
        (ON, [REJECTED], [OFF, OFF], False),
        (UNKNOWN, [LOST], [OFF, OFF], False),
    ],
)
def test_a_fence_needs_an_off_that_its_bmc_took_and_two_readings_after_it(
    command: power.Command, before: power.State, answers: list[power.Answer], seen: list[power.State], *, fenced: bool
) -> None:
    failure = power.Failure(power.Reason.AUTH, "no")
    outcome = judged(command, before=before, seen=seen, attempts=attempts(*answers), failure=failure)
    assert outcome.confirmed is fenced


def test_an_already_off_right_after_a_reading_of_on_is_no_fence() -> None:
    off = [OFF] * 3
    assert not judged(power.Command.FENCE, before=ON, seen=off, attempts=attempts(ALREADY)).confirmed
    assert judged(power.Command.FENCE, before=ON, seen=off, attempts=attempts(ALREADY, ALREADY)).confirmed


@pytest.mark.parametrize("reason", list(power.Reason))
def test_an_off_that_nobody_took_is_told_with_its_reason_and_what_to_do(reason: power.Reason) -> None:
    failure = power.Failure(reason, "why")
    outcome = judged(power.Command.CONFIRM_OFF, before=OFF, seen=[OFF], attempts=attempts(REJECTED), failure=failure)
    assert outcome.reason == reason.value
    assert outcome.text == (
        "its BMC reads off, but accepted no command to power off (why), so the node may still be on: repair the BMC, "
        "then retry; or check on site that node1 is off and will stay off, then run `roundsman node confirm-off node1`"
    )


def test_a_bmc_that_took_no_off_and_changes_its_answer_is_not_off() -> None:
    failure = power.Failure(power.Reason.BUSY, "not now")
    outcome = judged(power.Command.FENCE, before=OFF, seen=[ON, OFF], attempts=attempts(REJECTED), failure=failure)
    assert (outcome.confirmed, outcome.reason) == (False, "not_off")


@pytest.mark.parametrize("answer", [ACCEPTED, ALREADY, LOST, REJECTED])
def test_a_node_that_read_on_is_never_confirmed_off(answer: power.Answer) -> None:
    outcome = judged(power.Command.CONFIRM_OFF, before=OFF, seen=[ON, OFF, OFF], attempts=attempts(answer, ACCEPTED))
    assert (outcome.confirmed, outcome.reason, outcome.read_on) == (False, "refused", True)
    assert not power.is_rejected(dataclasses.replace(outcome, after=ON))


@pytest.mark.parametrize(
    ("before", "seen", "read_on"), [(ON, [], True), (OFF, [OFF, ON, UNKNOWN], True), (OFF, [OFF, UNKNOWN], False)]
)
def test_that_any_reading_was_on_is_kept(before: power.State, seen: list[power.State], *, read_on: bool) -> None:
    outcome = judged(power.Command.FENCE, before=before, seen=seen, attempts=attempts(ACCEPTED))
    assert outcome.read_on is read_on
    assert power.cut_off(outcome, seconds=9.0).read_on is read_on


def test_an_emergency_off_is_what_is_read_back_whatever_the_bmc_answered() -> None:
    outcome = judged(power.Command.EMERGENCY_OFF, before=OFF, seen=[OFF], attempts=attempts(REJECTED))
    assert (outcome.confirmed, outcome.text) == (True, None)


def test_a_bmc_that_falls_silent_after_the_command_leaves_the_state_unknown() -> None:
    outcome = judged(power.Command.OFF, seen=[ON, UNKNOWN], attempts=[SENT])
    assert (outcome.after, outcome.reason, outcome.changed) == (UNKNOWN, "timeout", True)


def test_a_soft_off_is_done_when_off_was_read_back_and_is_not_sent_to_a_node_that_is_off() -> None:
    assert (judged(power.Command.SOFT_OFF, seen=[ON, OFF], attempts=[SENT]).ok, judged(power.Command.SOFT_OFF).ok) == (
        True,
        False,
    )
    assert not power.needs_sending(power.Command.SOFT_OFF, before=OFF)


def test_a_soft_off_that_the_node_does_not_follow_is_not_off() -> None:
    assert judged(power.Command.SOFT_OFF, seen=[ON, ON], attempts=[SENT]).reason == "not_off"


@pytest.mark.parametrize("command", list(power.Command))
def test_a_node_that_could_not_be_asked_is_unknown_and_says_why(command: power.Command) -> None:
    failure = power.Failure(power.Reason.UNCONFIGURED, "no entry")
    outcome = power.untried(command, name="node1", failure=failure)
    assert (outcome.after, outcome.ok, outcome.sent) == (UNKNOWN, False, False)
    assert (outcome.reason, outcome.text) == ("unconfigured", "no entry")


@pytest.mark.parametrize("command", list(power.Command))
def test_a_silent_bmc_is_unknown_and_is_sent_nothing(command: power.Command) -> None:
    assert not power.needs_sending(command, before=UNKNOWN)
    outcome = judged(command, before=UNKNOWN)
    assert (outcome.after, outcome.ok, outcome.reason) == (UNKNOWN, False, "timeout")


@pytest.mark.parametrize(
    ("seen", "ok", "reason"),
    [
        ([ON, OFF, ON], True, None),
        ([ON, ON], False, "unconfirmed"),
        ([OFF, OFF], False, "not_on"),
        ([OFF, UNKNOWN], False, "timeout"),
        ([], False, "timeout"),
    ],
)
def test_a_cycle_counts_only_when_off_and_then_on_was_seen(
    seen: list[power.State], ok: bool, reason: str | None
) -> None:
    outcome = judged(power.Command.CYCLE, seen=seen, attempts=[SENT])
    assert (outcome.ok, outcome.reason) == (ok, reason)


def test_a_cycle_is_not_sent_to_a_node_that_is_off() -> None:
    assert not power.needs_sending(power.Command.CYCLE, before=OFF)
    objection = power.objection(power.Command.CYCLE, before=OFF)
    assert objection is not None
    assert objection.reason is power.Reason.REFUSED


def test_a_status_is_done_when_a_state_was_read() -> None:
    outcome = judged(power.Command.STATUS, before=OFF)
    assert (outcome.ok, outcome.after, outcome.changed) == (True, OFF, False)


def test_the_deadline_leaves_a_confirmed_verdict_as_it_is() -> None:
    done = judged(power.Command.OFF, seen=[OFF], attempts=[SENT])
    assert power.cut_off(done, seconds=9.0) == done


def test_the_deadline_makes_any_other_verdict_unknown_but_keeps_that_it_was_sent() -> None:
    outcome = power.cut_off(judged(power.Command.OFF, seen=[ON], attempts=[SENT]), seconds=9.0)
    assert (outcome.after, outcome.sent, outcome.reason) == (UNKNOWN, True, "timeout")


@pytest.mark.parametrize("reason", [power.Reason.BUSY, power.Reason.UNREACHABLE])
def test_the_deadline_keeps_what_is_known_to_have_held_it_up(reason: power.Reason) -> None:
    held_up = judged(power.Command.OFF, before=UNKNOWN, failure=power.Failure(reason, "no room"))
    outcome = power.cut_off(held_up, seconds=9.0)
    assert (outcome.after, outcome.reason, outcome.text) == (UNKNOWN, reason.value, "no verdict within 9 s: no room")


@given(
    command=st.sampled_from(power.Command),
    before=st.sampled_from(power.State),
    seen=st.lists(st.sampled_from(power.State), max_size=4),
    answers=st.lists(st.sampled_from(power.Answer), max_size=3),
)
def test_an_outcome_has_a_reason_exactly_when_it_is_not_confirmed_and_survives_json(
    command: power.Command, before: power.State, seen: list[power.State], answers: list[power.Answer]
) -> None:
    attempts = [power.Attempt(one, min(number, len(seen))) for number, one in enumerate(answers)]
    outcome = judged(command, before=before, seen=seen if attempts else [], attempts=attempts)
    assert (outcome.reason is None) is outcome.confirmed
    assert power.parse_outcome(outcome.as_dict()) == outcome


@pytest.mark.parametrize("wrong", [{"name": ""}, {"port": -1}, {"port": 65536}])
def test_a_target_without_a_name_or_with_a_port_that_is_none_is_refused(wrong: dict[str, object]) -> None:
    target = power.Target(name="node1", driver="ipmi", address="192.0.2.1")
    with pytest.raises(errors.InvalidInput):
        dataclasses.replace(target, **wrong)  # type: ignore[arg-type]


def test_a_target_does_not_show_its_password() -> None:
    target = power.Target(name="node1", driver="ipmi", address="192.0.2.1", password="s3cret")
    assert "s3cret" not in repr(target)
