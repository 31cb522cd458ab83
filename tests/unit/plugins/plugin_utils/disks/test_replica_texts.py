"""Texts for people about replicas."""

from __future__ import annotations

import math

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks import replica_texts


def test_a_time_is_told_in_the_calendar() -> None:
    assert replica_texts.clock(1_700_000_000.5) == "2023-11-14 22:13:20 UTC"


@pytest.mark.parametrize("wall", [1.7e12, -1e12, 2.0**53, 1e300, math.inf, math.nan])
def test_a_time_that_no_calendar_has_is_told_all_the_same(wall: float) -> None:
    """In an imported document, such as one in milliseconds, it ended the daemon at each start."""
    assert replica_texts.clock(wall).endswith(" s since 1970")
