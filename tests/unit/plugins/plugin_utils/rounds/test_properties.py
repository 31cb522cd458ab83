from __future__ import annotations

import random
from typing import TYPE_CHECKING

import hypothesis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import room, rounds
from hypothesis import strategies as st

from tests import thoroughness

from . import tables, worlds

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work

FEW = thoroughness.tried(60)
NODE_FLAGS = ["", "", "", "", "", "drained", "offline", "oob", "unpowered", "incapable"]
TEMPLATES = ["drbd", "drbd", "drbd", "sharedfile", "diskless", "plain"]


@st.composite
def _nodes(draw: st.DrawFn, count: int) -> list[str]:
    groups = st.sampled_from(["default", "default", "default", "b"])
    return [
        f"node{k} {draw(st.integers(2, 16))} {draw(st.integers(5, 40))} "
        f"{draw(st.sampled_from(NODE_FLAGS))} group={draw(groups)} cpus={draw(st.sampled_from([0, 0, 1, 2]))}"
        for k in range(1, count + 1)
    ]


@st.composite
def _instance(draw: st.DrawFn, number: int, count: int) -> str:
    template = draw(st.sampled_from(TEMPLATES))
    at = draw(st.permutations(range(1, count + 1)))[: 2 if template == "drbd" else 1]
    where = " ".join(f"node{k}" for k in at)
    more = draw(st.sampled_from(["", "", "", "", "down", "migratable=no"]))
    size = f"{draw(st.integers(0, 4))} {draw(st.integers(0, 5))}"
    tags = draw(st.sampled_from(["", "", "tags=dns-a", "tags=dns-b,other"]))
    return f"instance{number} {template} {size} {where} {more} vcpus={draw(st.integers(1, 3))} {tags}"


@st.composite
def _clusters(draw: st.DrawFn) -> clusters.Cluster:
    count = draw(st.integers(3, 8))
    lines = draw(_nodes(count))
    lines += [draw(_instance(k, count)) for k in range(1, draw(st.integers(1, 14)) + 1)]
    asking = draw(st.lists(st.integers(1, count), min_size=1, max_size=3, unique=True))
    action = st.sampled_from(["evacuate", "evacuate", "evacuate-failover"])
    lines += [f"incident a{k} node{k} {draw(action)} pending {draw(st.integers(1, 3))}" for k in asking]
    if draw(st.booleans()):
        lines.append(f"node{count + 1} 8 20 master")
    if draw(st.booleans()):
        lines.append("tags htools:iextags:dns")
    lines.append(f"settings storm_minimum=99 moves_per_node={draw(st.integers(1, 4))}")
    return tables.read("\n".join(lines))


CLUSTERS = _clusters()


@FEW
@hypothesis.given(_clusters(), st.integers())
def test_in_any_interleaving_memory_disk_copies_and_the_limit_of_moves_hold(
    cluster: clusters.Cluster, seed: int
) -> None:
    plan = rounds.plan(cluster, at_work={})
    worlds.World(cluster).run(plan.jobs, luck=random.Random(seed))


@FEW
@hypothesis.given(_clusters(), st.integers())
def test_a_node_of_which_nothing_is_refused_ends_empty_and_offline(cluster: clusters.Cluster, seed: int) -> None:
    plan = rounds.plan(cluster, at_work={})
    world = worlds.World(cluster)
    world.run(plan.jobs, luck=random.Random(seed))
    refused = {refusal.incident for refusal in plan.refusals}
    for incident in cluster.maintenance.incidents:
        if incident.uuid not in refused:
            assert not [one for one in world.cluster.instances.values() if incident.node in one.nodes]
            assert world.cluster.nodes[incident.node].offline or incident.node == cluster.cluster.master_node


@FEW
@hypothesis.given(_clusters(), st.integers())
def test_an_instance_that_is_moved_and_refused_ends_as_a_secondary_of_its_node(
    cluster: clusters.Cluster, seed: int
) -> None:
    plan = rounds.plan(cluster, at_work={})
    world = worlds.World(cluster)
    world.run(plan.jobs, luck=random.Random(seed))
    nodes = {one.uuid: one.node for one in cluster.maintenance.incidents}
    moved = {(f"u-{job.key.removeprefix('move:')}", job.incident) for job in plan.jobs}
    for refusal in plan.refusals:
        if refusal.incident is not None and (f"u-{refusal.subject}", refusal.incident) in moved:
            assert not refusal.permanent
            assert nodes[refusal.incident] in world.cluster.instance(refusal.subject).secondary_nodes


@FEW
@hypothesis.given(_clusters())
def test_every_job_waits_only_for_known_jobs_and_keys_are_unique(cluster: clusters.Cluster) -> None:
    jobs = rounds.plan(cluster, at_work={}).jobs
    earlier: set[str] = set()
    incident = {job.key: job.incident for job in jobs}
    for job in jobs:
        assert {*job.after, *job.behind} <= earlier
        assert all(incident[key] == job.incident for key in job.after)
        # One that fails keeps no other off a dead node.
        assert worlds.is_urgent(job, cluster) or all(incident[key] != job.incident for key in job.behind)
        assert job.key not in earlier
        earlier.add(job.key)


@FEW
@hypothesis.given(_clusters())
def test_no_instance_is_moved_by_two_jobs_but_for_the_new_secondary_after_an_urgent_failover(
    cluster: clusters.Cluster,
) -> None:
    moved: dict[str, list[work.Job]] = {}
    for job in rounds.plan(cluster, at_work={}).jobs:
        for name in {str(op.params["instance"]) for op in job.opcodes if "instance" in op.params}:
            moved.setdefault(name, []).append(job)
    for first, *others in moved.values():
        assert len(others) <= int(worlds.is_urgent(first, cluster))
        for second in others:
            assert [opcode.kind for opcode in second.opcodes] == ["replace_disks"]
            assert first.key in second.after


@FEW
@hypothesis.given(_clusters())
def test_no_instance_of_a_dead_node_is_down_until_something_is_copied_and_all_run_first(
    cluster: clusters.Cluster,
) -> None:
    jobs = rounds.plan(cluster, at_work={}).jobs
    before: dict[str, set[str]] = {}
    for job in jobs:
        direct = {*job.after, *job.behind}
        before[job.key] = direct.union(*(before[key] for key in direct))
    urgent = {job.key for job in jobs if worlds.is_urgent(job, cluster)}
    copying = {job.key for job in jobs if any(opcode.kind in {"replace_disks", "migrate"} for opcode in job.opcodes)}
    for job in jobs:
        if job.key in urgent:
            assert not before[job.key] & copying
        elif job.key in copying:
            nodes = worlds.nodes_of(job, cluster)
            dead = {node for node in nodes if not clusters.reachable(cluster, cluster.node(node))}
            ran = [one for one in jobs if one.key in urgent and one.incident == job.incident]
            assert {one.key for one in ran if worlds.nodes_of(one, cluster) & dead} <= before[job.key]


@FEW
@hypothesis.given(_clusters())
def test_only_nodes_that_are_open_get_anything(cluster: clusters.Cluster) -> None:
    closed = rounds.no_targets(cluster)
    for job in rounds.plan(cluster, at_work={}).jobs:
        for opcode in job.opcodes:
            target = opcode.params.get("target", opcode.params.get("new"))
            if target is not None:
                node = cluster.nodes[str(target)]
                assert clusters.reachable(cluster, node)
                assert node.vm_capable
                assert not node.drained
                assert node.uuid not in closed


@FEW
@hypothesis.given(_clusters(), st.integers())
def test_a_plan_without_notes_loses_no_failure_that_was_survived(cluster: clusters.Cluster, seed: int) -> None:
    plan = rounds.plan(cluster, at_work={})
    world = worlds.World(cluster)
    world.run(plan.jobs, luck=random.Random(seed))
    before, after = room.Room(cluster), room.Room(world.cluster)
    for uuid, node in after.nodes.items():
        for peer, missing in node.deficits().items():
            assert plan.notes or missing <= before.nodes[uuid].deficits().get(peer, 0)


@FEW
@hypothesis.given(_clusters(), st.randoms(use_true_random=False))
def test_the_order_of_the_document_changes_nothing(cluster: clusters.Cluster, luck: random.Random) -> None:
    turned = tables.shuffled(cluster, luck=luck)
    assert rounds.plan(cluster, at_work={}) == rounds.plan(turned, at_work={})


@FEW
@hypothesis.given(_clusters())
def test_every_instance_of_an_evacuating_node_is_moved_or_refused(cluster: clusters.Cluster) -> None:
    plan = rounds.plan(cluster, at_work={})
    spoken_for = {job.key.removeprefix("move:") for job in plan.jobs} | {one.subject for one in plan.refusals}
    for incident in cluster.maintenance.incidents:
        for instance in cluster.instances.values():
            if incident.node in instance.nodes:
                assert instance.name in spoken_for
