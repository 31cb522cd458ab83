from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import turns
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Move
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import moving, schedules

from . import tables

TABLE = """
node1 16384 100000
node2 16384 100000
node3 16384 100000
instance1 drbd 1000 5000 node1 node2
instance2 drbd 2000 7000 node1 node2 down
instance3 rbd 4000 9000 node3
settings moves_per_node=1
"""


def test_a_turn_begins_when_the_last_of_those_it_waits_for_has_ended() -> None:
    cluster = tables.read(TABLE)
    moves = [Move("instance1", ("f", "r:node3")), Move("instance2", ("f",)), Move("instance3", ("f:node2",))]
    first, second, third = schedules.expected(cluster, moves, moving.Jobs(cluster).make_all(moves))
    assert (first.mib, second.mib, third.mib) == (6000, 0, 4000)
    assert first.seconds == pytest.approx(6000 / turns.RATE + 2 * turns.OVERHEAD)
    assert (first.wave, second.wave, third.wave) == (0, 1, 2)
    assert (first.start, second.start) == (0, first.seconds)
    assert third.start == pytest.approx(first.seconds + second.seconds)


def test_what_is_failed_over_copies_nothing() -> None:
    cluster = tables.read(TABLE)
    moves = [Move("instance1", ("f",))]
    jobs = moving.Jobs(cluster, failover=True).make_all(moves)
    assert [turn.mib for turn in schedules.expected(cluster, moves, jobs)] == [0]
