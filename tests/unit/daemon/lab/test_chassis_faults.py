"""What each fault of a simulated BMC does to chassis control and status."""

from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis

from tests.unit.daemon.lab.desk import ADDRESS, Desk

STATUS, CONTROL = (0x00, 0x01), (0x00, 0x02)
OFF, ON, CYCLE, RESET, SOFT_OFF = b"\x00", b"\x01", b"\x02", b"\x03", b"\x05"
DONE = (0x00, b"")


@pytest.mark.parametrize(("control", "history"), [(OFF, [False]), (SOFT_OFF, [False]), (ON, [True]), (RESET, [])])
def test_a_chassis_that_is_well_follows_at_once(control: bytes, history: list[bool]) -> None:
    desk = Desk()
    assert desk.log_in().ask(*CONTROL, control) == DONE
    assert desk.node.history == history


def test_a_cycle_is_off_for_a_while_and_on_again() -> None:
    desk = Desk(off_time=2.0)
    assert desk.log_in().ask(*CONTROL, CYCLE) == DONE
    desk.pass_time(1.9)
    assert not desk.node.powered()
    desk.pass_time(0.2)
    assert desk.node.history == [False, True]


@pytest.mark.parametrize("control", [CYCLE, RESET])
def test_a_chassis_that_is_off_is_not_restarted(control: bytes) -> None:
    desk = Desk()
    desk.node.set_power(False)
    assert desk.log_in().ask(*CONTROL, control) == (0xD5, b"")
    assert desk.node.history == [False]


@pytest.mark.parametrize("control", [OFF, ON, CYCLE, RESET, SOFT_OFF])
def test_a_stubborn_chassis_accepts_and_never_changes(control: bytes) -> None:
    desk = Desk(chassis.STUBBORN)
    assert desk.log_in().ask(*CONTROL, control) == DONE
    desk.pass_time(3600)
    assert desk.node.history == []


def test_a_busy_bmc_refuses_control_with_c0_and_still_tells_the_state() -> None:
    desk = Desk(chassis.BUSY)
    line = desk.log_in()
    assert line.ask(*CONTROL, OFF) == (0xC0, b"")
    assert line.get(*STATUS)[0] & 1
    assert desk.node.history == []


@pytest.mark.parametrize("control", [OFF, ON, CYCLE, RESET, SOFT_OFF])
def test_a_refusing_bmc_refuses_control_with_d6_and_still_tells_the_state(control: bytes) -> None:
    desk = Desk(chassis.REFUSING)
    line = desk.log_in()
    assert line.ask(*CONTROL, control) == (0xD6, b"")
    assert line.get(*STATUS)[0] & 1
    assert desk.node.history == []


def test_a_mute_bmc_carries_control_out_without_an_answer() -> None:
    desk = Desk(chassis.MUTE)
    assert desk.log_in().ask(*CONTROL, OFF) is None
    assert desk.node.history == [False]


def test_a_slow_chassis_follows_after_its_time() -> None:
    desk = Desk(chassis.SLOW, slow_time=7.0)
    line = desk.log_in()
    assert line.ask(*CONTROL, OFF) == DONE
    desk.pass_time(6.9)
    assert line.get(*STATUS)[0] & 1
    desk.pass_time(0.2)
    assert not line.get(*STATUS)[0] & 1


def test_a_lying_bmc_tells_the_opposite() -> None:
    desk = Desk(chassis.LYING)
    line = desk.log_in()
    assert not line.get(*STATUS)[0] & 1
    line.get(*CONTROL, OFF)
    assert line.get(*STATUS)[0] & 1


def test_a_dead_bmc_is_silent_to_a_session_that_stands() -> None:
    desk = Desk()
    line = desk.log_in()
    desk.node.break_with(chassis.DEAD)
    assert line.ask(*CONTROL, OFF) is None
    assert desk.node.history == []


def test_a_changing_bmc_tells_the_truth_and_its_opposite_in_turn() -> None:
    line = Desk(chassis.CHANGING).log_in()
    assert [line.get(*STATUS)[0] & 1 for _ in range(4)] == [1, 0, 1, 0]


@pytest.mark.parametrize(("is_on", "vain", "works"), [(True, ON, OFF), (False, OFF, ON)])
def test_a_strict_bmc_answers_what_is_so_already_with_an_error(is_on: bool, vain: bytes, works: bytes) -> None:
    desk = Desk(chassis.STRICT)
    if not is_on:
        desk.node.set_power(False)
    line = desk.log_in()
    assert line.ask(*CONTROL, vain) == (0xD5, b"")
    assert line.ask(*CONTROL, works) == DONE


def test_a_stale_off_is_told_until_a_control_arrives() -> None:
    desk = Desk(chassis.STALE_OFF)
    line = desk.log_in()
    assert [line.get(*STATUS)[0] & 1 for _ in range(2)] == [0, 0]
    line.get(*CONTROL, ON)
    assert line.get(*STATUS)[0] & 1
    line.get(*CONTROL, OFF)
    assert not line.get(*STATUS)[0] & 1
    assert desk.node.history == [True, False]
    desk.node.break_with()
    line.get(*CONTROL, ON)
    line.get(*STATUS)
    desk.node.break_with(chassis.STALE_OFF)
    assert not line.get(*STATUS)[0] & 1, "it came back"


def test_a_bmc_that_restarts_reads_off_and_is_busy_once() -> None:
    desk = Desk(chassis.RESTARTING)
    line = desk.log_in()
    assert not line.get(*STATUS)[0] & 1
    assert line.ask(*CONTROL, OFF) == (0xC0, b"")
    assert line.get(*STATUS)[0] & 1
    assert desk.node.history == []
    assert line.ask(*CONTROL, OFF) == DONE
    assert not line.get(*STATUS)[0] & 1


@pytest.mark.parametrize(
    ("faults", "seconds"), [((), 0.0), ((chassis.LATE,), chassis.LATE_SECONDS), (("late=31.5", "slow"), 31.5)]
)
def test_a_late_bmc_answers_as_late_as_it_is_told_to(faults: tuple[str, ...], seconds: float) -> None:
    desk = Desk(*faults)
    assert desk.simulator.lateness(ADDRESS) == seconds
    assert desk.simulator.lateness("127.0.0.9") == 0.0
