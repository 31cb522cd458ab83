"""How long an opcode waits for its locks before its priority grows (seed 004, "Job priorities"; Ganeti's times).

Ganeti withdraws its request after every attempt and loses its place. Here the request keeps its place in the lock queue
during all attempts of one priority; when they are used up, the opcode has waited as long as Ganeti's would have, is
back in the queue with a better priority, and begins anew. Ganeti's jitter of 5 % parts processes that poll at the same
moments: nothing polls here, so there is none.
"""

from __future__ import annotations

import dataclasses

from . import values

FIRST, SHORTEST, LONGEST = 5.0, 5.0, 75.0
TOGETHER = 10 * 3600 / 20
"""Seconds of one priority's attempts at the least: from 0 to -20 in ten hours."""


def attempt_times() -> tuple[float, ...]:
    """The time limits (seconds) of the attempts to get the locks at one priority, one after the other."""
    times = [FIRST]
    while sum(times) < TOGETHER:
        times.append(min(LONGEST, max(SHORTEST, (1.05 * times[-1]) ** 1.25)))
    return tuple(times)


PATIENCE = sum(attempt_times())


def patience(priority: int) -> float | None:
    """How long an opcode of a priority waits for its locks; without limit at the highest."""
    return None if priority <= values.HIGHEST else PATIENCE


def aged(job: values.Job, index: int) -> values.Job:
    """The job after the attempts of an opcode are used up: back in the queue, one step more urgent."""
    one = job.opcodes[index]
    better = max(values.HIGHEST, one.priority - 1)
    older = dataclasses.replace(
        one, status=values.Status.QUEUED, priority=better, aged=one.aged + one.priority - better
    )
    return job.with_opcode(index, older)
