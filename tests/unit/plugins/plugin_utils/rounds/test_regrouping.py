from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import configured, moving, regrouping

from . import steps, tables, worlds

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Plan

NODES = """
node1 16384 100000
node2 16384 100000
node3 16384 100000 group=b
node4 16384 100000 group=b
node5 16384 100000 group=c
node6 16384 100000 group=c
"""
PAIR = "instance1 drbd 1024 1024 node1 node2\n"
ALL = f"""{NODES}{PAIR}
instance2 rbd 1024 1024 node2
instance3 drbd 1024 1024 node2 node1 down
instance4 drbd 1024 1024 node3 node4
"""


def _drain(cluster: clusters.Cluster, *targets: str, **options: Any) -> Plan:
    return regrouping.of_group(cluster, configured.model_of(cluster), "default", targets=targets, **options)


def _change(cluster: clusters.Cluster, *targets: str, **options: Any) -> Plan:
    return regrouping.of_instance(cluster, configured.model_of(cluster), "instance1", targets=targets, **options)


def _ends(cluster: clusters.Cluster, plan: Plan) -> dict[str, tuple[str, ...]]:
    names = [move.instance for move in plan.moves]
    return dict(zip(names, moving.ends(cluster, plan.moves), strict=True))


def _why(plan: Plan) -> str:
    assert plan.moves == ()
    (refusal,) = plan.refusals
    assert refusal.subject == "instance1"
    return refusal.reason


def test_a_pair_gets_a_copy_in_the_new_group_moves_there_and_gets_its_second_copy_there() -> None:
    cluster = tables.read(NODES + PAIR)
    (move,) = _drain(cluster, "b").moves
    first, second = _ends(cluster, _drain(cluster, "b"))["instance1"]
    assert {first, second} == {"node3", "node4"}
    (job,) = moving.Jobs(cluster).make_all([move])
    assert steps.text(job) == [
        f"replace_disks instance1 node2 {first}",
        f"migrate instance1 node1 {first}",
        f"replace_disks instance1 node1 {second}",
    ]
    (failed_over,) = moving.Jobs(cluster, failover=True).make_all([move])
    assert steps.text(failed_over)[1] == f"failover instance1 node1 {first}"


@pytest.mark.parametrize(("targets", "groups"), [((), {"3", "4", "5", "6"}), (("c",), {"5", "6"}), (("c", "b"), None)])
def test_all_that_is_in_the_group_leaves_for_the_targets_and_nothing_else_moves(
    targets: tuple[str, ...], groups: set[str] | None
) -> None:
    cluster = tables.read(ALL)
    plan = _drain(cluster, *targets)
    ends = _ends(cluster, plan)
    assert plan.refusals == ()
    assert set(ends) == {"instance1", "instance2", "instance3"}
    for nodes in ends.values():
        assert {node.removeprefix("node") for node in nodes} <= (groups or {"3", "4", "5", "6"})
        assert len({cluster.node(node).group for node in nodes}) == 1


def test_what_runs_on_shared_storage_moves_as_it_is() -> None:
    cluster = tables.read(NODES + "instance1 rbd 1024 1024 node1\n")
    (move,) = _drain(cluster, "b").moves
    assert move.action in {"f:node3", "f:node4"}


@pytest.mark.parametrize("template", ["plain", "file"])
def test_what_has_its_only_copy_on_its_node_stays_and_says_so(template: str) -> None:
    cluster = tables.read(NODES + f"instance1 {template} 1024 1024 node1\n")
    assert f"disk template {template} keeps its only replica on node1" in _why(_drain(cluster))
    assert _drain(cluster).refusals[0].permanent


def test_a_group_that_takes_no_new_instances_is_no_target() -> None:
    cluster = tables.read(NODES + PAIR)
    closed = dataclasses.replace(cluster.nodegroups["u-b"], alloc_policy="unallocable")
    cluster = dataclasses.replace(cluster, nodegroups={**cluster.nodegroups, "u-b": closed})
    assert _why(_drain(cluster, "b")) == "b: it takes no new instances (unallocable)"
    assert set(_ends(cluster, _drain(cluster))["instance1"]) == {"node5", "node6"}


def test_a_group_of_last_resort_is_used_only_where_no_other_has_room() -> None:
    cluster = tables.read(NODES + PAIR)
    last = dataclasses.replace(cluster.nodegroups["u-b"], alloc_policy="last_resort")
    cluster = dataclasses.replace(cluster, nodegroups={**cluster.nodegroups, "u-b": last})
    assert set(_ends(cluster, _drain(cluster))["instance1"]) == {"node5", "node6"}
    full = tables.read(NODES.replace("node5 16384", "node5 512") + PAIR)
    full = dataclasses.replace(full, nodegroups={**full.nodegroups, "u-b": last})
    assert set(_ends(full, _drain(full))["instance1"]) == {"node3", "node4"}


def test_without_room_each_target_says_what_is_missing() -> None:
    small = NODES.replace("node3 16384", "node3 512").replace("node4 16384", "node4 700")
    reason = _why(_drain(tables.read(small + PAIR), "b"))
    assert reason == "b: no node has 1024 MiB free: best is node4 with 700"


def test_nodes_that_maintenance_is_about_are_no_targets() -> None:
    cluster = tables.read(NODES + PAIR + "incident a1 node3 evacuate pending 100\n")
    assert "b: " in _why(_drain(cluster, "b"))


def test_a_node_that_takes_nothing_is_left_by_copying_from_it() -> None:
    cluster = tables.read(NODES.replace("node1 16384 100000", "node1 16384 100000 drained") + PAIR)
    (move,) = _drain(cluster, "b").moves
    assert [step.partition(":")[0] for step in move.action.split()] == ["r", "f", "r"]


def test_what_has_lost_its_primary_starts_on_its_copy_first() -> None:
    cluster = tables.read(NODES.replace("node1 16384 100000", "node1 16384 100000 offline") + PAIR)
    (move,) = _drain(cluster, "b").moves
    first, second = _ends(cluster, _drain(cluster, "b"))["instance1"]
    (job,) = moving.Jobs(cluster).make_all([move])
    assert steps.text(job) == [
        "failover instance1 node1 node2",
        f"replace_disks instance1 node1 {first}",
        f"migrate instance1 node2 {first}",
        f"replace_disks instance1 node2 {second}",
    ]


@pytest.mark.parametrize(
    ("node2", "told"),
    [
        ("node2 1500 100000", "it would start on node2 first, which has 476 MiB free and not 1024"),
        ("node2 16384 100000 offline", "neither of its nodes is reachable"),
    ],
)
def test_what_has_lost_its_primary_and_cannot_start_on_its_copy_stays(node2: str, told: str) -> None:
    nodes = NODES.replace("node1 16384 100000", "node1 16384 100000 offline").replace("node2 16384 100000", node2)
    other = "instance2 drbd 1024 1024 node1 node2\n" if "1500" in node2 else ""
    plan = _drain(tables.read(nodes + other + PAIR), "b")
    # Of two that would start there one has the memory, and it is gone for the other.
    (refusal,) = plan.refusals
    assert refusal.reason == told
    assert len(plan.moves) == (1 if other else 0)


def test_an_instance_with_adopted_disks_stays_in_its_group_and_the_others_leave() -> None:
    plan = _drain(
        tables.read(ALL.replace("instance1 drbd 1024 1024 node1 node2", "instance1 drbd 1 1 node1 node2 adopted"))
    )
    (refusal,) = plan.refusals
    assert (refusal.subject, refusal.permanent) == ("instance1", True)
    assert refusal.reason.startswith("Roundsman does not replace its disk r-instance1, which was adopted; to give")
    assert {move.instance for move in plan.moves} == {"instance2", "instance3"}


def test_what_can_never_be_migrated_is_moved_by_failover_only() -> None:
    cluster = tables.read(NODES + PAIR.replace("node2", "node2 migratable=no"))
    assert "can never be migrated" in _why(_drain(cluster))
    assert len(_drain(cluster, failover=True).moves) == 1


@pytest.mark.parametrize("nodes", ["node1 node3", "node3 node1"])
def test_an_interrupted_change_of_group_is_brought_to_its_end(nodes: str) -> None:
    cluster = tables.read(NODES + f"instance1 drbd 1024 1024 {nodes}\n")
    for plan in (_drain(cluster, "b"), _change(cluster, "b")):
        assert set(_ends(cluster, plan)["instance1"]) == {"node3", "node4"}
    if nodes == "node3 node1":
        assert [move.action for move in _change(cluster).moves] == ["r:node4"]


def test_nodes_that_are_given_are_kept_to() -> None:
    cluster = tables.read(NODES + PAIR)
    assert _ends(cluster, _change(cluster, primary="node4", secondary="node3"))["instance1"] == ("node4", "node3")
    assert _ends(cluster, _change(cluster, primary="node6"))["instance1"] == ("node6", "node5")
    assert _ends(cluster, _change(cluster, secondary="node6"))["instance1"] == ("node5", "node6")


@pytest.mark.parametrize(
    ("options", "ends", "action"),
    [
        ({"secondary": "node5"}, ("node3", "node5"), "r:node5"),
        ({"primary": "node3", "secondary": "node4"}, ("node3", "node4"), "r:node4"),
        ({"primary": "node4", "secondary": "node3"}, ("node4", "node3"), "r:node4 f"),
        ({"primary": "node5", "secondary": "node4"}, ("node5", "node4"), "r:node5 f r:node4"),
        ({"primary": "node5"}, None, None),
        ({"secondary": "node3"}, None, None),
        ({"primary": "node2", "secondary": "node1"}, ("node2", "node1"), "f r:node2 f"),
        ({"secondary": "node2", "targets": ("b", "default")}, ("node1", "node2"), None),
    ],
)
def test_nodes_that_are_given_are_kept_to_when_an_interrupted_change_of_group_goes_on(
    options: dict[str, Any], ends: tuple[str, str] | None, action: str | None
) -> None:
    three = "\n".join(f"node{number} 16384 100000{' group=b' if number > 2 else ''}" for number in range(1, 6))
    cluster = tables.read(three + "\ninstance1 drbd 1024 1024 node3 node1\n")
    plan = _change(cluster, *options.pop("targets", ()), **options)
    (move,) = plan.moves
    found = _ends(cluster, plan)["instance1"]
    assert len({cluster.node(name).group for name in found}) == 1
    assert ends in {None, found}
    assert action in {None, move.action}
    assert options.get("primary", found[0]) == found[0]
    assert options.get("secondary", found[1]) == found[1]


def test_a_node_that_is_given_and_has_no_room_is_the_reason_why_an_interrupted_change_of_group_stays() -> None:
    cluster = tables.read(NODES + "node7 16384 100 group=b\ninstance1 drbd 1024 1024 node3 node1\n")
    assert "node7" in _why(_change(cluster, secondary="node7"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"primary": "node3", "secondary": "node5"}, "in one group: node3 in b and node5 in c"),
        ({"primary": "node3", "secondary": "node3"}, "node3 cannot be both primary and secondary"),
        ({"primary": "node2"}, "default is the group that is left: name another one"),
        ({"primary": "node9"}, "there is no node 'node9'"),
        ({"targets": ("b",), "primary": "node5"}, "node5 is in none of the groups that instance1 shall go to"),
        ({"targets": ("x",)}, "there is no node group 'x'"),
        ({"targets": ("default",)}, "default is the group that is left"),
    ],
)
def test_what_is_no_target_is_refused(options: dict[str, Any], told: str) -> None:
    cluster = tables.read(NODES + PAIR)
    with pytest.raises(errors.Refused, match=told):
        regrouping.of_instance(cluster, configured.model_of(cluster), "instance1", **options)


def test_the_only_group_cannot_be_left() -> None:
    cluster = tables.read("node1 16384 100000\nnode2 16384 100000\n" + PAIR)
    with pytest.raises(errors.Refused, match="there is no group but default"):
        _drain(cluster)


@pytest.mark.parametrize("seed", range(30))
def test_in_any_order_of_the_jobs_no_node_has_too_little_and_what_left_is_whole_in_its_new_group(seed: int) -> None:
    luck = random.Random(seed)
    rows = []
    for number in range(1, 9):
        group = "group=a" if number < 4 else "group=b" if number < 7 else "group=c"
        rows.append(f"node{number} {luck.choice([2048, 4096])} {luck.choice([4000, 7000])} {group}")
    for number in range(1, 9):
        first, second = luck.sample(range(1, 4), 2)
        rows.append(f"instance{number} drbd {luck.choice([256, 512])} 1024 node{first} node{second}")
    cluster = tables.read("\n".join([*rows, "settings moves_per_node=2"]))
    plan = regrouping.of_group(cluster, configured.model_of(cluster), "a")
    jobs = moving.Jobs(cluster).make_all(plan.moves)
    world = worlds.run_as_promised(cluster, plan.moves, jobs, luck=luck)
    stay = {one.subject for one in plan.refusals}
    assert {move.instance for move in plan.moves} | stay == {one.name for one in cluster.instances.values()}
    for one in world.cluster.instances.values():
        groups = {cluster.nodes[uuid].group for uuid in one.nodes}
        assert groups == {"u-a"} if one.name in stay else groups in ({"u-b"}, {"u-c"})
