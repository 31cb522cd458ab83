from __future__ import annotations

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import clearing, rolling
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, node_memory
from hypothesis import strategies as st

from tests import generated_clusters, thoroughness

from ...rounds import kinds, small_models

NODES = "\n".join(f"node{number} 4096" for number in range(1, 5))
ALL = rolling.Options()
IGNORE = rolling.NonRedundant.IGNORE
SKIP = rolling.NonRedundant.SKIP


def _steps(text: str, options: rolling.Options = ALL) -> list[tuple[str, ...]]:
    return [step.nodes for step in rolling.plan(small_models.make(text), options=options).steps]


def test_both_nodes_of_an_instance_are_never_away_at_once() -> None:
    assert _steps(f"{NODES}\nweb1 10 node1 node2\nweb2 10 node3 node4") == [("node1", "node3"), ("node2", "node4")]
    model = generated_clusters.make(nodes=30, instances=150, seed=4)
    steps = rolling.plan(model).steps
    assert sorted(node for step in steps for node in step.nodes) == sorted(node.name for node in model.nodes)
    for instance in model.instances:
        assert not any({instance.primary, instance.secondary} <= set(step.nodes) for step in steps)


def test_two_nodes_whose_primaries_share_a_secondary_are_not_in_one_step_unless_all_is_shut_down() -> None:
    text = f"{NODES}\nweb1 10 node1 node4\nweb2 10 node2 node4"
    assert len(_steps(text)) == 3
    assert not any({"node1", "node2"} <= set(step) for step in _steps(text))
    assert _steps(text, rolling.Options(offline_maintenance=True)) == [("node3", "node4"), ("node1", "node2")]


def test_an_offline_secondary_counts_though_it_is_in_no_step() -> None:
    text = "node1 4096\nnode2 4096\nnode3 4096 offline\nweb1 10 node1 node3\nweb2 10 node2 node3"
    assert _steps(text) == [("node2",), ("node1",)]


def test_the_largest_step_is_first_and_the_master_is_last_of_all() -> None:
    large = (
        NODES.replace("node1 4096", "node1 4096 master")
        + "\nweb1 1 node1 node4\nweb2 1 node4 node2\nweb3 1 node4 node3"
    )
    assert _steps(large) == [("node4",), ("node2", "node3", "node1")]
    assert _steps(large.replace(" master", "")) == [("node1", "node2", "node3"), ("node4",)]
    alone = _steps("node1 4096\nnode2 4096 master\nnode3 4096\nweb1 10 node1 node2\nweb2 10 node3 node2")
    assert alone == [("node3",), ("node1",), ("node2",)]


def test_nodes_are_chosen_by_group_and_tag() -> None:
    text = "node1 4096 tag=old\nnode2 4096\nnode3 4096 group=b tag=old\nnode4 4096 group=b"
    assert _steps(text, rolling.Options(group="b")) == [("node3", "node4")]
    assert _steps(text, rolling.Options(tags=("old", "new"))) == [("node1", "node3")]
    assert _steps(text, rolling.Options(group="a", tags=("new",))) == []
    with pytest.raises(errors.NotFound, match="there is no node group 'c'"):
        _steps(text, rolling.Options(group="c"))


def test_a_step_is_split_where_what_has_no_secondary_would_not_fit_elsewhere() -> None:
    text = "node1 2048\nnode2 2048\nnode3 2048\nlone1 1500 node1\nlone2 1500 node2"
    assert _steps(text) == [("node1",), ("node2",), ("node3",)]
    assert _steps(text, rolling.Options(non_redundant=IGNORE)) == [("node1", "node2", "node3")]
    assert _steps(text, rolling.Options(non_redundant=SKIP)) == [("node3",)]


def test_what_moves_before_a_step_is_named_and_fits() -> None:
    text = "node1 4096\nnode2 1024\nnode3 4096\nnode4 1024\nlone1 2000 node1\nweb1 10 node1 node3"
    first = rolling.plan(small_models.make(text)).steps
    assert [step.moves for step in first if "node1" in step.nodes] == [(clearing.Displacement("lone1", "node3"),)]


def test_an_instance_that_was_moved_to_a_node_of_the_same_step_moves_on() -> None:
    text = "node1 4096\nnode2 4096\nnode3 4096\nlone1 1000 node1\nlone2 1000 node2"
    first = rolling.plan(small_models.make(text)).steps[0]
    assert first.nodes == ("node1", "node2")
    assert set(first.moves) == {clearing.Displacement("lone1", "node3"), clearing.Displacement("lone2", "node3")}


def test_memory_disk_and_the_group_bound_what_moves() -> None:
    full = "node1 4096\nnode2 4096 missing=3000\nnode3 4096 disk=1000\nnode4 9000 group=b\nlone1 1500 node1 disk=1500"
    plan = rolling.plan(small_models.make(full))
    assert [refusal.node for refusal in plan.refused] == ["node1"]
    assert plan.refused[0].instance == "lone1"
    assert plan.refused[0].text == (
        "no other node has more than 1500 MiB of memory and 1500 MiB of disk free: "
        "the one with the most memory is node3 with 4096 and 1000 MiB"
    )
    assert [step.nodes for step in plan.steps] == [("node2", "node3", "node4")]
    assert not rolling.plan(small_models.make(full.replace("disk=1500", "rbd"))).refused
    assert not rolling.plan(small_models.make(full.replace("disk=1500", "disk=999"))).refused
    assert rolling.plan(small_models.make(full.replace("disk=1500", "disk=1000"))).refused


def test_a_node_without_others_in_its_group_cannot_be_emptied() -> None:
    (refusal,) = rolling.plan(small_models.make("node1 4096\nnode2 4096 group=b\nlone1 1 node1 rbd")).refused
    assert refusal.text == "no other node of its group takes instances: it needs 1 MiB of memory"


def test_stopped_instances_need_no_memory_elsewhere() -> None:
    text = "node1 4096\nnode2 1000\nlone1 2000 node1 {}"
    assert rolling.plan(small_models.make(text.format(""))).refused
    assert not rolling.plan(small_models.make(text.format("down"))).refused


def test_an_empty_cluster_has_no_steps() -> None:
    assert rolling.plan(small_models.make("node1 4096 offline")) == rolling.Rolling(())


def test_the_same_cluster_has_the_same_plan() -> None:
    model = generated_clusters.make(nodes=30, instances=90, plain=0.3, seed=2)
    assert rolling.plan(model) == rolling.plan(model)


def test_a_node_that_could_not_be_emptied_takes_no_room_of_those_that_can() -> None:
    text = "node1 9000\nnode2 2500\nnode3 4096\nlone1 8000 node1\nlone2 2000 node1\nlone3 2400 node3"
    plan = rolling.plan(small_models.make(text))
    assert [(refusal.node, refusal.instance) for refusal in plan.refused] == [("node1", "lone1")]
    assert [step.moves for step in plan.steps if "node3" in step.nodes] == [(clearing.Displacement("lone3", "node2"),)]


@thoroughness.tried(150)
@hypothesis.given(kinds.clusters(), st.booleans())
def test_in_each_step_a_node_of_each_pair_stays_and_all_that_moves_has_room(
    cluster: model.Model, offline_maintenance: bool
) -> None:
    plan = rolling.plan(cluster, options=rolling.Options(offline_maintenance=offline_maintenance))
    named = [node for step in plan.steps for node in step.nodes] + [one.node for one in plan.refused]
    assert sorted(named) == sorted(node.name for node in cluster.nodes if node_memory.takes_instances(node))
    made = [one for one in cluster.instances if not one.forthcoming]
    for step in plan.steps:
        away = set(step.nodes)
        pairs = [one for one in made if one.secondary]
        assert not any({one.primary, one.secondary} <= away for one in pairs)
        if not offline_maintenance:
            backed = {(one.primary, one.secondary) for one in pairs if one.primary in away}
            assert len(backed) == len({secondary for _, secondary in backed})
        _check_moves(cluster, step, away)


def _check_moves(cluster: model.Model, step: rolling.Step, away: set[str]) -> None:
    to = {move.instance: move.node for move in step.moves}
    alone = [one for one in cluster.instances if not one.secondary and not one.forthcoming]
    assert set(to) == {one.name for one in alone if one.primary in away}
    groups = {node.name: node.group for node in cluster.nodes}
    memory, disk = node_memory.free(cluster), {node.name: node.f_disk for node in cluster.nodes}
    for one in (one for one in alone if one.name in to):
        node = to[one.name]
        assert node not in away
        assert groups[node] == groups[one.primary]
        memory[node] -= one.memory * one.takes_memory
        disk[node] -= one.disk * one.template.is_on_volumes
        assert memory[node] > 0
        assert disk[node] > 0 or not one.template.is_on_volumes
