from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import as_cluster, configured, room

from tests import generated_clusters
from tests.unit.plugins.plugin_utils.rounds import small_models

KINDS = [
    {"seed": 1},
    {"seed": 2, "groups": 3, "shared": 0.2, "plain": 0.1},
    {"seed": 3, "offline": 2, "stopped": 0.3, "exclusion": True, "locations": True},
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_of_the_cluster_of_a_model_has_the_same_room_and_places(kind: dict[str, int]) -> None:
    found = generated_clusters.make(nodes=12, instances=90, **kind)  # type: ignore[arg-type] # passed on as they are
    again = configured.model_of(as_cluster.cluster_of(found))

    def nodes(of: model.Model) -> dict[str, tuple[object, ...]]:
        return {one.name: (one.f_mem, one.f_disk, one.offline, one.group, one.pcpus, one.tags) for one in of.nodes}

    def instances(of: model.Model) -> dict[str, tuple[object, ...]]:
        return {
            one.name: (one.memory, one.disk, one.takes_memory, one.primary, one.secondary, one.template, one.tags)
            for one in of.instances
        }

    assert nodes(again) == nodes(found)
    assert instances(again) == instances(found)
    assert (again.tags, {one.name: one.uuid for one in again.groups}) == (
        found.tags,
        {one.name: one.uuid for one in found.groups},
    )


def test_the_room_of_an_evacuation_is_what_the_text_says_is_free() -> None:
    found = small_models.make("""
        node1 4096 missing=1000 disk=500
        node2 4096
        web1 1024 node1 node2 disk=100
        web2 512 node1 disk=50 down
    """)
    seen = room.Room(as_cluster.cluster_of(found)).nodes
    assert (seen["node1"].memory, seen["node1"].disk) == (4096 - 1024 - 1000, 500 - 150)
    assert (seen["node2"].memory, seen["node2"].disk) == (4096, 100_000 - 100)


def test_flags_and_the_master_are_those_of_the_model() -> None:
    cluster = as_cluster.cluster_of(
        small_models.make("node1 4096 master\nnode2 4096 offline group=b\nweb1 512 node1 gone")
    )
    assert cluster.cluster.master_node == "node1"
    assert [clusters.reachable(cluster, one) for one in cluster.nodes.values()] == [True, False]
    assert not cluster.instances["web1"].is_up


def test_policies_and_parameters_of_nodes_stay_what_they_were() -> None:
    made = generated_clusters.make(nodes=4, instances=6, groups=2)
    own = model.Policy(vcpu_ratio=2.0, spindle_ratio=8.0, templates=(model.Template.DRBD,))
    groups = (made.groups[0], dataclasses.replace(made.groups[1], policy=own, networks=("prod",)))
    nodes = tuple(dataclasses.replace(one, spindles=7, cpu_speed=1.5) for one in made.nodes)
    again = configured.model_of(as_cluster.cluster_of(dataclasses.replace(made, groups=groups, nodes=nodes)))
    assert again.policy == made.policy
    assert [(one.policy, one.networks) for one in again.groups] == [(one.policy, one.networks) for one in groups]
    assert {(one.spindles, one.cpu_speed) for one in again.nodes} == {(7, 1.5)}
