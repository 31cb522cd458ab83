from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.action import evacuate_node
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import holding

from tests.unit import small_cluster
from tests.unit.daemon.maintenance.test_replicas import NAME

if TYPE_CHECKING:
    from tests.unit.daemon.maintenance.test_replicas import Pair


def test_replicas_are_judged_again_once_the_locks_are_held(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    play = holding.play(str(pair.service.where.root), pid=1)
    options: dict[str, Any] = {"node": "node2", "failover": True, "ignore_consistency": False, "time_limit": 300.0}
    waited: list[float] = []

    def hold(_play: holding.Play, _wants: Any, *, time_limit: float) -> None:
        waited.append(time_limit)
        if len(waited) == 2:
            (pair.service.where.reports / f"{pair.uuid('node3')}.json").write_bytes(b"{}")

    monkeypatch.setattr(holding, "hold", hold)
    cluster, _, plan = evacuate_node._planned(play, options)
    assert [job.opcodes[0].kind for job in plan.jobs] == ["failover"]
    _, found, held = evacuate_node._held(play, options, cluster, plan)
    assert held == plan
    assert [evidence.counts_as_in_sync for evidence in found.values()] == [True]
    with pytest.raises(errors.Refused, match="changed while the locks were waited for"):
        evacuate_node._held(play, options, cluster, plan)
    assert NAME in {one.subject for one in evacuate_node._planned(play, options)[2].refusals}


def test_a_node_that_lived_since_it_was_known_to_be_off_is_not_passed_over_as_off() -> None:
    cluster = small_cluster.make()
    off = dataclasses.replace(cluster.node("n3"), powered=False, off_since=10.0)
    for node, known in ((off, ["n3"]), (dataclasses.replace(off, alive_at=20.0), [])):
        changed = clusters.with_node(cluster, node)
        assert evacuate_node._look(changed, changed.node_name("n2"), [])["off"] == known
