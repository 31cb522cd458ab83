from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, plan_run, registry
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import digests

from tests.unit import small_cluster
from tests.unit.plugins.plugin_utils.rounds import steps

FACTS: Any = None


def _made(cluster: clusters.Cluster, *moves: dict[str, Any]) -> plan_run.RunPlan:
    params = {"command": "roundsman balance", "digest": digests.digest(cluster), "moves": list(moves)}
    found = registry.make("run_plan", params)
    assert isinstance(found, plan_run.RunPlan)
    return found


def test_it_submits_a_job_for_each_move() -> None:
    cluster = small_cluster.make()
    made = _made(cluster, {"instance": "inst1", "action": "f r:node1"})
    assert made.execution is contract.Execution.SUBMIT
    assert steps.of(made.jobs(cluster, FACTS)) == {"move:inst1": ["migrate i1 n2 n3", "replace_disks i1 n2 n1"]}


def test_it_is_alone_at_all_nodes_that_have_a_part_in_it() -> None:
    cluster = small_cluster.make()
    made = _made(cluster, {"instance": "inst1", "action": "r:node1 r:node9"}, {"instance": "inst9", "action": "f"})
    assert made.wants(cluster) == dict.fromkeys(("node/n1", "node/n2", "node/n3"), contract.EXCLUSIVE)


def test_it_refuses_when_the_cluster_has_changed_since() -> None:
    cluster = small_cluster.make()
    made = _made(cluster, {"instance": "inst1", "action": "f"})
    changed = clusters.with_node(cluster, dataclasses.replace(cluster.node("node10"), mtotal=1))
    with pytest.raises(errors.Refused, match="the cluster has changed since this plan was made"):
        made.jobs(changed, FACTS)


def test_it_refuses_moves_that_no_planner_makes() -> None:
    cluster = small_cluster.make()
    cluster = clusters.with_node(cluster, dataclasses.replace(cluster.node("node10"), group="g2"))
    made = _made(cluster, {"instance": "inst1", "action": "r:node10"})
    with pytest.raises(errors.InvalidInput, match="inst1 would end in two groups"):
        made.jobs(cluster, FACTS)


@pytest.mark.parametrize("moves", ["f", [{"instance": "inst1"}], [{"instance": "inst1", "action": 5}]])
def test_parameters_that_are_no_moves_are_refused(moves: Any) -> None:
    with pytest.raises(errors.InvalidInput, match="opcode run_plan: moves"):
        registry.make("run_plan", {"command": "c", "digest": "d", "moves": moves})
