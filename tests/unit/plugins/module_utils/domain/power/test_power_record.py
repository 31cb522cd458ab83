from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power, power_record
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit import small_cluster

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN


def outcome(command: str, *seen: power.State, before: power.State = ON, attempts: int = 1) -> power.Outcome:
    sent = [power.Attempt(power.Answer.ACCEPTED)] * attempts
    return power.judge(power.Command(command), name="node3", before=before, seen=seen, attempts=sent, seconds=0.1)


def after(record: bool, told: power.Outcome) -> bool:
    """The record of a node after a command, by the rule that every play and the daemon apply."""
    cluster = small_cluster.make()
    node = dataclasses.replace(cluster.node("n3"), powered=record)
    cluster = dataclasses.replace(cluster, nodes={**cluster.nodes, "n3": node})
    value = power_record.recorded(told)
    stated: list[changes.Change] = [] if value is None else [changes.NodePowered("n3", powered=value)]
    return changes.apply_all(cluster, stated, now=1.0).node("n3").powered


def row(record: bool, told: power.Outcome, wanted: bool, *, when: str = "") -> Any:
    name = f"powered: {record}, power {told.command.value}{' ' if when else ''}{when} → powered: {wanted}"
    return pytest.param(record, told, wanted, id=name)


@pytest.mark.parametrize(
    ("record", "told", "wanted"),
    [
        # Seed 001, "Node State Changes", row by row.
        row(False, outcome("off", before=OFF, attempts=0), False),
        row(False, outcome("cycle", before=OFF, attempts=0), False),
        row(False, outcome("on", ON, before=OFF), True),
        row(True, outcome("off", OFF), False),
        row(True, outcome("cycle", OFF, ON), True),
        row(True, outcome("on", before=ON, attempts=0), True),
        # Its note: if the command fails, the state remains unchanged.
        row(True, outcome("off", ON), True, when="fails"),
        row(False, outcome("off", ON), False, when="of a node that is on fails"),
        row(True, outcome("off", UNKNOWN), True, when="leaves the BMC silent"),
        row(False, outcome("on", OFF, before=OFF), False, when="fails"),
        row(True, outcome("on", OFF, before=OFF), True, when="of a node that is off fails"),
        row(False, outcome("on", before=UNKNOWN, attempts=0), False, when="at a silent BMC"),
        row(True, outcome("cycle", OFF), True, when="that ends off"),
        row(True, outcome("cycle", before=OFF, attempts=0), True, when="of a node that is off"),
        # A wrong record is mended by on, off and `node modify`; nothing else corrects it silently.
        row(False, outcome("cycle", OFF, ON), False, when="of a node that is on"),
        row(True, outcome("off", before=OFF, attempts=0), False, when="of a node that is off"),
        row(False, outcome("on", before=ON, attempts=0), True, when="of a node that is on"),
        row(True, outcome("status", before=OFF, attempts=0), True, when="reads off"),
        row(False, outcome("status", before=ON, attempts=0), False, when="reads on"),
    ],
)
def test_the_record_after_a_command(record: bool, told: power.Outcome, wanted: bool) -> None:
    assert after(record, told) is wanted


def test_after_a_lost_command_the_record_is_what_the_bmc_says() -> None:
    states = [outcome("status", before=state, attempts=0) for state in (ON, OFF, UNKNOWN)]
    assert [power_record.read(one) for one in states] == [True, False, None]
    assert power_record.doubts(states) == (
        "node3 reads on at its BMC, node3 reads off at its BMC, "
        "node3 reads unknown at its BMC, and what is recorded of its power may be wrong"
    )


@pytest.mark.parametrize(
    ("powered", "state", "wanted"),
    [
        (True, ON, ""),
        (False, OFF, ""),
        (True, OFF, "node3 is recorded as powered on, and reads off at its BMC: .* node modify node3 powered=no`"),
        (False, ON, "node3 is recorded as powered off, and reads on at its BMC: .* node modify node3 powered=yes`"),
        (True, UNKNOWN, "node3 is recorded as powered on, and its BMC does not report it: the BMC did not answer"),
    ],
)
def test_record_and_world_are_compared_and_the_way_to_mend_it_is_named(
    powered: bool, state: power.State, wanted: str
) -> None:
    told = outcome("status", before=state, attempts=0)
    assert re.fullmatch(wanted, power_record.difference("node3", powered=powered, outcome=told))


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (outcome("off", OFF), ""),
        (outcome("off", ON), "node3: accepted, but the node does not read off (not_off; it reads on)"),
        (outcome("on", UNKNOWN, before=OFF), "node3: the BMC did not answer (timeout; it reads unknown)"),
    ],
)
def test_what_is_not_confirmed_is_a_line_with_its_reason(told: power.Outcome, line: str) -> None:
    assert power_record.shortfall(told) == line


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
    foreseen = power_record.foresee(outcome("status", before=before, attempts=0), command=command)
    assert (foreseen.after, foreseen.confirmed, foreseen.sent) == (after, confirmed, False)


@pytest.mark.parametrize(
    ("command", "before", "seen", "foretold", "told"),
    [
        ("status", ON, [], "node3: on", "node3: on"),
        ("off", ON, [OFF], "node3: on, would be off", "node3: off, confirmed"),
        ("off", OFF, [], "node3: off, nothing to do", "node3: off, already off"),
        ("on", OFF, [ON], "node3: off, would be on", "node3: on, confirmed"),
        ("cycle", ON, [OFF, ON], "node3: on, would be off and on again", "node3: on, confirmed"),
        ("cycle", OFF, [], "node3: off, would not be done", "node3: off, not confirmed"),
        ("off", UNKNOWN, [], "node3: unknown, would not be done", "node3: unknown, not confirmed"),
    ],
)
def test_what_is_foretold_of_a_command_is_what_it_does(
    command: str, before: power.State, seen: list[power.State], foretold: str, told: str
) -> None:
    done = outcome(command, *seen, before=before, attempts=len(seen[:1]))
    seen_before = power_record.foresee(outcome("status", before=before, attempts=0), command=power.Command(command))
    assert (power_record.foretold(seen_before), power_record.told(done)) == (foretold, told)
    assert power_record.would_send(seen_before) is done.changed


def test_a_reading_that_is_not_the_expected_one_is_told() -> None:
    off = outcome("status", before=OFF, attempts=0)
    assert power_record.mismatch(off, expected="on") == (
        "node3 reads off at its BMC, and should be on: run `roundsman node power on node3` first"
    )
    assert power_record.mismatch(off, expected="off") == power_record.mismatch(off, expected="") == ""


def test_one_node_is_summed_up_by_name_and_several_by_number() -> None:
    found: list[Any] = [outcome("off", OFF), outcome("off", ON), outcome("off", OFF)]
    assert power_record.summary(found[:1]) == "node3 is off"
    assert power_record.summary(found) == "1 on, 2 off"


@pytest.mark.parametrize(
    ("command", "before", "after", "failure", "lives"),
    [
        (power.Command.STATUS, "on", None, None, True),
        (power.Command.STATUS, "off", None, None, False),
        (power.Command.FENCE, "on", "off", None, True),
        (power.Command.CONFIRM_OFF, "off", "off", None, False),
        (power.Command.CONFIRM_OFF, "off", "on", None, True),
        (power.Command.CONFIRM_OFF, "unknown", None, power.Failure(power.Reason.ANSWERS, "it answers"), True),
        (power.Command.STATUS, "unknown", None, power.Failure(power.Reason.TIMEOUT, "no answer"), False),
    ],
)
def test_a_bmc_that_reads_on_and_a_node_that_answers_are_signs_of_life(
    command: power.Command, before: str, after: str | None, failure: power.Failure | None, lives: bool
) -> None:
    seen = [] if after is None else [power.State(after)]
    found = power.judge(command, name="node1", before=power.State(before), seen=seen, seconds=0.0, failure=failure)
    assert power_record.lived(found) == lives
    silent = power.judge(
        command,
        name="node1",
        before=power.State(before),
        seen=[*seen, power.State.UNKNOWN],
        seconds=0.0,
        failure=failure,
    )
    assert power_record.lived(silent) == lives, "also where its BMC fell silent then"
