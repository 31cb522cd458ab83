"""The engine against racks of BMCs that are well, ill, or behind a bad network, as seeds throw them."""

from __future__ import annotations

import asyncio
import functools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, wire
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import ipmi

from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import Mapping

ON, OFF, CYCLE = power.Command.ON, power.Command.OFF, power.Command.CYCLE
BMCS, SEEDS = 24, 24
DEADLINE = 30.0
NO_SUITE, WRONG_PASSWORD = "no suite", "wrong password"
CHASSIS_ILLS = (chassis.DEAD, chassis.STUBBORN, chassis.BUSY, chassis.REFUSING, chassis.MUTE, chassis.SLOW)
ILLS = (*CHASSIS_ILLS, NO_SUITE, WRONG_PASSWORD)
# What may be said of an ill BMC whose command is not confirmed: a bad network can hide any of them, and a BMC that
# never heard the end of its only session has no room for another.
REASONS: Mapping[str, set[str]] = {
    chassis.DEAD: {"timeout"},
    chassis.STUBBORN: {"not_off", "not_on", "unconfirmed", "timeout", "busy"},
    chassis.BUSY: {"busy", "timeout"},
    chassis.REFUSING: {"refused", "timeout", "busy"},
    NO_SUITE: {"cipher", "timeout"},
    WRONG_PASSWORD: {"auth", "timeout", "busy"},
}
CURABLE = {None, chassis.MUTE, chassis.SLOW}
"""A BMC with none of the other ills does what it is told, so that the command can be confirmed."""


@dataclass(frozen=True)
class Case:
    """One BMC: what ails it, what it is at first, what came of the command, and how often one came."""

    ill: str | None
    was_on: bool
    outcome: power.Outcome
    history: list[bool]
    sent: int


@dataclass(frozen=True)
class Chaos:
    """One rack: its cases, how bad the network was, and how many seconds the whole took."""

    command: power.Command
    cases: list[Case]
    conditions: wire.Conditions
    seconds: float


@functools.lru_cache(maxsize=None)
def thrown(seed: int) -> Chaos:
    return throw(seed)


def throw(seed: int) -> Chaos:
    chance = random.Random(seed)
    command = chance.choice((ON, OFF, CYCLE))
    conditions = wire.Conditions(
        delay=chance.choice((0.001, 0.05, 0.4)),
        jitter=chance.choice((0.0, 0.1, 0.5)),
        loss=chance.choice((0.0, 0.02, 0.1)),
        doubling=chance.choice((0.0, 0.1, 0.5)),
        seed=seed,
    )
    options = {"sessions": chance.choice((1, 2, 4, 32)), "slow_time": chance.uniform(0.5, 6.0), "off_time": 2.0}
    rolls = [(chance.choice((None, None, *ILLS)), chance.random() < 0.8) for _ in range(BMCS)]

    async def work() -> Chaos:
        with virtual.rack(conditions=conditions, **options) as rack:
            targets, nodes = [], []
            for number, (ill, is_on) in enumerate(rolls):
                address = f"127.9.0.{number + 1}"
                faults = [one for one in CHASSIS_ILLS if one == ill]
                nodes.append(rack.add(address, *faults, on=is_on, suites=() if ill == NO_SUITE else (3, 17)))
                password = "wrong" if ill == WRONG_PASSWORD else virtual.PASSWORD
                targets.append(rack.target(address, password=password))
            began = rack.loop.time()
            outcomes = await ipmi.serve(targets, command=command, deadline=DEADLINE)
            seconds = rack.loop.time() - began
            await asyncio.sleep(60.0)
            control = bytes((ipmi.CONTROLS[command],))
            cases = [
                Case(ill, is_on, outcome, node.history, rack.commands.count((outcome.name, 0x00, 0x02, control)))
                for (ill, is_on), outcome, node in zip(rolls, outcomes, nodes, strict=True)
            ]
            return Chaos(command, cases, conditions, seconds)

    return virtual.run(work())


@pytest.fixture(params=range(SEEDS))
def chaos(request: pytest.FixtureRequest) -> Chaos:
    return thrown(request.param)


def test_whatever_happens_the_outcomes_are_true(chaos: Chaos) -> None:
    assert chaos.seconds <= DEADLINE + 0.01
    for case in chaos.cases:
        outcome = case.outcome
        assert outcome.seconds <= DEADLINE, case
        assert (outcome.reason is None) is outcome.confirmed, case
        assert outcome.sent >= bool(case.sent), case
        if outcome.confirmed:
            assert case.ill in CURABLE or not outcome.sent, case
            _check_confirmed(case, chaos.command)
        elif case.ill is not None and case.ill in REASONS:
            assert outcome.reason in REASONS[case.ill] | _objections(case, chaos.command), case


def test_no_cycle_is_sent_twice_and_no_node_is_cycled_twice(chaos: Chaos) -> None:
    for case in chaos.cases:
        if chaos.command is CYCLE:
            assert case.sent <= case.outcome.attempts <= 1, case
            assert case.history in ([], [False, True]), case
        else:
            assert set(case.history) <= {chaos.command is ON}, case


def test_every_bmc_that_can_be_confirmed_is(chaos: Chaos) -> None:
    """A cycle that was lost or not seen is the exception; it must not be repeated."""
    for case in chaos.cases:
        if case.ill not in CURABLE or chaos.command is CYCLE:
            continue
        assert case.outcome.confirmed, (case, chaos.conditions)


def test_the_seeds_throw_every_ill_every_command_and_bad_networks() -> None:
    all_of_it = [thrown(seed) for seed in range(SEEDS)]
    assert {one.command for one in all_of_it} == {ON, OFF, CYCLE}
    assert {case.ill for one in all_of_it for case in one.cases} == {None, *ILLS}
    assert {one.conditions.loss for one in all_of_it} == {0.0, 0.02, 0.1}
    assert {case.outcome.reason for one in all_of_it for case in one.cases} >= {
        "timeout",
        "busy",
        "auth",
        "cipher",
        "not_off",
    }


def test_the_same_seed_is_the_same_chaos() -> None:
    first, second = thrown(3), throw(3)
    assert [case.outcome for case in first.cases] == [case.outcome for case in second.cases]


def _check_confirmed(case: Case, command: power.Command) -> None:
    ends_on = case.history[-1] if case.history else case.was_on
    if command is CYCLE:
        assert case.history == [False, True], case
    else:
        assert ends_on is (command is ON), case


def _objections(case: Case, command: power.Command) -> set[str]:
    """A node that is off is not cycled."""
    return {"refused"} if command is CYCLE and not case.was_on else set()
