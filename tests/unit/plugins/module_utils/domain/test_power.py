from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors, power
from hypothesis import given
from hypothesis import strategies as st

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN


def judged(command: power.Command, **observed: object) -> power.Outcome:
    values: dict[str, object] = {"name": "node1", "before": ON, "seconds": 1.0, **observed}
    return power.judge(command, **values)  # type: ignore[arg-type]


def test_off_is_done_when_off_was_read_back() -> None:
    outcome = judged(power.Command.OFF, seen=[ON, OFF], attempts=1)
    assert (outcome.ok, outcome.changed, outcome.after, outcome.reason) == (True, True, OFF, None)


def test_off_is_done_without_sending_when_the_node_is_already_off() -> None:
    assert not power.needs_sending(power.Command.OFF, before=OFF)
    outcome = judged(power.Command.OFF, before=OFF)
    assert (outcome.ok, outcome.sent, outcome.changed) == (True, False, False)


def test_an_accepted_off_that_reads_on_is_not_off() -> None:
    outcome = judged(power.Command.OFF, seen=[ON], attempts=1)
    assert (outcome.ok, outcome.changed, outcome.reason) == (False, False, "not_off")


def test_the_read_back_overrules_a_refusal() -> None:
    refusal = power.Failure(power.Reason.REFUSED, "not in this state")
    outcome = judged(power.Command.OFF, seen=[OFF], attempts=1, failure=refusal)
    assert (outcome.ok, outcome.reason, outcome.text) == (True, None, None)


def test_a_bmc_that_falls_silent_after_the_command_leaves_the_state_unknown() -> None:
    outcome = judged(power.Command.OFF, seen=[ON, UNKNOWN], attempts=1)
    assert (outcome.after, outcome.reason, outcome.changed) == (UNKNOWN, "timeout", True)


def test_a_soft_off_is_done_when_off_was_read_back_and_is_not_sent_to_a_node_that_is_off() -> None:
    assert (judged(power.Command.SOFT_OFF, seen=[ON, OFF], attempts=1).ok, judged(power.Command.SOFT_OFF).ok) == (
        True,
        False,
    )
    assert not power.needs_sending(power.Command.SOFT_OFF, before=OFF)


def test_a_soft_off_that_the_node_does_not_follow_is_not_off() -> None:
    assert judged(power.Command.SOFT_OFF, seen=[ON, ON], attempts=1).reason == "not_off"


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
    outcome = judged(power.Command.CYCLE, seen=seen, attempts=1)
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
    done = judged(power.Command.OFF, seen=[OFF], attempts=1)
    assert power.cut_off(done, seconds=9.0) == done


def test_the_deadline_makes_any_other_verdict_unknown_but_keeps_that_it_was_sent() -> None:
    outcome = power.cut_off(judged(power.Command.OFF, seen=[ON], attempts=1), seconds=9.0)
    assert (outcome.after, outcome.sent, outcome.reason) == (UNKNOWN, True, "timeout")


@pytest.mark.parametrize("reason", [power.Reason.BUSY, power.Reason.UNREACHABLE])
def test_the_deadline_keeps_what_is_known_to_have_held_it_up(reason: power.Reason) -> None:
    held_up = judged(power.Command.OFF, before=UNKNOWN, failure=power.Failure(reason, "no room"))
    outcome = power.cut_off(held_up, seconds=9.0)
    assert (outcome.after, outcome.reason, outcome.text) == (UNKNOWN, reason.value, "no verdict within 9 s: no room")


@pytest.mark.parametrize(
    ("command", "before", "after", "confirmed"),
    [
        (power.Command.OFF, ON, OFF, True),
        (power.Command.ON, ON, ON, True),
        (power.Command.CYCLE, ON, ON, True),
        (power.Command.CYCLE, OFF, OFF, False),
        (power.Command.OFF, UNKNOWN, UNKNOWN, False),
    ],
)
def test_what_a_command_would_leave_behind_is_foreseen_from_a_status(
    command: power.Command, before: power.State, after: power.State, confirmed: bool
) -> None:
    foreseen = power.foresee(judged(power.Command.STATUS, before=before), command=command)
    assert (foreseen.after, foreseen.confirmed, foreseen.sent) == (after, confirmed, False)


@given(
    command=st.sampled_from(power.Command),
    before=st.sampled_from(power.State),
    seen=st.lists(st.sampled_from(power.State), max_size=4),
    attempts=st.integers(min_value=0, max_value=3),
)
def test_an_outcome_has_a_reason_exactly_when_it_is_not_confirmed_and_survives_json(
    command: power.Command, before: power.State, seen: list[power.State], attempts: int
) -> None:
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
