from __future__ import annotations

import itertools
from dataclasses import replace

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing.actions import Action
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import greedy
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle, state
from hypothesis import strategies as st

from tests import generated_clusters, thoroughness

from ...rounds import kinds, small_models

CROWDED = "node1 9000\nnode2 9000\nnode3 9000\na 1024 node1 node2\nb 1024 node1 node2\nc 1024 node1 node2"


def steps(cluster: model.Model, *, group: str | None = None, **rules: float | bool | None) -> list[greedy.Step]:
    found = state.build(cluster)
    return list(greedy.balance(found, group=group, rules=greedy.Rules(**rules)))  # type: ignore[arg-type] # names are few


@thoroughness.tried(40)
@hypothesis.given(kinds.clusters())
def test_every_step_is_better_and_scores_what_the_oracle_says(cluster: model.Model) -> None:
    for group in cluster.groups:
        placed = {one.name: (one.primary, one.secondary) for one in cluster.instances}
        score = oracle.score(cluster, group=group.name)
        for step in steps(cluster, group=group.name, max_moves=4):
            placed[step.instance] = (step.primary, step.secondary)
            assert step.score < score
            score = oracle.score(cluster, placed, group=group.name)
            assert step.score == score


@thoroughness.tried(25)
@hypothesis.given(kinds.clusters(), st.integers(0, 9))
def test_no_other_failover_would_have_been_better(cluster: model.Model, number: int) -> None:
    """Of what the checks allow in any case: a change of roles among nodes that have room for everything twice."""
    roomy = tuple(
        replace(one, t_mem=9e6, f_mem=8_000_000, pcpus=4e3, spindles=999, offline=False, exclusive_storage=False)
        for one in cluster.nodes
    )
    cluster = replace(cluster, nodes=roomy, tags=())
    pairs = [one for one in cluster.instances if one.template.is_mirrored and not one.forthcoming]
    groups = {one.name: one.group for one in cluster.nodes}
    together = [one for one in pairs if groups[one.primary] == groups[one.secondary]]
    if not together:
        return
    one = together[number % len(together)]
    group = next(mine.name for mine in cluster.groups if mine.uuid == groups[one.primary])
    found = steps(cluster, group=group, max_moves=1, least=-1e9)
    score = oracle.score(cluster, {one.name: (one.secondary, one.primary)}, group=group)
    assert score >= (found[0].score if found else oracle.score(cluster, group=group)) - 1e-12


def test_it_stops_after_so_many_moves_and_goes_on_where_it_was() -> None:
    cluster = generated_clusters.make(nodes=6, instances=30)
    whole = steps(cluster)
    assert len(whole) > 4
    assert steps(cluster, max_moves=0) == []
    found = state.build(cluster)
    first = list(greedy.balance(found, rules=greedy.Rules(max_moves=3)))
    assert first == whole[:3]
    assert first + list(greedy.balance(found)) == whole


def test_small_gains_end_it_once_the_score_is_small() -> None:
    cluster = generated_clusters.make(nodes=6, instances=30)
    whole = steps(cluster, small_score=0.0)
    scores = [oracle.score(cluster), *(step.score for step in whole)]
    gains = [before - after for before, after in itertools.pairwise(scores)]
    least = sorted(gains)[len(gains) // 2]
    first_small = next(number for number, gain in enumerate(gains) if gain < least)
    assert steps(cluster, small_score=1e9, small_gain=least) == whole[:first_small]
    assert steps(cluster, small_score=scores[2], small_gain=1e9) == whole[:2]


def test_it_does_not_start_below_the_bound() -> None:
    assert steps(small_models.make(CROWDED))
    assert steps(small_models.make(CROWDED), least=1e9) == []


def test_among_equals_the_first_instance_and_the_first_target_win() -> None:
    step = steps(small_models.make(f"{CROWDED}\nnode4 9000"), max_moves=1)[0]
    assert (step.instance, step.action, step.primary) == ("a", Action.REPLACE_PRIMARY, "node3")


def test_instances_leave_offline_nodes_although_soft_checks_forbid_it() -> None:
    text = "node1 9000 offline\nnode2 9000\nnode3 3000\nnode4 9000\nbig 2500 node4 node3\na 1000 node1 node2"
    placed = {step.instance: (step.primary, step.secondary) for step in steps(small_models.make(text))}
    assert "node1" not in placed["a"]


def test_only_the_group_moves_and_what_is_split_over_groups_stays() -> None:
    cluster = generated_clusters.make(nodes=8, instances=40, groups=2, split=4)
    split = {one.name for one in cluster.instances[:4]}
    mine = {one.name for one in cluster.nodes if one.group == "uuid-2"}
    found = steps(cluster, group="group-2")
    assert found
    assert split.isdisjoint(step.instance for step in found)
    assert {node for step in found for node in (step.primary, step.secondary)} <= mine


def test_without_load_other_moves_are_best() -> None:
    cluster = generated_clusters.make(nodes=6, instances=30)
    none = tuple(replace(one, load=model.Load(0, 0, 0, 0)) for one in cluster.instances)
    assert steps(replace(cluster, instances=none)) != steps(cluster)


@pytest.mark.parametrize("text", ["", "node1 4096", "node1 4096\na 1 node1"])
def test_where_nothing_can_move_there_are_no_steps(text: str) -> None:
    assert steps(small_models.make(text)) == []
