from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Move
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import moving, waves

from . import steps, tables

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work

TABLE = """
node1 16384 100000
node2 16384 100000
node3 16384 100000
node4 16384 100000
instance1 drbd 1024 1000 node1 node2
instance2 drbd 1024 1000 node3 node4 down
instance3 rbd 1024 1000 node1
instance4 plain 1024 1000 node4
instance5 drbd 1024 1000 node2 node1
settings moves_per_node=2
"""


def _jobs(*moves: tuple[str, ...], table: str = TABLE, **options: object) -> tuple[work.Job, ...]:
    found = [Move(name, tuple(action.split()), tuple(after)) for name, action, *after in moves]
    return moving.Jobs(tables.read(table), **options).make_all(found)  # type: ignore[arg-type] # passed on as they are


@pytest.mark.parametrize(
    ("instance", "action", "opcodes"),
    [
        ("instance1", "f", ["migrate instance1 node1 node2"]),
        ("instance1", "r:node3", ["replace_disks instance1 node2 node3"]),
        ("instance1", "f r:node3", ["migrate instance1 node1 node2", "replace_disks instance1 node1 node3"]),
        (
            "instance1",
            "r:node3 f r:node4",
            [
                "replace_disks instance1 node2 node3",
                "migrate instance1 node1 node3",
                "replace_disks instance1 node1 node4",
            ],
        ),
        ("instance2", "f", ["failover instance2 node3 node4"]),
        ("instance3", "f:node4", ["migrate instance3 node1 node4"]),
    ],
)
def test_each_step_is_an_opcode_from_where_the_one_before_has_left_the_instance(
    instance: str, action: str, opcodes: list[str]
) -> None:
    (job,) = _jobs((instance, action), reason="balancing: moving {}", incident="a1")
    assert steps.text(job) == opcodes
    assert (job.key, job.reason, job.incident) == (f"move:{instance}", f"balancing: moving {instance}", "a1")


def test_without_live_migration_and_off_a_primary_that_is_not_reachable_instances_are_failed_over() -> None:
    offline = TABLE.replace("node1 16384 100000", "node1 16384 100000 offline")
    assert steps.of(_jobs(("instance1", "f"), failover=True)) == {"move:instance1": ["failover instance1 node1 node2"]}
    assert steps.of(_jobs(("instance1", "f"), table=offline)) == {"move:instance1": ["failover instance1 node1 node2"]}
    assert steps.of(_jobs(("instance5", "f"), table=offline)) == {"move:instance5": ["migrate instance5 node2 node1"]}


def test_a_job_comes_after_the_moves_that_it_names_and_behind_those_that_its_nodes_have_no_turn_beside() -> None:
    jobs = _jobs(
        ("instance1", "f"),
        ("instance5", "f", "instance1"),
        ("instance3", "f:node2"),
        ("instance2", "f"),
        after=("drain",),
    )
    assert [(job.after, job.behind) for job in jobs] == [
        (("drain",), ()),
        (("drain", "move:instance1"), ()),
        (("drain",), ("move:instance1",)),
        (("drain",), ()),
    ]


def test_the_moves_of_a_round_count_where_its_waves_are_given() -> None:
    shared = waves.Waves(limit=1)
    shared.admit("move:other", nodes=["u-node2"], incident="a1")
    (job,) = _jobs(("instance1", "f"), waves=shared)
    assert job.behind == ("move:other",)


def test_the_second_move_of_an_instance_comes_after_its_first_and_begins_where_that_ends() -> None:
    jobs = _jobs(("instance1", "f"), ("instance1", "r:node3"))
    assert steps.of(jobs) == {
        "move:instance1": ["migrate instance1 node1 node2"],
        "move:instance1:2": ["replace_disks instance1 node1 node3"],
    }
    assert jobs[1].after == ("move:instance1",)


@pytest.mark.parametrize(
    ("instance", "action", "told"),
    [
        ("instance9", "f", "there is no instance 'instance9'"),
        ("instance1", "r:node9", "there is no node 'node9'"),
        ("instance1", "", "its move has no steps"),
        ("instance1", "x", "'x' is not one of f, f:NODE, r:NODE"),
        ("instance1", "r", "'r' is not one of f, f:NODE, r:NODE"),
        ("instance1", "r:node2", "'r:node2' needs another replica, and a node without one"),
        ("instance1", "f:node2", "'f:node2' is not possible with disk template drbd"),
        ("instance3", "f", "'f' is not possible with disk template rbd on node1"),
        ("instance3", "f:node1", "'f:node1' is not possible with disk template rbd on node1"),
        ("instance3", "r:node2", "'r:node2' needs another replica"),
        ("instance4", "f:node1", "'f:node1' is not possible with disk template plain on node4"),
    ],
)
def test_a_step_that_is_not_possible_is_refused(instance: str, action: str, told: str) -> None:
    with pytest.raises(errors.RoundsmanError, match=told):
        _jobs((instance, action))


def test_a_move_comes_after_no_later_one() -> None:
    with pytest.raises(errors.InvalidInput, match="instance1 comes after instance2, which no move before it moves"):
        _jobs(("instance1", "f", "instance2"), ("instance2", "f"))


def test_of_an_incident_each_job_needs_the_success_of_those_before_it_and_says_why_it_goes_there() -> None:
    moves = [Move("instance1", ("f",), why="node2 is the only node with room"), Move("instance3", ("f:node3",))]
    limited = waves.Waves(limit=1)
    first, second = moving.Jobs(tables.read(TABLE), after=("drain",), incident="a1", waves=limited).make_all(moves)
    assert (first.after, first.behind) == (("drain",), ())
    assert (second.after, second.behind) == (("drain", "move:instance1"), ())
    assert first.reason == "moving instance1; node2 is the only node with room"
    (other,) = moving.Jobs(tables.read(TABLE), incident="b2", waves=limited).make_all([Move("instance5", ("f",))])
    assert (other.after, other.behind) == ((), ("move:instance1", "move:instance3"))


def test_where_instances_end_is_told_by_name() -> None:
    moves = [Move("instance1", ("r:node3", "f", "r:node4")), Move("instance3", ("f:node2",))]
    assert moving.ends(tables.read(TABLE), moves) == (("node3", "node4"), ("node2",))


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("r:node5", "instance1 would end in two groups, on node1 and node5"),
        ("r:node6", "instance1 would end on node6, which takes no instances"),
        ("r:node7 f", "instance1 would end on node7, which takes no instances"),
        ("f r:node3", ""),
        ("r:node5 f r:node8", ""),
    ],
)
def test_no_plan_puts_an_instance_where_no_planner_would(action: str, told: str) -> None:
    more = "node5 9 9 group=b\nnode8 9 9 group=b\nnode6 9 9 drained\nnode7 9 9 offline\n"
    cluster = tables.read(more + TABLE)
    if told:
        with pytest.raises(errors.InvalidInput, match=told):
            moving.refuse_misplaced(cluster, [Move("instance1", tuple(action.split()))])
    else:
        moving.refuse_misplaced(cluster, [Move("instance1", tuple(action.split()))])


def test_a_copy_that_stays_where_it_was_is_not_misplaced() -> None:
    cluster = tables.read(TABLE.replace("node1 16384 100000", "node1 16384 100000 drained"))
    moving.refuse_misplaced(cluster, [Move("instance1", ("f",))])


def test_no_plan_of_any_origin_replaces_adopted_disks() -> None:
    table = TABLE.replace("instance1 drbd 1024 1000 node1 node2", "instance1 drbd 1024 1000 node1 node2 adopted")
    with pytest.raises(
        errors.InvalidInput, match="instance1: Roundsman does not replace its disk r-instance1, which was"
    ):
        _jobs(("instance1", "f r:node3"), table=table)
    (job,) = _jobs(("instance1", "f"), table=table)
    assert steps.text(job) == ["migrate instance1 node1 node2"]


def test_no_failover_from_a_dead_node_waits_for_the_resync_of_another_instance() -> None:
    table = TABLE.replace("node1 16384 100000", "node1 16384 100000 offline").replace("node=2", "node=1")
    table = table.replace("settings", "instance6 drbd 1024 1000 node1 node2\nsettings")
    resync, first, second = _jobs(("instance5", "r:node3"), ("instance1", "f"), ("instance6", "f"), table=table)
    assert (resync.after, resync.behind) == ((), ())
    assert (first.after, first.behind) == ((), ())
    assert (second.after, second.behind) == ((), ("move:instance1",))


def test_what_copies_waits_at_its_nodes_for_the_failovers_from_a_dead_node() -> None:
    table = TABLE.replace("node1 16384 100000", "node1 16384 100000 offline").replace("node=2", "node=3")
    moves = [("instance1", "f"), ("instance1", "r:node3"), ("instance5", "r:node3"), ("instance2", "f")]
    first, replica, other, elsewhere = _jobs(*moves, table=table, incident="a1")
    assert (first.after, replica.after, other.after) == ((), ("move:instance1",), ("move:instance1",))
    assert (elsewhere.after, elsewhere.behind) == ((), ())


def test_a_move_that_copies_is_not_urgent_though_it_begins_on_a_dead_node() -> None:
    table = TABLE.replace("node1 16384 100000", "node1 16384 100000 offline").replace("node=2", "node=1")
    table = table.replace("settings", "instance6 drbd 1024 1000 node1 node2\nsettings")
    jobs = _jobs(("instance1", "f r:node3"), ("instance6", "f"), table=table)
    assert jobs[1].behind == ()
