"""The score after an instance is placed: for every place what the score of the whole cluster then is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import (
    allocation,
    allocator,
    obstacles,
    openings,
    placed_scores,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle, state
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import generated_clusters

from ...rounds import kinds, newcomer_models

ROUNDING = 1e-6


def _pairs(cluster: model.Model, wanted: allocator.Wanted) -> tuple[openings.Openings, placed_scores.PlacedScores]:
    there = openings.online_nodes(state.build(cluster))
    return there, placed_scores.PlacedScores(there, allocation.newcomer_of(wanted, cluster))


@settings(max_examples=80, deadline=None)
@given(kinds.clusters(), newcomer_models.wanted(), st.data())
def test_the_score_of_a_place_is_that_of_the_cluster_with_the_instance_there(
    cluster: model.Model, wanted: allocator.Wanted, data: st.DataObject
) -> None:
    there, scores = _pairs(cluster, wanted)
    numbers = there.numbers.tolist()
    first = data.draw(st.integers(0, len(numbers) - 1))
    names = [cluster.nodes[number].name for number in numbers]
    one = replace(wanted.instance, primary=names[first])
    if not one.template.is_mirrored:
        expected = _score(cluster, one, there)
        assert scores.singles(np.array([first]))[0] == pytest.approx(expected, abs=ROUNDING)
        return
    for second, found in enumerate(scores.pairs(np.array([first]))[0]):
        if second != first:
            placed = replace(one, secondary=names[second])
            assert found == pytest.approx(_score(cluster, placed, there), abs=ROUNDING)


def _score(cluster: model.Model, one: model.Instance, there: openings.Openings) -> float:
    """The whole score, but for what no place does: a node comes to fail N+1, exclusion tags meet."""
    after = newcomer_models.added(cluster, one)
    found = oracle.components(after)
    now = state.build(after).nodes
    held = (now.primaries + now.secondaries)[there.numbers]
    found["n1_cnt"] = float(held[there.failing].sum())
    found["pri_tags_score"] = oracle.components(cluster)["pri_tags_score"]
    return oracle.total(found)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.sampled_from((1024, 8192)))
def test_the_best_of_many_places_is_found_without_looking_at_all(seed: int, memory: int) -> None:
    cluster = generated_clusters.make(nodes=24, instances=60, seed=seed, exclusion=True, locations=seed % 2 == 0)
    wanted = allocator.Wanted(newcomer_models.new(memory, tags=("service:1", "rack:1")))
    there, scores = _pairs(cluster, wanted)
    everyone = np.ones(24, dtype=bool)
    found = obstacles.Obstacles(
        there,
        allocation.newcomer_of(wanted, cluster),
        policies=[group.policy for group in cluster.groups],
        primaries=everyone,
        secondaries=everyone,
    )
    places = found.places(allocation.newcomer_of(wanted, cluster).size)
    every = np.where(places.pairs, scores.pairs(places.primaries), np.inf)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(placed_scores, "TRIED", 1)
        best = scores.best(places)
    assert best.score == every.min()
    last = np.flatnonzero(every.ravel() == every.min())[-1]
    assert (best.primary, best.secondary) == (places.primaries[last // 24], last % 24)


def test_of_equal_places_the_last_is_the_best() -> None:
    node = generated_clusters.make(nodes=1, instances=0).nodes[0]
    nodes = tuple(replace(node, name=f"node{number}") for number in range(5))
    group = model.Group("a", node.group)
    for template, expected in ((model.Template.PLAIN, ("node4",)), (model.Template.DRBD, ("node4", "node3"))):
        wanted = allocator.Wanted(newcomer_models.new(1024, template=template))
        (placed,) = allocation.allocate(model.Model((group,), nodes), allocator.Allocate(wanted)).placements
        assert placed.nodes == expected
