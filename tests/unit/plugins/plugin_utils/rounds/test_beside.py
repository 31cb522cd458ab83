from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING

import hypothesis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import rounds
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes
from hypothesis import strategies as st

from tests import thoroughness

from . import stories, test_properties

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

FEW = thoroughness.tried(60)
EVERY = frozenset({"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "dead"})
COPYING = frozenset({"migrate", "replace_disks"})


def _dies(story: stories.Story, node: str) -> None:
    """A node is off, and its incident is noted."""
    story.lose(node)
    dead = incidents.note(dead_nodes.report(story.cluster.nodes[node]), node=node, uuid="dead", now=9.0)
    maintenance = story.cluster.maintenance
    found = (*(one for one in maintenance.incidents if one.node != node), dead)
    story.cluster = dataclasses.replace(story.cluster, maintenance=dataclasses.replace(maintenance, incidents=found))


def _begun(cluster: clusters.Cluster, *, first: int, steps: int, luck: random.Random) -> stories.Story:
    """A story in which the evacuations of some incidents are under way."""
    story = stories.Story(cluster)
    known = [one.uuid for one in cluster.maintenance.incidents]
    story.plan(incidents=frozenset(known[:first]))
    story.advance(luck=luck, steps=steps)
    return story


@FEW
@hypothesis.given(test_properties.CLUSTERS, st.integers(), st.integers(0, 30), st.integers(1, 2))
def test_what_begins_beside_unfinished_jobs_shares_room_and_slots_with_them(
    cluster: clusters.Cluster, seed: int, steps: int, first: int
) -> None:
    luck = random.Random(seed)
    story = _begun(cluster, first=first, steps=steps, luck=luck)
    plan = story.plan(incidents=EVERY)
    _look(story, plan)
    story.advance(luck=luck)


@FEW
@hypothesis.given(test_properties.CLUSTERS, st.integers(), st.integers(0, 30), st.integers(0, 7))
def test_a_node_that_dies_meanwhile_is_failed_over_before_anything_else_is_copied(
    cluster: clusters.Cluster, seed: int, steps: int, dying: int
) -> None:
    luck = random.Random(seed)
    story = _begun(cluster, first=1, steps=steps, luck=luck)
    nodes = sorted(cluster.nodes)
    _dies(story, nodes[dying % len(nodes)])
    plan = story.plan(incidents=EVERY)
    _look(story, plan)
    urgent = {job.key for job in plan.jobs if job.key.startswith("move:") and job.opcodes[0].kind == "failover"}
    before: dict[str, set[str]] = {}
    for job in plan.jobs:
        direct = {*job.after, *job.behind}
        before[job.key] = direct.union(*(before[key] for key in direct))
        if job.key in urgent and job.incident == "dead":
            earlier = [story.queue[number].job for key in (job.key, *before[job.key]) for number in _earlier(plan, key)]
            waits_for = [*earlier, *(one for one in plan.jobs if one.key in before[job.key])]
            assert not [one for one in waits_for if {opcode.kind for opcode in one.opcodes} & COPYING]
    story.advance(luck=luck)


def _earlier(plan: rounds.RoundPlan, key: str) -> tuple[int, ...]:
    return next(job.earlier for job in plan.jobs if job.key == key)


def _look(story: stories.Story, plan: rounds.RoundPlan) -> None:
    """No instance is moved by two incidents, and nothing goes to a node that is evacuated."""
    by_instance: dict[str, set[str | None]] = {}
    for entry in story.queue.values():
        for opcode in () if entry.ended else entry.left:
            if "instance" in opcode.params:
                by_instance.setdefault(str(opcode.params["instance"]), set()).add(entry.job.incident)
    assert all(len(found) == 1 for found in by_instance.values())
    left = rounds.no_targets(story.cluster)
    targets = [opcode.params.get("target", opcode.params.get("new")) for job in plan.jobs for opcode in job.opcodes]
    assert not left & set(targets)
