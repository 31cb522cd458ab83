from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import dependencies, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors

S = values.Status


def job(number: int, *depends: values.Dependency, status: values.Status = S.QUEUED) -> values.Job:
    return values.Job(number, (values.Opcode("test", {}, status=status, text="why"),), depends)


def judge(status: values.Status, *accepted: values.Status) -> dependencies.Judgement:
    return dependencies.judge(job(2, values.Dependency(1, accepted)), {1: job(1, status=status)}.get)


@pytest.mark.parametrize("status", sorted(values.FINAL, key=str))
def test_without_accepted_statuses_any_end_is_accepted(status: values.Status) -> None:
    assert judge(status) == dependencies.Judgement()


@pytest.mark.parametrize("status", [S.QUEUED, S.WAITING, S.RUNNING])
def test_a_job_waits_for_one_that_has_not_ended(status: values.Status) -> None:
    assert judge(status, S.SUCCESS).waits_for == 1


def test_one_that_was_canceled_cancels_and_another_end_is_an_error() -> None:
    assert judge(S.CANCELED, S.SUCCESS).ends is S.CANCELED
    assert judge(S.ERROR, S.SUCCESS).ends is S.ERROR
    assert judge(S.SUCCESS, S.ERROR).ends is S.ERROR
    assert judge(S.CANCELED, S.CANCELED, S.ERROR) == dependencies.Judgement()


def test_one_whose_file_was_damaged_gives_its_reason() -> None:
    lost = values.unreadable(1, "its file was damaged", status=S.ERROR)
    found = dependencies.judge(job(2, values.Dependency(1)), {1: lost}.get)
    assert found.ends is S.ERROR
    assert found.text == "it depends on job 1, which ended in error: its file was damaged"


def test_a_job_that_has_begun_depends_on_nothing() -> None:
    begun = job(2, values.Dependency(1), status=S.RUNNING)
    assert dependencies.judge(begun, lambda _: None) == dependencies.Judgement()


def test_negative_numbers_name_jobs_of_the_same_submission() -> None:
    found = dependencies.resolved([job(7), job(8, values.Dependency(-1)), job(9, values.Dependency(-2))])
    assert [one.depends[0].job for one in found[1:]] == [7, 7]


@pytest.mark.parametrize("number", [-1, 0, 7, 9])
def test_a_dependency_on_no_earlier_job_is_refused(number: int) -> None:
    with pytest.raises(errors.InvalidInput, match=f"dependency {number}"):
        dependencies.resolved([job(7, values.Dependency(number))])


def test_a_status_that_no_job_ends_in_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="no job ends as running"):
        dependencies.resolved([job(7, values.Dependency(1, (S.RUNNING,)))])
