"""A failing case made small: fewer steps, then fewer faults, as long as it still fails."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.case import Case, Step


def shrink(case: Case, fails: Callable[[Case], bool], *, most: int = 200) -> Case:
    """The smallest case that was found to fail in at most so many tries; the case itself fails."""
    left = [most]

    def still_fails(smaller: Case) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(smaller)

    case = _fewer_steps(case, still_fails)
    for fault in list(case.faults):
        smaller = case.without_fault(fault)
        if still_fails(smaller):
            case = smaller
    return _fewer_steps(case, still_fails)


def _fewer_steps(case: Case, fails: Callable[[Case], bool]) -> Case:
    size = max(1, len(case.steps) // 2)
    while size:
        begin = 0
        while begin < len(case.steps):
            smaller = dataclasses.replace(case, steps=_without(case.steps, begin, size))
            if fails(smaller):
                case = smaller
            else:
                begin += size
        size //= 2
    return case


def _without(steps: Sequence[Step], begin: int, size: int) -> tuple[Step, ...]:
    return (*steps[:begin], *steps[begin + size :])
