"""An instance that stays down though nothing is against its failover is found, whatever Roundsman believes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import outages

from tests.chaos import trees
from tests.chaos.mutants import known
from tests.chaos.mutants.mutant import ROOT

from .test_dead_nodes import everyone_answers, runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from . import labs

RING = (("node2", "node3"), ("node3", "node4"), ("node4", "node1"))


@pytest.mark.slow
def test_a_fence_that_is_followed_by_no_failover_is_found(
    lab: Callable[..., labs.Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trees.make(tmp_path / "tree", mutant=known.find("life_before_fence"))
    monkeypatch.setattr(outages, "LIMIT", 60.0)
    one = lab(
        nodes=4,
        pairs=RING,
        agents=True,
        settings={"diagnose_interval": 2.0, "dead_after": 3, "dead_node_policy": "fence"},
        environment={"PYTHONPATH": f"{path}:{ROOT}"},
    )
    one.until(everyone_answers, "all agents answer")
    node = one.lab.node("node2")
    node.panic()
    (wrong,) = one.until(lambda _: [text for text in one.wrong() if "was down for" in text], "it is found")
    assert wrong.startswith("instance1 was down for ")
    assert "since node2 died, though node3 has its data" in wrong
    assert not node.is_powered(), "it was fenced"
    assert runs(one, "node3") == ["instance2"]
