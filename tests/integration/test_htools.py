"""Scores and choices against Ganeti's own hbal: equal to every digit that it prints, move for move."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import greedy
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import dynamic_load, model, text_format
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle, state
from hypothesis import strategies as st

from tests import generated_clusters
from tests.unit.plugins.plugin_utils.rounds import kinds

from . import htools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL = {
    "plain": {"nodes": 6, "instances": 30},
    "another": {"nodes": 10, "instances": 80, "seed": 3},
    "offline": {"nodes": 8, "instances": 50, "offline": 2},
    "exclusion": {"nodes": 8, "instances": 50, "exclusion": True},
    "locations": {"nodes": 8, "instances": 50, "locations": True},
    "both tags": {"nodes": 8, "instances": 50, "locations": True, "exclusion": True, "offline": 1},
    "groups": {"nodes": 12, "instances": 60, "groups": 3, "split": 3},
    "mixed": {"nodes": 9, "instances": 50, "groups": 2, "shared": 0.2, "plain": 0.1, "stopped": 0.2, "offline": 1},
}
HBALS = greedy.Rules()
FULL = {"plain": {}, "offline": {"offline": 2}, "exclusion": {"exclusion": True}, "locations": {"locations": True}}


def ours(cluster: model.Model, group: str, *, rules: greedy.Rules) -> Iterator[tuple[str, str, str, str, str]]:
    """Our moves in hbal's words."""
    found = state.build(cluster)
    placed = found.placement()
    for step in greedy.balance(found, group=group, rules=rules):
        old, new = placed[step.instance], (step.primary, step.secondary)
        placed[step.instance] = new
        action = step.action.value.format(*(name for name in new if name not in old))
        before, after = (":".join(name for name in pair if name) for pair in (old, new))
        yield step.instance, before, after, f"{step.score:.8f}", action


def compare(cluster: model.Model, folder: Path, *, options: tuple[str, ...] = (), rules: greedy.Rules = HBALS) -> None:
    """Every group's score, components and moves."""
    for group in cluster.groups:
        told = htools.hbal(cluster, folder, group=group.name, options=options)
        found = oracle.components(cluster, group=group.name)
        assert told.components == {name: f"{value:.8f}" for name, value in found.items()}
        assert told.score == f"{oracle.total(found):.8f}"
        assert list(ours(cluster, group.name, rules=rules)) == told.moves


@pytest.mark.parametrize("kind", SMALL)
def test_scores_components_and_moves_are_hbals(tmp_path: Path, kind: str) -> None:
    compare(generated_clusters.make(**SMALL[kind]), tmp_path)  # type: ignore[arg-type] # each has its own


def test_without_dynamic_load_they_are_the_same_too(tmp_path: Path) -> None:
    cluster = dynamic_load.unloaded(generated_clusters.make(nodes=6, instances=30))
    compare(cluster, tmp_path, options=("--ignore-dynu",))


def test_ignoring_soft_errors_and_ending_early_are_the_same_too(tmp_path: Path) -> None:
    cluster = generated_clusters.make(nodes=6, instances=30, exclusion=True)
    full = tuple(replace(one, pcpus=one.pcpus / 6) for one in cluster.nodes)
    options = ("--ignore-soft-errors", "-l", "5")
    compare(replace(cluster, nodes=full), tmp_path, options=options, rules=greedy.Rules(max_moves=5, ignore_soft=True))


@hypothesis.settings(
    max_examples=40, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(kinds.clusters(), st.booleans())
def test_small_clusters_of_all_kinds_are_balanced_as_hbal_does(
    tmp_path: Path, cluster: model.Model, ignore_soft: bool
) -> None:
    if not cluster.instances:
        return
    options = ("--ignore-soft-errors",) if ignore_soft else ()
    rules = greedy.Rules(ignore_soft=ignore_soft)
    for group in cluster.groups:
        told = htools.hbal_moves(cluster, tmp_path, group=group.name, options=options)
        assert list(ours(cluster, group.name, rules=rules)) == told


def test_hbal_reads_what_we_write_as_the_same_cluster(tmp_path: Path) -> None:
    """Its own copy of the text is read as what was written."""
    cluster = generated_clusters.make(nodes=6, instances=30, locations=True, exclusion=True, groups=2, offline=1)
    htools.hbal(cluster, tmp_path, group="group-1", options=("-l", "0", "-S", str(tmp_path / "saved")))
    assert text_format.read((tmp_path / "saved.original").read_text()) == cluster


@pytest.mark.slow
@pytest.mark.parametrize("kind", FULL)
def test_a_full_run_of_20_nodes_is_hbals_move_for_move(tmp_path: Path, kind: str) -> None:
    compare(generated_clusters.make(nodes=20, instances=200, **FULL[kind]), tmp_path)  # type: ignore[arg-type] # each has its own
