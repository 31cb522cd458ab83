from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import population, world
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters


def made(nodes: int) -> clusters.Cluster:
    names = [f"node{number + 1}" for number in range(nodes)]
    return population.make_cluster(world.Lab(Path("/lab")), names, settings=clusters.Settings())


@pytest.mark.parametrize(
    ("nodes", "groups"), [(1, 1), (2, 1), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3), (12, 4), (13, 4), (100, 4)]
)
def test_groups_are_blocks_of_at_least_three_nodes(nodes: int, groups: int) -> None:
    cluster = made(nodes)
    sizes = Counter(one.group for one in cluster.nodes.values())
    assert len(cluster.nodegroups) == len(sizes) == groups
    assert groups == 1 or min(sizes.values()) >= 3
    order = [one.group for one in cluster.nodes.values()]
    assert order == sorted(order, key=list(cluster.nodegroups).index)


@pytest.mark.parametrize(("nodes", "instances"), [(2, 5), (3, 1), (4, 40), (7, 60), (13, 100)])
def test_pairs_are_of_different_nodes_of_one_group_and_evenly_spread(nodes: int, instances: int) -> None:
    cluster = made(nodes)
    pairs = population.spread(cluster, instances)
    assert len(pairs) == instances
    for primary, secondary in pairs:
        assert primary != secondary
        assert cluster.node(primary).group == cluster.node(secondary).group
    for group in cluster.nodegroups:
        block = [one.name for one in cluster.nodes.values() if one.group == group]
        loads = [sum(primary == name for primary, _ in pairs) for name in block]
        assert max(loads) - min(loads) <= 1


def test_every_secondary_of_a_group_gets_its_turn() -> None:
    cluster = made(4)
    pairs = set(population.spread(cluster, 12))
    assert len(pairs) == 12


def test_the_first_node_is_the_master_and_the_first_ten_are_candidates() -> None:
    cluster = made(12)
    roles = [clusters.role(cluster, one).value for one in cluster.nodes.values()]
    assert roles == ["master"] + ["candidate"] * 9 + ["regular"] * 2


def test_instances_fit_their_nodes() -> None:
    cluster = made(4)
    cluster = population.with_instances(cluster, population.spread(cluster, 40))
    for node in cluster.nodes.values():
        assert sum(one.memory for one in cluster.primaries(node.uuid)) <= node.mtotal - node.mnode
    assert [one.name for one in cluster.instances.values()] == [f"instance{number}" for number in range(1, 41)]
