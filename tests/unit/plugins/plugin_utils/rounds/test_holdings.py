from __future__ import annotations

import dataclasses

from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import holdings

from tests.unit import small_cluster


def test_what_a_node_holds_is_what_the_cluster_says_of_it_by_name() -> None:
    cluster = small_cluster.make()
    first = next(iter(cluster.instances.values()))
    more = {
        f"x{number}": dataclasses.replace(first, uuid=f"x{number}", name=f"inst{number}") for number in (20, 3, 100)
    }
    cluster = dataclasses.replace(cluster, instances={**cluster.instances, **more})
    held = holdings.Holdings(cluster.instances)
    for node in cluster.nodes:
        assert held.primaries(node) == cluster.primaries(node)
        assert held.secondaries(node) == cluster.secondaries(node)
    assert holdings.names(held.primaries(first.primary_node)) == ["inst1", "inst3", "inst20", "inst100"]


def test_only_instances_that_shall_run_take_memory_and_every_copy_takes_its_disk() -> None:
    cluster = small_cluster.make()
    (one,) = cluster.instances.values()
    down = dataclasses.replace(one, uuid="down", name="down", admin_state="down")
    held = holdings.Holdings({one.uuid: one, down.uuid: down})
    assert held.memory(one.primary_node) == one.memory
    assert held.disk(one.primary_node) == held.disk(one.secondary_nodes[0]) > one.disk_size
    assert (held.memory("nobody"), held.disk("nobody"), held.primaries("nobody")) == (0, 0, [])
