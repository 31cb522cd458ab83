from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import actions, candidates, scan
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing.actions import Action
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import columns, oracle, scoring, state
from hypothesis import strategies as st

from tests import generated_clusters

from ...rounds import kinds, small_models

if TYPE_CHECKING:
    from collections.abc import Iterator

Found = tuple[int, Action, int, int, float]


def every(moves: candidates.Candidates) -> Iterator[Found]:
    """Every move that is allowed, with its score."""
    held = moves.state.instances
    for block in moves.blocks():
        for row, instance in enumerate(block.rows):
            nodes = int(held.primary[instance]), int(held.secondary[instance])
            if block.failover[row] < scan.REFUSED:
                yield int(instance), Action.FAILOVER, *nodes[::-1], float(block.failover[row])
            for place, column in np.argwhere(block.moved[:, row] < scan.REFUSED):
                shared = nodes[1] == columns.NOWHERE
                action = Action.FAILOVER_TO_ANY if shared else actions.TO_TARGET[place]
                placed = action.placed(*nodes, int(block.targets[column]))
                yield int(instance), action, *placed, float(block.moved[place, row, column])


def of(cluster: model.Model, *, ignore_soft: bool = False) -> candidates.Candidates:
    found = state.build(cluster)
    return candidates.in_scope(found, scoring.scope(found), ignore_soft=ignore_soft)


def named(cluster: model.Model, *, ignore_soft: bool = False) -> set[str]:
    """Instance and action as hbal would print them."""
    moves = of(cluster, ignore_soft=ignore_soft)
    found = set()
    for instance, action, primary, secondary, _ in every(moves):
        old = cluster.instances[instance]
        new = [cluster.nodes[node].name for node in (primary, secondary) if node != columns.NOWHERE]
        new = [name for name in new if name not in {old.primary, old.secondary}]
        found.add(f"{old.name} {action.value.format(*new)}")
    return found


def assert_exact(cluster: model.Model, *, ignore_soft: bool) -> None:
    """Every candidate's score is that of the state after it, and now and then the oracle's; three moves long."""
    for group in cluster.groups:
        found = state.build(cluster)
        moves = candidates.in_scope(found, scoring.scope(found, group=group.name), ignore_soft=ignore_soft)
        for _ in range(3):
            told = list(every(moves))
            for number, (instance, _, primary, secondary, score) in enumerate(told):
                undo = found.move(instance, primary=primary, secondary=secondary)
                assert score == pytest.approx(scoring.score(found, moves.where), abs=1e-9)
                if number % max(1, len(told) // 5) == 0:
                    exact = oracle.score(cluster, found.placement(), group=group.name)
                    assert score == pytest.approx(exact, abs=1e-9)
                found.undo(undo)
            if told:
                instance, _, primary, secondary, _ = told[len(told) // 2]
                found.move(instance, primary=primary, secondary=secondary)


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(kinds.clusters(), st.booleans())
def test_every_candidates_score_is_the_oracles_after_every_move(cluster: model.Model, ignore_soft: bool) -> None:
    assert_exact(cluster, ignore_soft=ignore_soft)


@pytest.mark.parametrize("offline", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_exact_where_nodes_fail_n_plus_1_and_tags_conflict(seed: int, offline: int) -> None:
    made = generated_clusters.make(nodes=6, instances=40, seed=seed, offline=offline, exclusion=True, locations=True)
    few = tuple(replace(one, tags=(f"service:{number % 3}",)) for number, one in enumerate(made.instances))
    assert_exact(kinds.failing(replace(made, instances=few)), ignore_soft=True)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(kinds.clusters(), st.booleans())
def test_no_allowed_move_ends_over_memory_or_disk_or_on_a_node_that_is_not_there(
    cluster: model.Model, ignore_soft: bool
) -> None:
    moves = of(cluster, ignore_soft=ignore_soft)
    nodes, held = moves.state.nodes, moves.state.instances
    for instance, _, primary, secondary, _ in list(every(moves)):
        was = int(held.primary[instance]), int(held.secondary[instance])
        undo = moves.state.move(instance, primary=primary, secondary=secondary)
        assert primary != secondary
        for node in {primary, secondary} - set(was) - {columns.NOWHERE}:
            assert not nodes.offline[node]
            assert nodes.disk[node] > 0 or not held.disk[instance] or not held.real[instance]
        if primary != was[0] and held.real[instance]:
            assert nodes.memory[primary] > 0
        moves.state.undo(undo)


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(kinds.clusters(), st.integers(2, 40))
def test_small_blocks_tell_the_same(cluster: model.Model, size: int) -> None:
    moves = of(cluster)
    rows = moves.movable()
    parts = [block for start in range(0, len(rows), size) for block in moves.blocks(rows[start : start + size])]
    whole = list(moves.blocks())
    if whole:
        assert np.allclose(np.concatenate([one.failover for one in parts]), whole[0].failover, rtol=0, atol=1e-9)
        assert np.allclose(np.concatenate([one.moved for one in parts], axis=1), whole[0].moved, rtol=0, atol=1e-9)


@pytest.mark.parametrize("count", [3, 5, 7, 9, 11, 13])
def test_an_even_load_is_found_although_the_digits_cancel(count: int) -> None:
    """The node with two gives one to the node with none: the spread is 0, not a rest of 1e-8."""
    nodes = "".join(f"node{number} 4096\n" for number in range(count))
    ones = "".join(f"i{number} 0 node{number} rbd\n" for number in range(1, count))
    scores = [score for *_, score in every(of(small_models.make(f"{nodes}{ones}more 0 node1 rbd")))]
    assert min(scores) == pytest.approx(0.0, abs=1e-12)


def test_a_pair_has_all_moves_and_shared_storage_goes_anywhere() -> None:
    text = "node1 9000\nnode2 9000\nnode3 9000\npair 1024 node1 node2\ndisk 1024 node1 rbd\nfixed 1024 node1"
    pair = {"pair f", "pair r:node3", "pair r:node3 f", "pair f r:node3 f", "pair f r:node3"}
    assert named(small_models.make(text)) == {*pair, "disk fa:node2", "disk fa:node3"}


def test_an_offline_secondary_leaves_two_moves() -> None:
    text = "node1 9000\nnode2 9000 offline\nnode3 9000\npair 1024 node1 node2"
    assert named(small_models.make(text)) == {"pair r:node3", "pair r:node3 f"}


@pytest.mark.parametrize("word", ["loose", "gone loose"])
def test_what_is_not_balanced_automatically_stays(word: str) -> None:
    assert not named(small_models.make(f"node1 9000\nnode2 9000\nnode3 9000\npair 1024 node1 node2 {word}"))


def test_an_instance_that_is_split_over_groups_stays() -> None:
    made = small_models.make("node1 9000\nnode2 9000 group=b\nnode3 9000\nnode4 9000 group=b\npair 1024 node1 node2")
    found = state.build(made)
    for group in ("a", "b"):
        assert not list(candidates.in_scope(found, scoring.scope(found, group=group)).blocks())


def test_without_memory_no_node_becomes_primary_but_it_may_become_secondary_of_a_small_one() -> None:
    text = "node1 9000\nnode2 9000\nnode3 1024\npair 1024 node1 node2"
    assert named(small_models.make(text)) == {"pair f"}
    assert named(small_models.make(text), ignore_soft=True) == {"pair f", "pair r:node3", "pair f r:node3"}


def test_a_move_that_makes_a_node_fail_n_plus_1_is_refused_unless_soft_checks_are_ignored() -> None:
    text = "node1 9000\nnode2 9000\nnode3 3000\nbig 2500 node1 node3\npair 1000 node1 node2"
    refused = {"pair r:node3", "pair r:node3 f", "pair f r:node3 f"}
    assert refused.isdisjoint(named(small_models.make(text)))
    assert refused <= named(small_models.make(text), ignore_soft=True)


def test_a_secondary_that_could_not_start_both_is_refused_for_the_new_primary() -> None:
    text = "node1 9000\nnode2 {}\nnode3 9000\nbig 2000 node3 node2\npair 1500 node1 node2 down"
    assert "pair f r:node3 f" not in named(small_models.make(text.format(3500)))
    assert "pair f r:node3 f" in named(small_models.make(text.format(3501)))


def test_leaving_an_offline_primary_waives_the_soft_checks() -> None:
    text = "node1 9000 {}\nnode2 9000\nnode3 3000\nnode4 9000\nbig 2500 node4 node3\npair 1000 node1 node2"
    assert "pair f r:node3 f" not in named(small_models.make(text.format("")))
    assert "pair f r:node3 f" in named(small_models.make(text.format("offline")))


def test_a_second_primary_of_an_exclusion_tag_is_refused() -> None:
    made = small_models.make("node1 9000\nnode2 9000\nnode3 9000\na 1024 node1 node2\nb 1024 node3 node2")
    tagged = tuple(replace(one, tags=("service:web",)) for one in made.instances)
    made = replace(made, instances=tagged, tags=("htools:iextags:service",))
    assert {"a r:node3", "a f r:node3"} <= named(made)
    assert named(made).isdisjoint({"a r:node3 f", "a f r:node3 f"})


def test_more_vcpus_than_the_policy_allows_are_refused() -> None:
    made = small_models.make("node1 9000\nnode2 9000\nnode3 9000\na 1024 node1 node2")
    small = tuple(replace(one, pcpus=0.5 if one.name == "node3" else 8) for one in made.nodes)
    assert named(replace(made, nodes=small)) == {"a f", "a r:node3", "a r:node3 f", "a f r:node3 f", "a f r:node3"}
    most = (replace(made.groups[0], policy=model.Policy(vcpu_ratio=3.9)),)
    assert named(replace(made, nodes=small, groups=most)) == {"a f", "a r:node3", "a f r:node3"}


@pytest.mark.parametrize("ignore_soft", [False, True])
def test_a_disk_that_does_not_fit_is_refused_whatever_is_ignored(ignore_soft: bool) -> None:
    text = "node1 9000\nnode2 9000\nnode3 9000 disk={}\na 1024 node1 node2 disk=500"
    assert named(small_models.make(text.format(500)), ignore_soft=ignore_soft) == {"a f"}
    assert len(named(small_models.make(text.format(501)), ignore_soft=ignore_soft)) == 5


def test_a_primary_that_takes_all_memory_is_refused_whatever_is_ignored() -> None:
    text = "node1 9000\nnode2 9000\nnode3 {}\na 1024 node1 rbd"
    assert named(small_models.make(text.format(1024)), ignore_soft=True) == {"a fa:node2"}
    assert named(small_models.make(text.format(1025)), ignore_soft=True) == {"a fa:node2", "a fa:node3"}


def test_busier_spindles_than_the_policy_allows_are_refused() -> None:
    made = small_models.make("node1 9000\nnode2 9000\nnode3 9000\na 1024 node1 node2")
    busy = tuple(replace(one, spindle_use=33) for one in made.instances)
    more = tuple(replace(one, spindles=1 if one.name == "node3" else 2) for one in made.nodes)
    assert named(replace(made, nodes=more, instances=busy)) == {"a f"}
    assert len(named(replace(made, nodes=more, instances=busy), ignore_soft=True)) == 5


def test_a_primary_without_any_memory_left_keeps_its_secondary() -> None:
    """A new secondary takes the instance anew at its primary too, which needs room there."""
    text = "node1 1024 {}\nnode2 9000\nnode3 9000\na 1024 node1 node2"
    assert "a r:node3" not in named(small_models.make(text.format("")), ignore_soft=True)
    assert "a r:node3" in named(small_models.make(text.format("").replace("1024 \n", "1025 \n")))


def test_an_offline_primary_without_disk_may_become_secondary() -> None:
    text = "node1 9000 disk=10 {}\nnode2 9000\na 1024 node1 node2"
    assert named(small_models.make(text.format(""))) == set()
    assert named(small_models.make(text.format("offline"))) == {"a f"}


def test_unknown_spindles_do_not_go_to_exclusive_storage() -> None:
    made = small_models.make("node1 9000\nnode2 9000\nnode3 9000\na 1024 node1 node2")
    nodes = tuple(replace(one, exclusive_storage=one.name == "node3", free_spindles=9) for one in made.nodes)
    assert named(replace(made, nodes=nodes)) == {"a f"}


def test_live_migration_needs_the_tags() -> None:
    made = small_models.make("node1 9000 tag=kernel:1\nnode2 9000 tag=kernel:2\nnode3 9000\na 1024 node1 node2")
    made = replace(made, tags=("htools:migration:kernel",))
    assert named(made) == {"a r:node3"}
    made = replace(made, tags=(*made.tags, "htools:allowmigration:kernel:1::kernel:2"))
    assert named(made) == {"a r:node3", "a f", "a f r:node3"}


def test_the_best_moves_come_in_hbals_order() -> None:
    made = generated_clusters.make(nodes=6, instances=30)
    moves = of(made)
    found = moves.best(below=np.inf, within=np.inf)
    assert len(found) == len(list(every(moves)))
    order = [Action.FAILOVER, *actions.TO_TARGET]
    first = [move.action for move in found if move.instance == found[0].instance]
    assert first[:5] == [action for action in order if action in first[:5]]
    assert [move.instance for move in found] == sorted(move.instance for move in found)
    least = moves.best(below=np.inf, within=0.0)
    assert {move.score for move in least} == {min(move.score for move in found)}
    assert not moves.best(below=least[0].score, within=1.0)
