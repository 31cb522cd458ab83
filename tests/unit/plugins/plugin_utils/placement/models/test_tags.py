from __future__ import annotations

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, tags


def cluster(*, of: tuple[str, ...], node: tuple[str, ...] = (), instance: tuple[str, ...] = ()) -> model.Model:
    nodes = (model.Node("node1", "g", 1, 0, 1, 1, 1, 1, tags=node),)
    instances = (model.Instance("web", 1, 1, 1, "running", auto_balance=True, primary="node1", tags=instance),)
    return model.Model((model.Group("g", "g"),), nodes, instances, of)


def test_exclusion_tags_begin_with_what_the_cluster_names() -> None:
    made = cluster(
        of=("htools:iextags:service", "htools:iextags:", "other"), instance=("service:web", "rack", "services")
    )
    assert tags.exclusion(made) == [("service:web", "services")]


def test_locations_are_tags_of_nodes_with_a_colon() -> None:
    made = cluster(of=("htools:nlocation:rack",), node=("rack:1", "rack:2", "racks", "power:1"))
    assert tags.locations(made) == [frozenset({"rack:1", "rack:2"})]


def test_desired_locations_are_tags_of_instances() -> None:
    made = cluster(of=("htools:desiredlocation:rack", "htools:nlocation:power"), instance=("rack:1", "power:1"))
    assert tags.desired(made) == [frozenset({"rack:1"})]


def test_a_node_receives_its_own_migration_tags_and_those_that_are_allowed_to_it() -> None:
    of = ("htools:migration:kernel", "htools:allowmigration:kernel:1::kernel:2", "htools:allowmigration:a::b::c")
    made = cluster(of=of, node=("kernel:2", "rack:1"))
    assert tags.migration(made) == [(frozenset({"kernel:2"}), frozenset({"kernel:1", "kernel:2"}))]


def test_without_tags_of_the_cluster_nothing_counts() -> None:
    made = cluster(of=(), node=("rack:1",), instance=("service:1",))
    assert tags.exclusion(made) == [()]
    assert tags.locations(made) == tags.desired(made) == [frozenset()]
    assert tags.migration(made) == [(frozenset(), frozenset())]
