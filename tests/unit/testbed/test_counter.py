from __future__ import annotations

import pytest

from tests.testbed import counter


def lines(*counts: int) -> bytes:
    return b"".join(b"00000001:%08X\r\n" % count for count in counts)


@pytest.mark.parametrize("at", range(1, len(lines(1))))
def test_a_line_that_a_live_migration_parted_is_told(at: int) -> None:
    parted = lines(3)
    here, there = lines(1, 2) + parted[:at], parted[at:] + lines(4, 5)
    counter.check(counter.told_by_all([here, there]))
    counter.check(counter.told_by_all([there, here]))


def test_a_line_that_nobody_told_stays_missing() -> None:
    with pytest.raises(counter.Wrong, match="count=2"):
        counter.check(counter.told_by_all([lines(1, 2), lines(4)]))


def test_one_that_ran_twice_tells_a_count_twice() -> None:
    with pytest.raises(counter.Wrong, match="count=2"):
        counter.check(counter.told_by_all([lines(1, 2), lines(2, 3)]))
