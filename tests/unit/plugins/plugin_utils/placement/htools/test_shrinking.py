"""Shrinking in stretches: what unit by unit would have found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import (
    newcomers,
    obstacles,
    openings,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import shrinking
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import state
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import generated_clusters

from ...rounds import kinds, small_models

if TYPE_CHECKING:
    from collections.abc import Iterator

SHRINKING = (newcomers.Kind.MEMORY, newcomers.Kind.DISK, newcomers.Kind.VCPUS, newcomers.Kind.SPINDLES)
TEMPLATES = (model.Template.DRBD, model.Template.PLAIN)


def _obstacles(cluster: model.Model, template: model.Template) -> obstacles.Obstacles:
    there = openings.online_nodes(state.build(cluster))
    everyone = np.ones(len(there.numbers), dtype=bool)
    newcomer = newcomers.Newcomer(newcomers.Size(1, 1, 1), template)
    policies = [group.policy for group in cluster.groups]
    return obstacles.Obstacles(there, newcomer, policies=policies, primaries=everyone, secondaries=everyone)


def _unit_by_unit(size: newcomers.Size, kind: newcomers.Kind) -> Iterator[newcomers.Size]:
    """All smaller sizes, one unit after the other, as long as at least one unit is left."""
    field, unit = shrinking.FIELDS[kind], shrinking.UNITS[kind]
    value = getattr(size, field)
    while value is not None and value - unit >= unit:
        value -= unit
        yield replace(size, **{field: value})


@st.composite
def sizes(draw: st.DrawFn) -> newcomers.Size:
    memory = draw(st.sampled_from((100, 2000, 40000, 65536)))
    return newcomers.Size(memory, draw(st.sampled_from((900, 40000, 300_000))), draw(st.integers(1, 16)), 3)


@settings(max_examples=60, deadline=None)
@given(kinds.clusters(), sizes(), st.sampled_from(SHRINKING), st.sampled_from(TEMPLATES))
def test_within_a_stretch_nothing_changes_and_it_ends_where_units_end(
    cluster: model.Model, size: newcomers.Size, kind: newcomers.Kind, template: model.Template
) -> None:
    found = _obstacles(cluster, template)
    stretch = shrinking.stretch(found, size, kind)
    passed = [size]
    smaller = _unit_by_unit(size, kind)
    while passed[-1] != stretch.last:
        passed.append(next(smaller))
    assert next(smaller, None) == stretch.beyond
    first = found.barred(size)
    assert all(found.barred(one) == first for one in passed)


@settings(max_examples=60, deadline=None)
@given(kinds.clusters(), sizes(), st.sampled_from(SHRINKING), st.sampled_from(TEMPLATES))
def test_the_first_size_that_suffices_is_that_of_single_units(
    cluster: model.Model, size: newcomers.Size, kind: newcomers.Kind, template: model.Template
) -> None:
    found = _obstacles(cluster, template)
    if found.places(size):
        return
    assert shrinking.sufficient(found, size, kind) == _slowly(found, size, kind)


def _slowly(found: obstacles.Obstacles, size: newcomers.Size, kind: newcomers.Kind) -> newcomers.Size | None:
    """hspace's way: it looks at a size only if one unit less were left, and gives up when the kind bars no place."""
    every = [size, *_unit_by_unit(size, kind)]
    for one in every[:-1]:
        if found.places(one):
            return one
        if not found.barred(one)[kind]:
            return None
    return None


def test_tags_and_numbers_of_disks_do_not_shrink() -> None:
    found = _obstacles(generated_clusters.make(nodes=2, instances=0), model.Template.DRBD)
    size = newcomers.Size(1024, 2048, 1)
    for kind in (newcomers.Kind.TAGS, newcomers.Kind.DISKS, newcomers.Kind.SPINDLES):
        assert shrinking.stretch(found, size, kind) == shrinking.Stretch(size, None)
        assert shrinking.sufficient(found, size, kind) is None


def test_the_last_unit_is_not_looked_at_just_as_hspace_does_not() -> None:
    made = small_models.make("node1 150\nnode2 80")
    anything = model.Policy(bounds=((model.Spec(1, 1, 1), model.Spec(4096, 8, 4096, 2, 8, 12)),))
    for node, expected in ((0, newcomers.Size(128, 1024, 1)), (1, None)):
        alone = replace(made, nodes=(made.nodes[node],), groups=(replace(made.groups[0], policy=anything),))
        found = _obstacles(alone, model.Template.PLAIN)
        assert shrinking.sufficient(found, newcomers.Size(256, 1024, 1), newcomers.Kind.MEMORY) == expected
