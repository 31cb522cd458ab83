from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import compared, oracle

from tests.unit.plugins.plugin_utils.rounds import small_models

TEXT = """
node1 4096
node2 4096
node3 4096
web1 1024 node1 node2
web2 512 node1 rbd
"""


def test_the_scores_are_those_of_the_cluster_before_and_after_the_moves() -> None:
    found = small_models.make(TEXT)
    there = {one.name: one for one in found.instances}
    moved = dataclasses.replace(there["web1"], primary="node2", secondary="node3")
    shared = dataclasses.replace(there["web2"], primary="node3")
    after = small_models.make(TEXT.replace("node1 node2", "node2 node3").replace("512 node1", "512 node3"))
    assert after.instances == (moved, shared)
    scores = compared.scores(found, {"web1": ("node2", "node3"), "web2": ("node3",)})
    assert scores.initial == pytest.approx(oracle.total(oracle.components(found)))
    assert scores.final == pytest.approx(oracle.total(oracle.components(after)))
