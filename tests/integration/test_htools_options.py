"""What hbal may be told, move for move: what moves, when it is enough, what if a node is offline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import candidates
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import greedy
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import dynamic_load, model
from hypothesis import strategies as st

from tests import generated_clusters
from tests.unit.plugins.plugin_utils.rounds import kinds

from . import htools
from .test_htools import compare, ours

if TYPE_CHECKING:
    from pathlib import Path

SOME = tuple(f"inst-{number:05d}" for number in range(1, 31))
TOLD: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "no disk moves": (("--no-disk-moves",), {"disk_moves": False}),
    "no instance moves": (("--no-instance-moves",), {"instance_moves": False}),
    "evacuation": (("-E",), {"only_offline": True}),
    "evacuation without disk moves": (("-E", "--no-disk-moves"), {"only_offline": True, "disk_moves": False}),
    "some": (("--select-instances", ",".join(SOME)), {"chosen": frozenset(SOME)}),
    "others": (("--exclude-instances", ",".join(SOME)), {"kept": frozenset(SOME)}),
}
ENDS: dict[str, tuple[tuple[str, ...], dict[str, float]]] = {
    "gain": (("--min-gain", "0.9", "--min-gain-limit", "1000"), {"small_gain": 0.9, "small_score": 1000.0}),
    "score": (("--min-score", "3"), {"least": 3.0}),
}


def _rules(allowed: dict[str, Any]) -> greedy.Rules:
    return greedy.Rules(allowed=candidates.Allowed(**allowed))


@pytest.mark.parametrize("kind", TOLD)
def test_the_same_moves_are_allowed(tmp_path: Path, kind: str) -> None:
    options, allowed = TOLD[kind]
    cluster = generated_clusters.make(nodes=8, instances=50, offline=1, shared=0.2)
    told = htools.hbal(cluster, tmp_path, group="group-1", options=options)
    assert list(ours(cluster, "group-1", rules=_rules(allowed))) == told.moves
    assert told.moves


@pytest.mark.parametrize("kind", ENDS)
def test_the_end_is_at_the_same_move(tmp_path: Path, kind: str) -> None:
    options, ends = ENDS[kind]
    cluster = generated_clusters.make(nodes=8, instances=50)
    full = len(list(ours(cluster, "group-1", rules=greedy.Rules())))
    compare(cluster, tmp_path, options=options, rules=greedy.Rules(**ends))  # type: ignore[arg-type] # numbers all
    assert 0 < len(list(ours(cluster, "group-1", rules=greedy.Rules(**ends)))) < full  # type: ignore[arg-type] # as above


def test_a_node_that_is_taken_for_offline_is_left_by_the_same_moves(tmp_path: Path) -> None:
    cluster = generated_clusters.make(nodes=8, instances=50)
    gone = cluster.nodes[2].name
    told = htools.hbal(cluster, tmp_path, group="group-1", options=("-O", gone))
    nodes = (replace(one, offline=one.name == gone) for one in cluster.nodes)
    found = list(ours(replace(cluster, nodes=tuple(nodes)), "group-1", rules=greedy.Rules()))
    assert found == told.moves
    assert found


def test_measured_loads_count_and_can_be_ignored(tmp_path: Path) -> None:
    cluster = kinds.loaded(generated_clusters.make(nodes=6, instances=30))
    compare(cluster, tmp_path)
    compare(dynamic_load.unloaded(cluster), tmp_path, options=("--ignore-dynu",))


@hypothesis.settings(
    max_examples=25, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(kinds.clusters(), st.booleans(), st.booleans(), st.booleans())
def test_small_clusters_of_all_kinds_are_moved_as_hbal_may_move_them(
    tmp_path: Path, cluster: model.Model, disks: bool, primaries: bool, offline: bool
) -> None:
    if not cluster.instances:
        return
    options = [*([] if disks else ["--no-disk-moves"]), *([] if primaries else ["--no-instance-moves"])]
    options += ["-E"] if offline else []
    rules = _rules({"disk_moves": disks, "instance_moves": primaries, "only_offline": offline})
    for group in cluster.groups:
        told = htools.hbal_moves(cluster, tmp_path, group=group.name, options=tuple(options))
        assert list(ours(cluster, group.name, rules=rules)) == told
