from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation.allocator import Scope
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import departures, moving

from . import tables, worlds

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Plan

TABLE = """
node1 16384 100000
node2 16384 100000
node3 16384 100000
node4 16384 100000
instance1 drbd 1024 1000 node1 node2
instance2 drbd 1024 1000 node2 node1
instance3 drbd 1024 1000 node3 node1
instance4 rbd 1024 1000 node2
"""


def _moves(plan: Plan) -> dict[str, str]:
    return {move.instance: move.action for move in plan.moves}


def test_nodes_that_leave_together_are_no_targets_for_each_other() -> None:
    cluster = tables.read(TABLE)
    plan = departures.of_nodes(cluster, ["node1", "node2"])
    assert plan.refusals == ()
    assert {move.instance for move in plan.moves} == {"instance1", "instance2", "instance3", "instance4"}
    for nodes in moving.ends(cluster, plan.moves):
        assert {"node1", "node2"}.isdisjoint(nodes)


def test_a_refusal_says_that_another_node_of_the_plan_is_left_too() -> None:
    two = TABLE.replace("node3 16384 100000", "node3 512 100000").replace("node4 16384 100000", "node4 512 100000")
    plan = departures.of_nodes(tables.read(two), ["node1", "node2"])
    (reason,) = [one.reason for one in plan.refusals if one.subject == "instance1"]
    assert reason.startswith("its secondary node2 is left in the same plan, and no node has 1024 MiB free")


def test_what_has_both_nodes_among_them_gets_two_others_by_one_job() -> None:
    plan = departures.of_nodes(tables.read(TABLE), ["node2", "node1"])
    moves = _moves(plan)
    assert [move.instance for move in plan.moves].count("instance1") == 1
    assert [step.partition(":")[0] for step in moves["instance1"].split()] == ["r", "f", "r"]


def test_the_nodes_share_the_room_that_is_left() -> None:
    small = TABLE.replace("node3 16384", "node3 2048").replace("node4 16384", "node4 1536")
    plan = departures.of_nodes(tables.read(small), ["node1", "node2"])
    alone = [departures.of_nodes(tables.read(small), [name]) for name in ("node1", "node2")]
    assert [one.refusals for one in alone] == [(), ()]
    assert plan.refusals
    assert {one.subject for one in plan.refusals}.isdisjoint(_moves(plan))
    assert "MiB free" in plan.refusals[0].reason


@pytest.mark.parametrize(
    ("scope", "moved"),
    [
        (Scope.PRIMARY, {"instance1": "f"}),
        (Scope.SECONDARY, {"instance2": "r", "instance3": "r"}),
        (Scope.ALL, {"instance1": "f r", "instance2": "r", "instance3": "r"}),
    ],
)
def test_the_scope_says_what_leaves(scope: Scope, moved: dict[str, str]) -> None:
    plan = departures.of_nodes(tables.read(TABLE), ["node1"], scope=scope)
    kinds = {name: " ".join(step.partition(":")[0] for step in action.split()) for name, action in _moves(plan).items()}
    assert kinds == moved


def test_what_cannot_leave_says_why_and_the_others_leave() -> None:
    plan = departures.of_nodes(tables.read(TABLE + "instance5 plain 1024 1000 node1\n"), ["node1"])
    (refusal,) = plan.refusals
    assert (refusal.subject, refusal.permanent) == ("instance5", True)
    assert set(_moves(plan)) == {"instance1", "instance2", "instance3"}


def test_a_node_that_is_not_there_is_told() -> None:
    with pytest.raises(errors.NotFound, match="there is no node 'node9'"):
        departures.of_nodes(tables.read(TABLE), ["node9"])


@pytest.mark.parametrize("seed", range(30))
def test_in_any_order_of_the_jobs_no_node_has_too_little_and_the_nodes_end_empty(seed: int) -> None:
    luck = random.Random(seed)
    rows = [f"node{number} {luck.choice([4096, 8192])} {luck.choice([5000, 9000])}" for number in range(1, 7)]
    for number in range(1, 13):
        first, second = luck.sample(range(1, 7), 2)
        rows.append(f"instance{number} drbd {luck.choice([256, 512])} 500 node{first} node{second}")
    cluster = tables.read("\n".join([*rows, "settings moves_per_node=2"]))
    plan = departures.of_nodes(cluster, ["node1", "node2"], failover=bool(seed % 2))
    jobs = moving.Jobs(cluster, failover=bool(seed % 2)).make_all(plan.moves)
    world = worlds.run_as_promised(cluster, plan.moves, jobs, luck=luck)
    stay = {one.subject for one in plan.refusals}
    for one in world.cluster.instances.values():
        assert one.name in stay or {"u-node1", "u-node2"}.isdisjoint(one.nodes)
        assert len(set(one.nodes)) == 2


def test_only_the_primaries_of_a_dead_node_leave_without_new_secondaries() -> None:
    dead = TABLE.replace("node1 16384 100000", "node1 16384 100000 offline")
    plan = departures.of_nodes(tables.read(dead), ["node1"], scope=Scope.PRIMARY)
    assert [(move.instance, move.action) for move in plan.moves] == [("instance1", "f")]
    whole = departures.of_nodes(tables.read(dead), ["node1"])
    assert [(move.instance, move.steps[0][0]) for move in whole.moves] == [
        ("instance1", "f"),
        ("instance2", "r"),
        ("instance3", "r"),
        ("instance1", "r"),
    ]
