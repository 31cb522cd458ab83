"""What balancing and evacuation cost, and what they are worth, against Ganeti's hbal in the same run.

Run by `make bench`. CPU seconds, user and system, for other work beside it takes wall time from both. A step of hbal
is the difference of two runs, one of which makes no move; ours is the whole search by the number of its steps, the best
of three. Data is disks copied and memory migrated, for hbal's choices as they are made one after the other. The node is
evacuated as rounds do it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import balancing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import greedy
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import text_format
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle, state
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import (
    as_cluster,
    balancing_step,
    rebalancing,
    room,
    rounds,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import evacuation as evacuations
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds.basis import Basis

from tests import generated_clusters
from tests.bench import planner

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Plan

STEPS = ((20, 200, 5, 100), (80, 1000, 1, 500))
"""Nodes, instances, steps of hbal that are measured, and how many times as fast ours shall be."""
WORTH = ((20, 200), (40, 500), (80, 1000))
MOST_DATA = 0.5
EVACUATED = (200, 4000)
A_SECOND = 1.0
IN_ROUNDS = ((20, 200), (200, 4000), (1000, 20000))
A_STEP = {4000: 2.0}
"""Instances, and the most seconds that the search for the balancing step of a round may take."""


def main() -> int:
    """Measure, and print what is not as it should be."""
    wrong = [text for part in (evacuation, in_rounds, steps, worth) for text in part()]
    print(*(wrong or ["balancing is as good and as fast as it should be"]), sep="\n")
    return 1 if wrong else 0


def steps() -> list[str]:
    """hbal's choices by hbal and by us: CPU seconds for each move."""
    print("hbal's choices: nodes  instances   hbal, s a step   ours, s a step   ratio")
    wrong = []
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        for nodes, instances, count, wanted in STEPS:
            cluster = generated_clusters.make(nodes=nodes, instances=instances)
            file = Path(folder) / f"cluster-{nodes}"
            file.write_text(text_format.write(cluster))
            _, none = planner.peer("hbal", "-t", str(file), "-l", "0")
            _, some = planner.peer("hbal", "-t", str(file), "-l", str(count))
            theirs = (some - none) / count
            made, seconds = planner.best_of(3, partial(_greedily, cluster))
            ours = seconds / made
            print(f"{nodes:21}{instances:11}{theirs:17.3f}{ours:17.4f}{theirs / ours:8.0f}")
            if theirs / ours < wanted:
                wrong.append(f"a step at {nodes} nodes is {theirs / ours:.0f} times as fast as hbal's, not {wanted}")
    return wrong


def worth() -> list[str]:
    """Our own balancing against hbal's choices: the score, and the data for it."""
    print("balancing: nodes  instances   score before   hbal's   GiB   ours   GiB   moves   waves   CPU s")
    wrong = []
    for nodes, instances in WORTH:
        cluster = generated_clusters.make(nodes=nodes, instances=instances)
        theirs = balancing.like_hbal(state.build(cluster))
        began = time.process_time()
        ours = balancing.balance(state.build(cluster))
        seconds = time.process_time() - began
        before, after, score = (oracle.total(each) for each in (ours.before, ours.after, theirs.after))
        data, plan = theirs.schedule.data_gib, ours.schedule
        print(
            f"{nodes:16}{instances:11}{before:15.4f}{score:9.4f}{data:6.0f}{after:7.4f}{plan.data_gib:6.0f}"
            f"{len(plan.turns):8}{plan.waves:8}{seconds:8.1f}"
        )
        if after > score or plan.data_gib > MOST_DATA * data:
            wrong.append(f"{nodes} nodes: {after:.4f} for {plan.data_gib:.0f} GiB, hbal {score:.4f} for {data:.0f} GiB")
    return wrong


def _greedily(cluster: model.Model) -> int:
    return sum(1 for _ in greedy.balance(state.build(cluster)))


def evacuation() -> list[str]:
    """One of many nodes is emptied."""
    nodes, instances = EVACUATED
    cluster = as_cluster.cluster_of(generated_clusters.make(nodes=nodes, instances=instances))
    found, seconds = planner.best_of(3, partial(_evacuated, cluster, list(cluster.nodes)[2]))
    print(
        f"evacuation of one of {nodes} nodes, {instances} instances: {len(found.moves)} moves, "
        f"{len(found.refusals)} refusals, {seconds:.2f} CPU s"
    )
    return [f"an evacuation takes {seconds:.2f} s"] if seconds > A_SECOND else []


def _evacuated(cluster: clusters.Cluster, node: str) -> Plan:
    return evacuations.plan(Basis(cluster), node, failover=False, room=room.Room(cluster))


def in_rounds() -> list[str]:
    """The search for the balancing step of a round, from the configuration to jobs."""
    print("a round's balancing: nodes  instances   disks move   jobs   CPU s")
    wrong = []
    for nodes, instances in IN_ROUNDS:
        cluster = as_cluster.cluster_of(generated_clusters.make(nodes=nodes, instances=instances))
        for disks in (False, True):
            wanted = replace(cluster.maintenance.settings, balance=True, balance_disk_moves=disks)
            asked = balancing_step.to_balance(
                replace(cluster, maintenance=replace(cluster.maintenance, settings=wanted)), rounds.RoundPlan()
            )
            assert asked is not None
            found, seconds = planner.best_of(2, partial(rebalancing.answer, asked))
            print(f"{nodes:26}{instances:11}{'yes' if disks else 'no':>13}{len(found.jobs):7}{seconds:8.2f}")
            if seconds > A_STEP.get(instances, seconds):
                wrong.append(f"a round's balancing of {instances} instances takes {seconds:.1f} s")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
