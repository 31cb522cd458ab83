from __future__ import annotations

import itertools

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import connection_tries


@pytest.mark.parametrize(("at", "pauses"), [(1, 0), (2, 1), (3, 2)])
def test_a_node_is_reached_in_one_of_three_tries(at: int, pauses: int) -> None:
    looks, paused = itertools.count(1), list[float]()
    assert connection_tries.answers(lambda: next(looks) == at, pause=paused.append)
    assert paused == list(connection_tries.PAUSES[:pauses])


def test_a_node_that_never_answers_is_tried_three_times_with_growing_pauses() -> None:
    looks, paused = itertools.count(1), list[float]()
    assert not connection_tries.answers(lambda: next(looks) < 1, pause=paused.append)
    assert (next(looks), paused) == (connection_tries.TRIES + 1, sorted(connection_tries.PAUSES))


def test_the_number_of_tries_is_told_once() -> None:
    assert connection_tries.told("no route") == "no route (3 tries)"
    assert connection_tries.told("silent in 3 tries") == "silent in 3 tries"
