from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors


def job(number: int, *depends: values.Dependency) -> values.Job:
    return values.Job(number, (values.Opcode("test", {}),), depends)


def test_negative_numbers_name_jobs_of_the_same_submission() -> None:
    found = submission.resolved([job(7), job(8, values.Dependency(-1)), job(9, values.Dependency(-2))])
    assert [one.depends[0].job for one in found[1:]] == [7, 7]


@pytest.mark.parametrize("number", [-1, 0, 7, 9])
def test_a_dependency_on_no_earlier_job_is_refused(number: int) -> None:
    with pytest.raises(errors.InvalidInput, match=f"dependency {number}"):
        submission.resolved([job(7, values.Dependency(number))])


def test_a_status_that_no_job_ends_in_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="no job ends as running"):
        submission.resolved([job(7, values.Dependency(1, (values.Status.RUNNING,)))])


def test_of_an_unfinished_job_rounds_are_told_what_is_left_of_its_moves_and_for_which_incident() -> None:
    steps = [values.Opcode(kind, {"instance": "i"}) for kind in ("replace_disks", "migrate", "node_role")]
    done = dataclasses.replace(steps[0], status=values.Status.SUCCESS)
    runs = dataclasses.replace(steps[1], status=values.Status.RUNNING)
    trail = tuple(values.Reason(submission.ROUNDS, text, 1) for text in ("evacuating node1", "a1"))
    unfinished = values.Job(7, (done, runs, steps[2]), (values.Dependency(3),), trail)
    by_hand = values.Job(8, (steps[1],))
    over = values.Job(9, (done,))
    other = values.Job(10, (steps[2],))
    first, second = submission.unfinished_moves([unfinished, by_hand, over, other])
    assert (first.number, [opcode.kind for opcode in first.opcodes]) == (7, ["migrate"])
    assert (first.depends, first.incident, first.is_running) == ((3,), "a1", True)
    assert (second.number, second.incident, second.is_running) == (8, None, False)
