from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import ageing, values


def test_the_attempts_at_one_priority_are_those_of_ganeti() -> None:
    times = ageing.attempt_times()
    assert [round(one, 2) for one in times[:6]] == [5, 7.95, 14.18, 29.25, 72.31, 75]
    assert len(times) == 28
    assert round(ageing.PATIENCE, 1) == 1853.7


def test_from_normal_to_the_highest_priority_it_takes_ten_hours() -> None:
    assert 10 * 3600 <= 20 * ageing.PATIENCE <= 10.5 * 3600
    assert ageing.patience(-19) == ageing.PATIENCE
    assert ageing.patience(-20) is None


@pytest.mark.parametrize(("before", "after", "aged"), [(0, -1, 1), (-19, -20, 1), (-20, -20, 0)])
def test_a_step_of_age_keeps_what_was_asked_for(before: int, after: int, aged: int) -> None:
    waiting = values.Opcode("test", {}, before, values.Status.WAITING)
    job = ageing.aged(values.Job(1, (waiting, waiting)), 0)
    assert (job.opcodes[0].priority, job.opcodes[0].aged) == (after, aged)
    assert job.opcodes[0].priority + job.opcodes[0].aged == before
    assert job.opcodes[0].status is values.Status.QUEUED
    assert job.opcodes[1] == waiting
