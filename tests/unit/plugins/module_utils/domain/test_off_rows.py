"""Since when a node is off: the table of what its BMC says, one reading after the other."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import off_rows, power

ON, OFF, UNKNOWN = power.State.ON, power.State.OFF, power.State.UNKNOWN
Reading = tuple[float, power.State, float]
"""When it came, what it said, and the node's last sign of life on record then."""


def off_for(readings: list[Reading], *, now: float, alive_at: float = 0.0) -> float | None:
    row: off_rows.Row | None = None
    for at, state, lived in readings:
        row = off_rows.follow(row, state, at=at, alive_at=lived)
    return off_rows.age(row, at=now, alive_at=alive_at) if row is not None else None


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([], None),
        ([(0.0, OFF, 0.0)], 30.0),
        ([(0.0, OFF, 0.0), (10.0, OFF, 0.0), (20.0, OFF, 0.0)], 30.0),
        ([(0.0, OFF, 0.0), (10.0, ON, 0.0), (20.0, OFF, 0.0)], 10.0),
        ([(0.0, OFF, 0.0), (10.0, UNKNOWN, 0.0), (20.0, OFF, 0.0)], 10.0),
        ([(0.0, OFF, 0.0), (10.0, OFF, 0.0), (20.0, ON, 0.0)], None),
        ([(0.0, OFF, 0.0), (20.0, UNKNOWN, 0.0)], None),
        ([(0.0, ON, 0.0), (5.0, OFF, 0.0)], 25.0),
        ([(-25.0, OFF, 0.0), (5.0, OFF, 0.0)], 55.0),
        ([(-26.0, OFF, 0.0), (5.0, OFF, 0.0)], 25.0),
        ([(0.0, OFF, 0.0), (-5.0, OFF, 0.0)], None),
        ([(-1.0, OFF, 0.0)], None),
        ([(0.0, OFF, 7.0)], None),
        ([(0.0, OFF, 7.0), (10.0, OFF, 0.0)], 20.0),
    ],
)
def test_the_row_of_readings(readings: list[Reading], expected: float | None) -> None:
    assert off_for(readings, now=30.0) == expected


@pytest.mark.parametrize(
    ("began", "expected"),
    [(None, 0.0), (10.0, 95.0), (4.0, 95.0), (35.0, 95.0), (36.0, 0.0), (100.0, 0.0)],
)
def test_a_job_that_reads_off_leaves_no_gap_however_long_it_takes(began: float | None, expected: float) -> None:
    """Until a minute after it began: a helper program of a BMC has its minute. The last reading before came at 5."""
    row = off_rows.follow(off_rows.Row(5.0, 5.0, 0.0), OFF, at=100.0, alive_at=0.0, began=began)
    assert row is not None
    assert off_rows.age(row, at=100.0, alive_at=0.0) == expected
    ended = off_rows.follow(off_rows.Row(5.0, 5.0, 0.0), ON, at=100.0, alive_at=0.0, began=began)
    assert ended is None, "it read on meanwhile"


def test_only_off_after_off_is_a_row_whatever_came_before() -> None:
    """Independent of the code: walk back from the last reading for as long as it says off."""
    for states in itertools.product(power.State, repeat=5):
        readings = [(10.0 * number, state, 0.0) for number, state in enumerate(states)]
        offs = len(list(itertools.takewhile(lambda state: state is OFF, reversed(states))))
        expected = 10.0 * (offs - 1) if offs else None
        assert off_for(readings, now=40.0) == expected, states
