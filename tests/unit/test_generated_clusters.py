from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import state

from tests import generated_clusters


def test_the_same_seed_makes_the_same_cluster_and_another_seed_another_one() -> None:
    made = generated_clusters.make(nodes=6, instances=30, seed=4)
    assert made == generated_clusters.make(nodes=6, instances=30, seed=4)
    assert made != generated_clusters.make(nodes=6, instances=30, seed=5)


def test_everything_fits_and_nothing_is_missing() -> None:
    made = generated_clusters.make(nodes=20, instances=200, groups=2, offline=1, stopped=0.2, plain=0.1, shared=0.1)
    nodes = state.build(made).nodes
    assert nodes.memory.min() > 0
    assert nodes.disk.min() > 0
    assert [one.f_mem for one in made.nodes] == list(nodes.memory)


def test_pairs_stay_in_their_group_but_for_those_that_are_split() -> None:
    made = generated_clusters.make(nodes=8, instances=40, groups=2, split=3)
    groups = {one.name: one.group for one in made.nodes}
    across = [groups[one.primary] != groups[one.secondary] for one in made.instances]
    assert across == [True] * 3 + [False] * 37


def test_shares_and_tags_are_as_asked_for() -> None:
    made = generated_clusters.make(nodes=8, instances=100, shared=0.3, plain=0.2, exclusion=True, locations=True)
    found = [one.template for one in made.instances]
    assert 15 < found.count(model.Template.RBD) < 45
    assert 8 < found.count(model.Template.PLAIN) < 35
    assert any(tag.startswith("service:") for one in made.instances for tag in one.tags)
    assert all(one.tags for one in made.nodes)


def test_too_many_instances_are_refused() -> None:
    with pytest.raises(ValueError, match="no room for inst-"):
        generated_clusters.make(nodes=2, instances=500)
