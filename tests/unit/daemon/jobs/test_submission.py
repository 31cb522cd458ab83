from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors


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
