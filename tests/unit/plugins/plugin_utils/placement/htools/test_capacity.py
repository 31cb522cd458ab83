"""How many new instances fit, counted by hand and placed one after the other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import newcomers
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import capacity
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import state
from hypothesis import given, settings

from ...rounds import kinds, small_models

FOUR = small_models.make("".join(f"node{number} 8192 disk=20000\n" for number in range(4)))
PLAIN, DRBD = model.Template.PLAIN, model.Template.DRBD


def _filling(cluster: model.Model, template: model.Template) -> capacity.Filling:
    now = state.build(cluster)
    newcomer = newcomers.Newcomer(newcomers.Size(1, 1, 1, 1), template)
    policies = [group.policy for group in cluster.groups]
    return capacity.Filling(now, newcomer, policies=policies, allowed=~now.nodes.offline)


def test_instances_of_one_size_are_counted_until_memory_is_up() -> None:
    assert _filling(FOUR, PLAIN).standard(newcomers.Size(2048, 1024, 1)) == 4 * 3
    assert _filling(FOUR, PLAIN).standard(newcomers.Size(2047, 1024, 1)) == 4 * 4
    assert _filling(FOUR, PLAIN).standard(newcomers.Size(1024, 9000, 1)) == 4 * 2
    assert _filling(FOUR, PLAIN).standard(newcomers.Size(1024, 1024, 8)) == 4 * 3
    assert _filling(FOUR, PLAIN).standard(newcomers.Size(9000, 1024, 1)) == 0


def test_pairs_take_disk_twice_and_keep_memory_free() -> None:
    assert _filling(FOUR, DRBD).standard(newcomers.Size(128, 9999, 1)) == 4
    two = replace(FOUR, nodes=FOUR.nodes[:2])
    assert _filling(two, DRBD).standard(newcomers.Size(4000, 1024, 1)) == 2
    assert _filling(two, DRBD).standard(newcomers.Size(4096, 1024, 1)) == 1


def test_the_size_shrinks_where_most_is_barred() -> None:
    two = replace(FOUR, nodes=FOUR.nodes[:2])
    tiers = _filling(two, PLAIN).tiered(newcomers.Size(4096, 1024, 4))
    assert tiers == [
        capacity.Tier(newcomers.Size(4096, 1024, 4), 2),
        capacity.Tier(newcomers.Size(4032, 1024, 4), 2),
    ]
    assert _filling(two, PLAIN).tiered(newcomers.Size(4096, 1024, 400)) == [
        capacity.Tier(newcomers.Size(4096, 1024, 8), 2),
        capacity.Tier(newcomers.Size(4032, 1024, 8), 2),
    ]


def test_nothing_fits_where_no_node_takes_anything() -> None:
    closed = replace(FOUR, nodes=tuple(replace(node, offline=True) for node in FOUR.nodes))
    for template in (PLAIN, DRBD):
        assert _filling(closed, template).standard(newcomers.Size(1024, 1024, 1)) == 0
        assert _filling(closed, template).tiered(newcomers.Size(1024, 1024, 1, 1)) == []


@settings(max_examples=60, deadline=None)
@given(kinds.clusters())
def test_no_node_is_over_memory_or_disk_and_no_n_plus_1_is_lost(cluster: model.Model) -> None:
    for template in (PLAIN, DRBD):
        filling = _filling(cluster, template)
        before = filling.openings.nodes.memory.copy(), filling.openings.nodes.disk.copy()
        tiers = filling.tiered(newcomers.Size(32768, 300_000, 8, 3))
        nodes, short = filling.openings.nodes, filling.openings.short
        assert (nodes.memory[nodes.memory != before[0]] > 0).all()
        assert (nodes.disk[nodes.disk != before[1]] > 0).all()
        assert (nodes.memory >= nodes.reserved)[~short].all()
        assert tiers == _filling(cluster, template).tiered(newcomers.Size(32768, 300_000, 8, 3))
        sizes = [tier.size for tier in tiers]
        assert all(_shrunk(one, other) for one, other in itertools.pairwise(sizes))
        placed = sum(tier.count for tier in tiers)
        assert placed == np.sum(nodes.primaries) - np.sum(_filling(cluster, template).openings.nodes.primaries)


def _shrunk(one: newcomers.Size, other: newcomers.Size) -> bool:
    fields = ("memory", "disk", "vcpus", "spindles")
    return one != other and all(getattr(other, name) <= getattr(one, name) for name in fields)
