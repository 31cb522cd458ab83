"""A node that does not answer is no target of any planner, and says so; what is on it may leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import (
    configured,
    departures,
    digests,
    rebalancing,
    regrouping,
    rounds,
    single_moves,
)

from . import steps, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES = "node1 16384 100000\nnode2 16384 100000\nnode3 16384 100000\nnode4 16384 50000\n"
PAIR = "instance1 drbd 1024 1024 node1 node2\n"
SHARED = "instance1 rbd 1024 1024 node1\n"
SILENT = "silent: it did not answer when it was last asked"


def seen(table: str, *silent: str) -> clusters.Cluster:
    return clusters.observed(tables.read(table), silent=[tables.u(name) for name in silent])


def planned(cluster: clusters.Cluster) -> Sequence[str]:
    return [step for job in rounds.plan(cluster, at_work={}).jobs for step in steps.text(job)]


INCIDENT = "incident a1 node1 evacuate noted 100\n"


def test_a_round_moves_nothing_to_a_silent_node() -> None:
    assert "replace_disks instance1 node1 node3" in planned(seen(NODES + PAIR + INCIDENT))
    assert "replace_disks instance1 node1 node4" in planned(seen(NODES + PAIR + INCIDENT, "node3"))


def test_a_silent_secondary_is_replaced_first() -> None:
    moves = [one for one in planned(seen(NODES + PAIR + INCIDENT, "node2")) if "instance1" in one]
    assert moves[0] == "replace_disks instance1 node2 node3"
    assert moves[1] == "migrate instance1 node1 node3"


def test_where_only_silent_nodes_are_left_the_plan_says_why_and_what_would_lift_it() -> None:
    plan = rounds.plan(seen(NODES + SHARED + INCIDENT, "node2", "node3", "node4"), at_work={})
    (refusal,) = plan.refusals
    assert refusal.unblock == "one of node2, node3, node4 answering again"
    assert not refusal.permanent
    plan = rounds.plan(seen(NODES + PAIR + INCIDENT, "node2", "node3", "node4"), at_work={})
    assert f"its secondary node2 is {SILENT}" in plan.refusals[0].reason


def test_what_is_on_a_silent_node_may_leave_it() -> None:
    assert planned(seen(NODES + SHARED + INCIDENT, "node1")) == planned(seen(NODES + SHARED + INCIDENT))


def test_an_evacuation_by_command_and_a_single_move_go_to_nodes_that_answer() -> None:
    found = departures.of_nodes(seen(NODES + SHARED, "node2", "node3"), ["node1"])
    assert [move.action for move in found.moves] == ["f:node4"]
    cluster = seen(NODES + SHARED, "node2", "node3")
    assert single_moves.target(cluster, cluster.instance("instance1")) == "u-node4"
    pair = seen(NODES + PAIR, "node3")
    assert single_moves.new_secondary(pair, pair.instance("instance1")) == "u-node4"
    nowhere = seen(NODES + PAIR, "node3", "node4")
    with pytest.raises(errors.Refused, match="has nowhere to go"):
        single_moves.new_secondary(nowhere, nowhere.instance("instance1"))


def test_balancing_leaves_a_silent_node_out_and_says_why() -> None:
    asked = rebalancing.question(seen(NODES + PAIR, "node3"), busy=())
    (refusal,) = rebalancing.refusals(asked)
    assert (refusal.subject, refusal.reason) == (
        "node3",
        "balancing leaves it out: it did not answer when it was last asked",
    )


def test_allocators_see_a_silent_node_as_offline() -> None:
    offline = {node.name: node.offline for node in configured.model_of(seen(NODES + PAIR, "node3")).nodes}
    assert offline == {"node1": False, "node2": False, "node3": True, "node4": False}


def test_a_change_of_group_goes_to_nodes_that_answer() -> None:
    table = "node1 16384 100000\nnode2 16384 100000 group=b\nnode3 16384 100000 group=b\n" + SHARED
    for silent, target in (("node2", "node3"), ("node3", "node2")):
        cluster = seen(table, silent)
        found = regrouping.of_group(cluster, configured.model_of(cluster), "default", targets=["b"])
        assert [move.action for move in found.moves] == [f"f:{target}"]


def test_silence_is_known_to_planners_only() -> None:
    cluster = tables.read(NODES + PAIR)
    same = clusters.observed(cluster, silent=["u-node3"])
    assert digests.digest(same) == digests.digest(cluster)
    assert b"silent" not in document.dump(cluster)
    assert not clusters.is_silent(cluster, cluster.node("node3"))
    assert clusters.is_silent(same, cluster.node("node3"))
