from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas, membership
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
HELD = ("00000000000000a0",)
PAIR = clusters.with_instance(CLUSTER, dataclasses.replace(CLUSTER.instance("i1"), disks=(clusters.Disk(64),)))
MAKING = left_replicas.ReplicaLeft("i1", "n10", present=True, is_new=True, generations=HELD)


def held(*stated: changes.Change, cluster: clusters.Cluster = PAIR) -> tuple[str, ...]:
    """What is known of the generations of i1's secondary after some changes."""
    return left_replicas.judged_generations(changes.apply_all(cluster, list(stated), now=9.0), "i1")


def test_the_generations_that_a_replacement_judged_stay_on_record_while_it_has_not_ended() -> None:
    without = dataclasses.replace(MAKING, generations=())
    other = dataclasses.replace(MAKING, generations=("00000000000000b0",))
    assert held() == held(without) == ()
    assert held(MAKING) == held(MAKING, without) == held(without, MAKING) == held(other, MAKING) == HELD
    once = changes.apply(PAIR, MAKING, now=9.0)
    for again in (MAKING, without):
        assert changes.apply(once, again, now=10.0) is once
    elsewhere = dataclasses.replace(without, node="n1")
    assert held(MAKING, elsewhere) == HELD, "a replacement to a third node did not ask the secondary"
    # Whoever looks for the instance after a replacement that broke off records the same nodes.
    assert held(MAKING, changes.InstanceNodes("i1", "n2", ("n3",))) == HELD


@pytest.mark.parametrize(
    "end",
    [
        # A failover, also one that ignores whether the replica is in sync, and the way back.
        [changes.InstanceNodes("i1", "n3", ("n2",))],
        [changes.InstanceNodes("i1", "n3", ("n2",)), changes.InstanceNodes("i1", "n2", ("n3",))],
        [changes.InstanceNodes("i1", "n2", ("n10",))],
        [changes.InstanceNodes("i1", "n2", ("n1",))],
        [left_replicas.ReplicaLeft("i1", "n10", present=False)],
        [left_replicas.ReplicaLeft("i1", "n10", present=True)],
        [left_replicas.ReplicaLeft("i1", "n10", present=True), dataclasses.replace(MAKING, generations=())],
        [membership.InstanceGone("i1")],
        [membership.NodeGone("n10")],
    ],
    ids=str,
)
def test_no_generation_counts_once_the_replacement_ended_or_the_nodes_changed(end: list[changes.Change]) -> None:
    assert held(MAKING, *end) == ()
    after = changes.apply_all(PAIR, [MAKING, *end], now=9.0)
    assert not [left for left in after.maintenance.left_behind if left.generations and "i1" in after.instances]


def test_generations_of_other_nodes_than_those_of_record_do_not_count() -> None:
    made = changes.apply(PAIR, MAKING, now=9.0)
    moved = dataclasses.replace(made.instance("i1"), primary_node="n3", secondary_nodes=("n2",))
    assert held(membership.InstanceStands(moved), cluster=made) == ()


@pytest.mark.parametrize(
    "stated",
    [HELD * 2, ("a0",), ("00000000000000A0",), ("0x000000000000a0",), ("00000000000000a0\n",), ("00000000000000g0",)],
)
def test_what_a_node_says_instead_of_a_generation_is_left_out_and_the_replica_recorded(stated: tuple[str, ...]) -> None:
    wrong = dataclasses.replace(MAKING, generations=stated)
    after = changes.apply(PAIR, wrong, now=9.0)
    assert [(left.node, left.generations) for left in left_replicas.being_made(after, "i1")] == [("n10", ())]
    assert held(MAKING, wrong) == HELD
    assert held(dataclasses.replace(MAKING, is_new=False)) == ()
