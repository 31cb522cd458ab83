from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import balancing, turns
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import greedy
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import limits, oracle, scoring, state
from hypothesis import given
from hypothesis import strategies as st

from tests import generated_clusters, thoroughness

from ...rounds import kinds
from . import walking

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

FEW = balancing.Options(most_pairs=5)


def _moved(cluster: model.Model, schedule: turns.Schedule) -> state.State:
    """The cluster after the steps of a plan; no node gets further beyond a limit on the way."""
    found = state.build(cluster)
    for turn in schedule.turns:
        for primary, secondary in walking.places(found, turn.move):
            before = [(node, limits.lacks(found, node)) for node in range(len(cluster.nodes))]
            found.move(found.by_instance[turn.move.instance], primary=primary, secondary=secondary)
            assert limits.worsened(found, before) == ""
    return found


def _data(cluster: model.Model, steps: list[greedy.Step]) -> float:
    sizes = {one.name: one for one in cluster.instances}
    return sum(
        step.action.value.count("r") * sizes[step.instance].disk
        + step.action.value.count("f") * sizes[step.instance].memory
        for step in steps
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_the_score_is_no_worse_than_hbals_choices_for_at_most_half_of_their_data(seed: int) -> None:
    cluster = generated_clusters.make(nodes=20, instances=200, seed=seed)
    steps = list(greedy.balance(state.build(cluster)))
    found = balancing.balance(state.build(cluster))
    assert oracle.total(found.after) <= steps[-1].score
    assert found.schedule.data_gib * 1024 <= _data(cluster, steps) / 2


@thoroughness.tried(15)
@given(seed=st.integers(0, 10_000))
def test_a_plan_keeps_every_limit_at_each_step_and_ends_at_the_score_it_promises(seed: int) -> None:
    cluster = generated_clusters.make(
        nodes=5, instances=20, seed=seed, offline=seed % 2, exclusion=seed % 3 == 0, shared=0.2, plain=0.1
    )
    searched = state.build(cluster)
    found = balancing.balance(searched, options=FEW)
    after = _moved(cluster, found.schedule)
    assert after.placement() == searched.placement()
    promised = oracle.components(cluster, after.placement())
    assert found.after == pytest.approx(promised, abs=1e-9)
    assert oracle.total(found.after) <= oracle.total(found.before) + 1e-9
    for primary, secondary in after.placement().values():
        assert primary != secondary


@pytest.mark.parametrize("seed", [1, 7, 13])
def test_what_is_possible_at_no_time_is_made_up_for_by_other_moves(seed: int) -> None:
    cluster = kinds.failing(generated_clusters.make(nodes=5, instances=55, seed=seed))
    kept = balancing.balance(state.build(cluster), options=replace(FEW, repairs=0))
    searched = state.build(cluster)
    repaired = balancing.balance(searched, options=FEW)
    assert kept.schedule.kept
    assert not repaired.schedule.kept
    assert oracle.total(repaired.after) < oracle.total(kept.after) / 5
    assert _moved(cluster, repaired.schedule).placement() == searched.placement()
    assert len({turn.move.instance for turn in repaired.schedule.turns}) == len(repaired.schedule.turns)


@pytest.mark.parametrize(("nodes", "seed"), [(8, 2), (5, 8)])
def test_another_look_that_makes_it_worse_is_forgotten(nodes: int, seed: int) -> None:
    cluster = kinds.failing(generated_clusters.make(nodes=nodes, instances=100 if nodes == 8 else 55, seed=seed))
    kept = balancing.balance(state.build(cluster), options=replace(FEW, repairs=0))
    searched = state.build(cluster)
    repaired = balancing.balance(searched, options=FEW)
    assert oracle.total(repaired.after) <= oracle.total(kept.after)
    assert _moved(cluster, repaired.schedule).placement() == searched.placement()


@pytest.mark.parametrize("kind", [balancing.balance, balancing.like_hbal])
def test_the_same_cluster_and_seed_have_the_same_plan(kind: object) -> None:
    cluster = generated_clusters.make(nodes=8, instances=60, seed=4)
    assert callable(kind)
    first, second = (kind(state.build(cluster), options=FEW) for _ in range(2))
    assert first.schedule == second.schedule
    assert first.schedule.turns


def test_only_instances_with_all_their_nodes_in_the_group_move_and_only_within_it() -> None:
    cluster = generated_clusters.make(nodes=8, instances=50, seed=2, groups=2, split=2)
    found = balancing.balance(state.build(cluster), group="group-1", options=FEW)
    groups = {one.name: one.group for one in cluster.nodes}
    first = next(one.uuid for one in cluster.groups if one.name == "group-1")
    assert found.schedule.turns
    for turn in found.schedule.turns:
        assert {groups[turn.primary], groups[turn.secondary]} == {first}
    split = {one.name for one in cluster.instances if groups[one.primary] != groups[one.secondary]}
    assert len(split) == 2
    assert split.isdisjoint(turn.move.instance for turn in found.schedule.turns)


def test_offline_nodes_are_left_and_never_taken() -> None:
    cluster = generated_clusters.make(nodes=8, instances=50, seed=2, offline=1)
    found = balancing.balance(state.build(cluster), options=FEW)
    assert found.after["offline_all_cnt"] == 0 < found.before["offline_all_cnt"]


@pytest.mark.parametrize("most", [0, 1, 3])
def test_no_more_instances_move_than_are_asked_for_and_the_score_is_that_of_these(most: int) -> None:
    cluster = generated_clusters.make(nodes=8, instances=60, seed=4)
    found = balancing.balance(state.build(cluster), options=replace(FEW, max_moves=most))
    after = _moved(cluster, found.schedule)
    assert len(found.schedule.turns) == most
    assert found.after == pytest.approx(scoring.components(after, scoring.scope(after)), abs=1e-12)


def test_hbals_choices_come_in_hbals_order() -> None:
    cluster = generated_clusters.make(nodes=8, instances=60, seed=4)
    steps = list(greedy.balance(state.build(cluster)))
    found = balancing.like_hbal(state.build(cluster))
    assert [(turn.move.instance, turn.primary, turn.secondary) for turn in found.schedule.turns] == [
        (step.instance, step.primary, step.secondary) for step in steps
    ]
    assert [turn.move.action for turn in found.schedule.turns] == [
        step.action.value.format(step.primary if "f" in step.action.value.partition("r:")[2] else step.secondary)
        for step in steps
    ]
    assert oracle.total(found.after) == pytest.approx(steps[-1].score, abs=1e-9)


def test_a_higher_price_copies_less() -> None:
    cluster = generated_clusters.make(nodes=10, instances=80, seed=1)
    dear, cheap = (
        balancing.balance(state.build(cluster), options=replace(FEW, price=price)).schedule.data_gib
        for price in (1.0, 0.0)
    )
    assert dear < cheap
