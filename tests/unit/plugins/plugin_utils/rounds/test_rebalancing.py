from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import registry
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import (
    as_cluster,
    balancing_step,
    configured,
    rebalancing,
    rounds,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import generated_clusters

from . import kinds, tables

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

NODES = "".join(f"node{k} 16384 100000\n" for k in range(1, 7))
UNEVEN = "".join(f"instance{k} drbd 1024 1000 node1 node2\n" for k in range(1, 7))


def wanting(cluster: clusters.Cluster, **values: Any) -> clusters.Cluster:
    """The cluster with balancing turned on."""
    wanted = replace(cluster.maintenance.settings, balance=True, **values)
    return replace(cluster, maintenance=replace(cluster.maintenance, settings=wanted))


def generated(**kind: Any) -> clusters.Cluster:
    return as_cluster.cluster_of(generated_clusters.make(**kind))


def answered(cluster: clusters.Cluster, *, busy: tuple[str, ...] = ()) -> rebalancing.Answer:
    asked = balancing_step.to_balance(cluster, rounds.RoundPlan(), busy=busy)
    return rebalancing.Answer() if asked is None else rebalancing.answer(asked)


def done(cluster: clusters.Cluster, answer: rebalancing.Answer) -> clusters.Cluster:
    """The cluster after all jobs of a step."""
    for job in answer.jobs:
        for opcode in job.opcodes:
            step: Any = registry.make(opcode.kind, opcode.params)
            cluster = changes.apply_all(cluster, step.effects(cluster), now=0.0)
    return cluster


def touched(answer: rebalancing.Answer, cluster: clusters.Cluster) -> set[str]:
    """The names of the nodes that the jobs are about."""
    params = [opcode.params for job in answer.jobs for opcode in job.opcodes]
    values = {str(value) for each in params for name, value in each.items() if name != "planned"}
    return {cluster.node_name(uuid) for uuid in values if uuid in cluster.nodes}


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.0])
def test_every_step_gains_the_threshold_until_none_does(threshold: float) -> None:
    cluster = wanting(generated(nodes=6, instances=30), balance_threshold=threshold, balance_disk_moves=True)
    before = oracle.score(configured.model_of(cluster))
    steps = 0
    while (answer := answered(cluster)).jobs:
        cluster = done(cluster, answer)
        after = oracle.score(configured.model_of(cluster))
        assert after <= before - threshold + 1e-9
        assert after < before
        before, steps = after, steps + 1
    assert steps
    assert answered(cluster) == rebalancing.Answer()


def test_moves_of_one_step_are_the_first_ones_and_share_no_node_unless_they_gain_too_little() -> None:
    cluster = wanting(generated(nodes=20, instances=200), balance_disk_moves=True)
    answer = answered(cluster)
    nodes = [touched(rebalancing.Answer((job,)), cluster) for job in answer.jobs]
    assert len(nodes) > 1
    assert sum(map(len, nodes)) == len(set().union(*nodes))
    assert all(job.after == () for job in answer.jobs)


def test_the_same_question_has_the_same_answer() -> None:
    first, second = (wanting(generated(nodes=8, instances=60), balance_disk_moves=True) for _ in range(2))
    assert answered(first) == answered(second)
    assert balancing_step.to_balance(first, rounds.RoundPlan()) == balancing_step.to_balance(
        replace(second, serial_no=9, mtime=5.0), rounds.RoundPlan()
    )


def test_each_group_is_balanced_by_itself() -> None:
    cluster = wanting(generated(nodes=12, instances=80, groups=2), balance_disk_moves=True)
    answer = answered(cluster)
    groups = {node.name: node.group for node in cluster.nodes.values()}
    of_job = [{groups[name] for name in touched(rebalancing.Answer((job,)), cluster)} for job in answer.jobs]
    assert all(len(found) == 1 for found in of_job)
    assert len(set().union(*of_job)) == 2


def test_without_disk_moves_nothing_is_copied() -> None:
    cluster = wanting(generated(nodes=8, instances=60, shared=0.2))
    kinds = {opcode.kind for job in answered(cluster).jobs for opcode in job.opcodes}
    assert kinds == {"migrate"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("incident a1 node1 evacuate noted 100\n", "its incident a1 is noted"),
        ("incident a1 node1 live-repair failed 100\n", "its incident a1 is failed"),
        ("incident a1 node1 live-repair completed 100\n", ""),
    ],
)
def test_a_node_of_an_open_or_failed_incident_takes_no_part(more: str, why: str) -> None:
    cluster = wanting(tables.read(NODES + UNEVEN + more), balance_disk_moves=True)
    asked = balancing_step.to_balance(cluster, rounds.RoundPlan())
    assert asked is not None
    found = {one.subject: one.reason for one in rebalancing.refusals(asked)}
    assert found == ({"node1": f"balancing leaves it out: {why}"} if why else {})
    assert ("node1" in touched(rebalancing.answer(asked), cluster)) is not bool(why)


@pytest.mark.parametrize(("flag", "why"), [("drained", "it is drained"), ("offline", "it is not reachable")])
def test_nothing_leaves_or_goes_to_a_node_that_takes_no_instances(flag: str, why: str) -> None:
    table = NODES.replace("node1 16384 100000", f"node1 16384 100000 {flag}") + UNEVEN
    cluster = wanting(tables.read(table), balance_disk_moves=True)
    asked = balancing_step.to_balance(cluster, rounds.RoundPlan())
    assert asked is not None
    assert [one.reason for one in rebalancing.refusals(asked)] == [f"balancing leaves it out: {why}"]
    assert rebalancing.answer(asked).jobs == ()


def test_what_can_never_migrate_stays_where_it_runs() -> None:
    bound = UNEVEN.replace("\n", " migratable=no\n")
    assert answered(wanting(tables.read(NODES + UNEVEN), balance_disk_moves=True)).jobs
    assert answered(wanting(tables.read(NODES + bound), balance_disk_moves=True)).jobs == ()


def test_instances_with_adopted_disks_only_change_roles_and_a_refusal_says_so() -> None:
    adopted = UNEVEN.replace("\n", " adopted\n")
    answer = answered(wanting(tables.read(NODES + adopted), balance_disk_moves=True))
    assert {opcode.kind for job in answer.jobs for opcode in job.opcodes} == {"migrate"}
    (refusal,) = answer.refusals
    assert (refusal.subject, refusal.permanent) == ("balancing", False)
    assert refusal.reason == (
        "the replicas of instance1, instance2, instance3 and 3 more stay on their nodes: their disks were adopted, and "
        "Roundsman does not replace adopted disks"
    )
    assert "drbdadm" in refusal.unblock
    assert answered(wanting(tables.read(NODES + adopted))).refusals == ()


def test_beside_an_instance_with_adopted_disks_the_others_get_new_secondaries() -> None:
    mixed = UNEVEN.replace("instance1 drbd 1024 1000 node1 node2\n", "instance1 drbd 1024 1000 node1 node2 adopted\n")
    cluster = wanting(tables.read(NODES + mixed), balance_disk_moves=True)
    answer = answered(cluster)
    replaced = {opcode.params["instance"] for job in answer.jobs for opcode in job.opcodes if opcode.kind != "migrate"}
    assert replaced
    assert "u-instance1" not in replaced


@settings(deadline=None, max_examples=20)
@given(kinds.clusters(), st.booleans())
def test_clusters_of_all_kinds_are_balanced_where_something_may_go(made: model.Model, disks: bool) -> None:
    cluster = wanting(as_cluster.cluster_of(made), balance_disk_moves=disks)
    answer = answered(cluster)
    assert answer.refusals == ()
    assert touched(answer, cluster).isdisjoint(one.name for one in made.nodes if one.offline)
    after = done(cluster, answer)
    for uuid, one in after.instances.items():
        assert len({cluster.nodes[node].group for node in (*one.nodes, *cluster.instances[uuid].nodes)}) == 1 or (
            one.nodes == cluster.instances[uuid].nodes
        )


def test_what_jobs_are_about_stays_where_it_is() -> None:
    cluster = wanting(generated(nodes=8, instances=60), balance_disk_moves=True)
    free = answered(cluster)
    first = str(free.jobs[0].opcodes[0].params["instance"])
    other = answered(cluster, busy=(first,))
    held = {cluster.node_name(uuid) for uuid in cluster.instances[first].nodes}
    assert other.jobs
    assert touched(other, cluster).isdisjoint(held)


def test_nothing_is_asked_while_balancing_is_off_or_maintenance_held() -> None:
    cluster = tables.read(NODES + UNEVEN)
    assert balancing_step.to_balance(cluster, rounds.RoundPlan()) is None
    assert balancing_step.to_balance(wanting(cluster, paused="a move"), rounds.RoundPlan()) is None
    stormy = "".join(f"incident a{k} node{k} evacuate noted 100\n" for k in range(1, 5))
    assert balancing_step.to_balance(wanting(tables.read(NODES + UNEVEN + stormy)), rounds.RoundPlan()) is None
    assert balancing_step.to_balance(wanting(cluster), rounds.RoundPlan()) is not None


def test_a_disk_template_that_no_planner_knows_is_told() -> None:
    cluster = wanting(tables.read(NODES + UNEVEN))
    uuid, one = next(iter(cluster.instances.items()))
    strange = replace(cluster, instances={**cluster.instances, uuid: replace(one, disk_template="tape")})
    (refusal,) = answered(strange).refusals
    assert "the disk template 'tape' is not one of" in refusal.reason


def test_a_round_is_planned_without_loading_numpy() -> None:
    package = "ansible_collections.roundsman.cluster"
    code = f"import sys; import {package}.daemon.maintenance.rounds; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_last_step_of_a_round_comes_after_all_others() -> None:
    cluster = wanting(tables.read(NODES + UNEVEN + "incident a1 node6 evacuate noted 100\n"))
    plan = rounds.plan(cluster, at_work={})
    asked = balancing_step.to_balance(cluster, plan)
    assert asked is not None
    whole = balancing_step.balanced(plan, asked, rebalancing.answer(asked))
    assert [job.incident for job in whole.jobs] == ["a1"] * len(plan.jobs) + [None]
    assert dataclasses.replace(whole, jobs=plan.jobs, left_out=()) == plan
    assert [one.subject for one in whole.left_out] == ["node6"]
