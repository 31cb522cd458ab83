from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle

from ...rounds import small_models

PAIRS = """
node1 4096
node2 4096
node3 4096
web 1024 node1 node2
db 512 node1 node3
"""


def test_an_even_cluster_has_no_spread() -> None:
    made = small_models.make("node1 4096\nnode2 4096\na 512 node1 node2\nb 512 node2 node1")
    found = oracle.components(made)
    assert {name for name, value in found.items() if value} == {"reserved_mem_rtotal"}
    assert oracle.score(made) == pytest.approx(0.25 * 2 * 512 / 4096)


def test_the_components_are_hbals_in_its_order() -> None:
    found = oracle.components(small_models.make(PAIRS))
    assert list(found) == list(oracle.WEIGHTS)
    assert len(found) == 20
    assert oracle.total(found) == oracle.score(small_models.make(PAIRS))


def test_the_spread_of_memory_is_over_what_is_free_by_the_records() -> None:
    found = oracle.components(small_models.make(PAIRS))
    free = [(4096 - 1536) / 4096, 1, 1]
    mean = sum(free) / 3
    assert found["free_mem_cv"] == pytest.approx((sum((one - mean) ** 2 for one in free) / 3) ** 0.5)
    assert found["cpu_load_cv"] == pytest.approx((((2 - 2 / 3) ** 2 + 2 * (2 / 3) ** 2) / 3) ** 0.5)


def test_memory_that_was_missing_at_first_stays_missing() -> None:
    made = small_models.make("node1 4096 missing=1000\nnode2 4096\nweb 1024 node1 node2")
    moved = oracle.components(made, {"web": ("node2", "node1")})
    assert moved["free_mem_cv"] == pytest.approx((3096 - 3072) / 4096 / 2)


def test_reserved_memory_is_the_largest_of_one_failure_not_the_sum() -> None:
    made = small_models.make(PAIRS + "mail 256 node2 node3")
    assert oracle.components(made)["reserved_mem_rtotal"] == pytest.approx((1024 + 512) / 4096)


def test_a_stopped_instance_is_reserved_for_but_one_set_offline_is_not() -> None:
    for word, reserved in (("", 1024), ("down", 1024), ("gone", 0), ("loose", 0)):
        made = small_models.make(f"node1 4096\nnode2 4096\nweb 1024 node1 node2 {word}")
        assert oracle.components(made)["reserved_mem_rtotal"] == reserved / 4096


def test_a_node_fails_n_plus_1_when_it_has_no_more_than_it_reserves() -> None:
    made = small_models.make("node1 4096\nnode2 1024\nweb 1024 node1 node2")
    assert oracle.components(made)["n1_cnt"] == 1
    assert oracle.components(small_models.make("node1 4096\nnode2 1025\nweb 1024 node1 node2"))["n1_cnt"] == 0


def test_what_is_on_offline_nodes_counts_and_their_spread_does_not() -> None:
    made = small_models.make("node1 4096\nnode2 4096\nnode3 9999 offline\na 512 node3 node1\nb 512 node1 node3")
    found = oracle.components(made)
    assert (found["offline_all_cnt"], found["offline_pri_cnt"]) == (2, 1)
    assert found["free_mem_cv"] == pytest.approx(512 / 4096 / 2)


def test_exclusion_tags_count_beyond_the_first_of_a_node() -> None:
    made = small_models.make("node1 4096\nnode2 4096\na 1 node1\nb 1 node1\nc 1 node1\nd 1 node2")
    tagged = tuple(replace(one, tags=("service:web",)) for one in made.instances)
    made = replace(made, instances=tagged, tags=("htools:iextags:service",))
    assert oracle.components(made)["pri_tags_score"] == 2


def test_pairs_in_one_location_and_desires_that_are_not_met_count() -> None:
    made = small_models.make("node1 4096 tag=rack:1\nnode2 4096 tag=rack:1\nnode3 4096 tag=rack:2\na 1 node1 node2")
    wish = tuple(replace(one, tags=("rack:2",)) for one in made.instances)
    made = replace(made, instances=wish, tags=("htools:nlocation:rack", "htools:desiredlocation:rack"))
    assert oracle.components(made)["location_score"] == 2
    assert oracle.components(made, {"a": ("node1", "node3")})["location_score"] == 1
    assert oracle.components(made, {"a": ("node3", "node1")})["location_score"] == 0


def test_instances_of_one_tag_in_one_location_count() -> None:
    made = small_models.make("node1 4096 tag=rack:1\nnode2 4096 tag=rack:1\na 1 node1\nb 1 node2")
    tagged = tuple(replace(one, tags=("service:web",)) for one in made.instances)
    made = replace(made, instances=tagged, tags=("htools:nlocation:rack", "htools:iextags:service"))
    found = oracle.components(made)
    assert (found["location_exclusion_score"], found["pri_tags_score"]) == (1, 0)


def test_forthcoming_instances_count_only_where_they_are_expected() -> None:
    made = small_models.make("node1 4096\nnode2 4096\nweb 1024 node1 node2")
    made = replace(made, instances=tuple(replace(one, forthcoming=True) for one in made.instances))
    made = replace(made, nodes=tuple(replace(one, f_mem=4096, f_disk=100_000) for one in made.nodes))
    found = oracle.components(made)
    assert found["free_mem_cv"] == found["cpu_load_cv"] == found["reserved_mem_rtotal"] == 0
    assert found["free_mem_cv_forth"] == pytest.approx(1024 / 4096 / 2)


def test_on_exclusive_storage_free_spindles_take_the_place_of_disk() -> None:
    made = small_models.make("node1 4096\nnode2 4096\nweb 1024 node1")
    nodes = tuple(replace(one, exclusive_storage=True, spindles=4, free_spindles=4) for one in made.nodes)
    instances = tuple(replace(one, spindles=2) for one in made.instances)
    made = replace(made, nodes=nodes, instances=instances)
    assert oracle.components(made)["free_disk_cv"] == 0
    assert oracle.components(made, {"web": ("node2", "")})["free_disk_cv"] == pytest.approx(0.5)
    assert oracle.components(made)["spindles_cv"] == 0


def test_only_the_nodes_of_the_group_count() -> None:
    made = small_models.make("node1 4096\nnode2 4096\nnode3 4096 group=b\na 1024 node1\nb 1 node3")
    assert oracle.components(made, group="b")["free_mem_cv"] == 0
    assert oracle.components(made, group="a")["free_mem_cv"] == pytest.approx(1024 / 4096 / 2)


def test_the_bound_is_what_losing_the_largest_node_costs() -> None:
    made = small_models.make("node1 4096\nnode2 2048\nnode3 2048\nweb 1024 node1 node2")
    assert oracle.bound(made) == pytest.approx(0.25 * (1024 / 4096 - 1024 / 8192))
    assert oracle.bound(small_models.make("node1 4096")) == 0


def test_an_empty_cluster_scores_nothing() -> None:
    assert oracle.score(model.Model((), ())) == 0
