"""What a job waits for, and what becomes of it when that ended in another way than it accepts (seed 003)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import errors
from . import values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True)
class Judgement:
    """A job may start (the default), waits for the end of another, or ends itself with a status and a text."""

    waits_for: int | None = None
    ends: values.Status | None = None
    text: str = ""


def judge(job: values.Job, find: Callable[[int], values.Job | None]) -> Judgement:
    """Look at the jobs that a job depends on, in their order; a job that has begun depends on nothing any more."""
    if job.has_begun:
        return Judgement()
    for dependency in job.depends:
        other = find(dependency.job)
        if other is None:
            text = f"it depends on job {dependency.job}, which is not there"
            return Judgement(ends=values.Status.ERROR, text=text)
        if not other.is_final:
            return Judgement(waits_for=other.id)
        if not dependency.statuses or other.status in dependency.statuses:
            continue
        if other.status is values.Status.CANCELED:
            return Judgement(ends=values.Status.CANCELED, text=f"canceled: job {other.id} was canceled")
        text = f"it depends on job {other.id}, which ended in {other.status.value}"
        if other.is_unreadable:
            text += f": {other.text}"
        return Judgement(ends=values.Status.ERROR, text=text)
    return Judgement()


def resolved(jobs: Sequence[values.Job]) -> list[values.Job]:
    """The jobs of one submission, their relative dependencies turned into numbers.

    Raises:
        InvalidInput: a relative dependency names no job before its own, an absolute one the job itself or a later one,
            or an accepted status is not final.
    """
    return [
        dataclasses.replace(job, depends=tuple(_resolved(one, jobs, index) for one in job.depends))
        for index, job in enumerate(jobs)
    ]


def _resolved(one: values.Dependency, jobs: Sequence[values.Job], index: int) -> values.Dependency:
    job = jobs[index]
    unfinal = [status.value for status in one.statuses if status not in values.FINAL]
    if unfinal:
        raise errors.InvalidInput(f"job {job.id}: no job ends as {unfinal[0]}")
    if one.job < 0:
        if index + one.job < 0:
            raise errors.InvalidInput(f"job {job.id}: dependency {one.job}: there are only {index} jobs before it")
        return dataclasses.replace(one, job=jobs[index + one.job].id)
    if one.job == 0 or one.job >= job.id:
        raise errors.InvalidInput(f"job {job.id}: dependency {one.job}: it is not an earlier job")
    return one
