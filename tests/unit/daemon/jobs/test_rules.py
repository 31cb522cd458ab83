from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import rules, submission, values
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit.daemon import twins
from tests.unit.plugins.plugin_utils.rounds import tables

if TYPE_CHECKING:
    from typing import Any

S = values.Status


def job(number: int, *depends: values.Dependency, status: values.Status = S.QUEUED) -> values.Job:
    return values.Job(number, (values.Opcode("test", {}, status=status, text="why"),), depends)


def judge(status: values.Status, *accepted: values.Status) -> rules.Decision:
    return rules.judge_dependencies(job(2, values.Dependency(1, accepted)), {1: job(1, status=status)}.get)


@pytest.mark.parametrize(
    ("kind", "params", "is_held"),
    [
        ("power", {"node": "node2", "command": "fence"}, True),
        ("power", {"node": "node2", "command": "confirm_off"}, True),
        ("remove_replica", {"instance": "i1", "node": "node2"}, True),
        ("failover", {"instance": "i1", "source": "node1", "target": "node2"}, True),
        ("outdate_replica", {"instance": "i1", "node": "node2"}, False),
    ],
)
def test_an_emergency_power_off_holds_what_maintenance_submits_but_for_outdating(
    kind: str, params: dict[str, Any], is_held: bool
) -> None:
    cluster = tables.read("node1 8 8")
    cluster = changes.apply_all(cluster, [changes.EpoStands((), (), by="me", returning=False)], now=0.0)
    reason = (values.Reason(submission.ROUNDS, "why", 1),)
    held = dataclasses.replace(twins.job(1, values.Opcode(kind, params)), reason=reason)
    decision = rules.decide(held, rules.filters(cluster), lambda _number: None)
    assert (decision.held_by is rules.EMERGENCY) == is_held


@pytest.mark.parametrize(
    ("kind", "params", "lane"),
    [
        ("power", {"node": "n", "command": "status"}, rules.Lane.URGENT),
        ("power", {"node": "n", "command": "fence"}, rules.Lane.URGENT),
        ("power", {"node": "n", "command": "confirm_off"}, rules.Lane.URGENT),
        ("power", {"nodes": ["n", "m"], "command": "on", "delay": 2.0}, rules.Lane.SLOT),
        ("outdate_replica", {"instance": "i", "node": "n"}, rules.Lane.URGENT),
        ("replace_disks", {"instance": "i", "old": "n", "new": "m"}, rules.Lane.SLOT),
        ("failover", {"instance": "i", "source": "n", "target": "m"}, rules.Lane.URGENT),
        ("node_role", {"node": "n", "drained": True}, rules.Lane.DAEMON),
    ],
)
def test_what_is_short_and_urgent_does_not_share_its_slots_with_what_takes_hours(
    kind: str, params: dict[str, Any], lane: rules.Lane
) -> None:
    assert rules.lane(twins.job(1, values.Opcode(kind, params))) is lane


@pytest.mark.parametrize("status", sorted(values.FINAL, key=str))
def test_without_accepted_statuses_any_end_is_accepted(status: values.Status) -> None:
    assert judge(status) == rules.Decision()


@pytest.mark.parametrize("status", [S.QUEUED, S.WAITING, S.RUNNING])
def test_a_job_waits_for_one_that_has_not_ended(status: values.Status) -> None:
    assert judge(status, S.SUCCESS).waits_for == 1


def test_one_that_was_canceled_cancels_and_another_end_is_an_error() -> None:
    assert judge(S.CANCELED, S.SUCCESS).ends is S.CANCELED
    assert judge(S.ERROR, S.SUCCESS).ends is S.ERROR
    assert judge(S.SUCCESS, S.ERROR).ends is S.ERROR
    assert judge(S.CANCELED, S.CANCELED, S.ERROR) == rules.Decision()


def test_one_whose_file_was_damaged_gives_its_reason() -> None:
    lost = values.unreadable(1, "its file was damaged", status=S.ERROR)
    found = rules.judge_dependencies(job(2, values.Dependency(1)), {1: lost}.get)
    assert found.ends is S.ERROR
    assert found.text == "it depends on job 1, which ended in error: its file was damaged"


def test_a_job_that_has_begun_depends_on_nothing() -> None:
    begun = job(2, values.Dependency(1), status=S.RUNNING)
    assert rules.judge_dependencies(begun, lambda _: None) == rules.Decision()


def test_the_attempts_at_one_priority_are_those_of_ganeti() -> None:
    times = rules.attempt_times()
    assert [round(one, 2) for one in times[:6]] == [5, 7.95, 14.18, 29.25, 72.31, 75]
    assert len(times) == 28
    assert round(rules.PATIENCE, 1) == 1853.7


def test_from_normal_to_the_highest_priority_it_takes_ten_hours() -> None:
    assert 10 * 3600 <= 20 * rules.PATIENCE <= 10.5 * 3600
    assert rules.patience(-19) == rules.PATIENCE
    assert rules.patience(-20) is None


@pytest.mark.parametrize(("before", "after", "aged"), [(0, -1, 1), (-19, -20, 1), (-20, -20, 0)])
def test_a_step_of_age_keeps_what_was_asked_for(before: int, after: int, aged: int) -> None:
    waiting = values.Opcode("test", {}, before, values.Status.WAITING)
    older = rules.aged(values.Job(1, (waiting, waiting)), 0)
    assert (older.opcodes[0].priority, older.opcodes[0].aged) == (after, aged)
    assert older.opcodes[0].priority + older.opcodes[0].aged == before
    assert older.opcodes[0].status is values.Status.QUEUED
    assert older.opcodes[1] == waiting
