from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, roles
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def given(cluster: clusters.Cluster, uuid: str, **wanted: bool) -> clusters.Cluster:
    return changes.apply_all(cluster, roles.change(cluster, cluster.nodes[uuid], **wanted), now=9.0)


def told(cluster: clusters.Cluster) -> list[str]:
    return [clusters.role(cluster, cluster.nodes[uuid]).value for uuid in ("n1", "n2", "n3", "n10")]


def test_draining_a_candidate_promotes_the_next_by_name_first() -> None:
    stated = roles.change(CLUSTER, CLUSTER.nodes["n2"], drained=True)
    assert stated[0] == changes.NodeRole("n3", drained=False, offline=False, master_candidate=True)
    assert told(given(CLUSTER, "n2", drained=True)) == ["master", "drained", "candidate", "regular"]


def test_draining_a_regular_node_promotes_nobody() -> None:
    assert told(given(CLUSTER, "n3", drained=True)) == ["master", "candidate", "drained", "regular"]


def test_nobody_is_promoted_who_cannot_be_reached_or_may_not() -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n3", powered=False), now=1.0)
    assert told(given(off, "n2", drained=True)) == ["master", "drained", "regular", "candidate"]
    barred = clusters.with_node(off, dataclasses.replace(off.nodes["n10"], master_capable=False))
    assert told(given(barred, "n2", drained=True)) == ["master", "drained", "regular", "regular"]


def test_a_full_pool_needs_no_promotion() -> None:
    assert told(given(small_cluster.make(pool=1), "n2", offline=True)) == ["master", "offline", "regular", "regular"]


def test_offline_ends_drained() -> None:
    drained = given(CLUSTER, "n3", drained=True)
    after = given(drained, "n3", offline=True).nodes["n3"]
    assert (after.drained, after.offline) == (False, True)
    assert not given(CLUSTER, "n3", drained=True, offline=True).nodes["n3"].drained


def test_back_online_a_node_is_regular_or_a_candidate_where_one_is_missing() -> None:
    assert told(given(given(CLUSTER, "n3", offline=True), "n3", offline=False))[2] == "regular"
    larger = small_cluster.make(pool=3)
    assert told(given(given(larger, "n3", offline=True), "n3", offline=False))[2] == "candidate"


def test_an_offline_candidate_is_not_counted_as_one() -> None:
    stale = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n2"], offline=True))
    assert told(given(stale, "n3", drained=False))[2] == "candidate"


def test_undraining_an_offline_node_leaves_it_offline() -> None:
    offline = given(CLUSTER, "n3", offline=True)
    assert given(offline, "n3", drained=False) is offline


def test_undraining_makes_a_node_regular_again() -> None:
    assert told(given(given(CLUSTER, "n3", drained=True), "n3", drained=False))[2] == "regular"


@pytest.mark.parametrize("wanted", [{"drained": True}, {"offline": True}])
def test_the_master_is_neither_drained_nor_offline(wanted: dict[str, bool]) -> None:
    with pytest.raises(errors.Refused, match="node1 is the master"):
        given(CLUSTER, "n1", **wanted)
