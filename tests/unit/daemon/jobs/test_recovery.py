"""The table of `recovery.py`, a test for each of its rows."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import recovery, values
from ansible_collections.roundsman.cluster.daemon.jobs.recovery import Result, Step, Traces
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes.contract import Execution

RUNNING = values.Status.RUNNING
EVERYTHING = [
    Traces(is_alive, has_begun, result)
    for is_alive, has_begun, result in itertools.product((False, True), (False, True), Result)
]


@pytest.mark.parametrize("execution", Execution)
@pytest.mark.parametrize("status", sorted(set(values.Status) - {RUNNING} - values.FINAL, key=str))
def test_an_opcode_that_is_not_recorded_as_running_is_started(execution: Execution, status: values.Status) -> None:
    assert {recovery.recover(left, status=status, execution=execution) for left in EVERYTHING} == {Step.START}


@pytest.mark.parametrize("execution", sorted(set(Execution) - {Execution.PLAY}, key=str))
def test_an_opcode_that_is_executed_in_the_daemon_is_repeated(execution: Execution) -> None:
    assert recovery.recover(execution=execution) is Step.REPEAT
    assert recovery.recover(execution=execution, is_canceling=True) is Step.REPEAT


def test_a_run_whose_livelock_is_held_is_adopted_whatever_else_it_has_left() -> None:
    alive = [left for left in EVERYTHING if left.is_alive]
    assert {recovery.recover(left, is_canceling=canceling) for left in alive for canceling in (False, True)} == {
        Step.ADOPT
    }


def test_a_run_with_a_result_is_settled() -> None:
    assert recovery.recover(Traces(has_begun=True, result=Result.READABLE)) is Step.SETTLE
    assert recovery.recover(Traces(has_begun=True, result=Result.READABLE), is_canceling=True) is Step.SETTLE


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_run_with_a_damaged_result_is_lost(*, has_begun: bool) -> None:
    assert recovery.recover(Traces(has_begun=has_begun, result=Result.DAMAGED)) is Step.LOSE


def test_a_run_that_began_and_left_no_result_is_lost() -> None:
    assert recovery.recover(Traces(has_begun=True)) is Step.LOSE
    assert recovery.recover(Traces(has_begun=True), is_canceling=True) is Step.LOSE


def test_a_run_that_never_began_is_started() -> None:
    assert recovery.recover() is Step.START


def test_a_run_that_never_began_and_is_canceled_ends() -> None:
    assert recovery.recover(is_canceling=True) is Step.END
