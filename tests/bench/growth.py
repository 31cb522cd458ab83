"""How time and memory of our own balancing grow with the cluster: a table, and with `--plot FILE` a drawing of it.

Run by `make bench`; each size in a process of its own, so that its peak of memory is its own. CPU seconds, user and
system, from a cluster in memory to an ordered plan.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.balancing import balancing, turns
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle, state

from tests import generated_clusters
from tests.bench import growth_plot

SIZES = ((20, 200), (80, 1000), (200, 4000), (1000, 20000))
MOST_SECONDS = {4000: 60.0, 20000: 900.0}
MOST_MIB = 1024.0


@dataclass(frozen=True)
class Figures:
    """What one size took and what it gave."""

    nodes: int
    instances: int
    before: float
    after: float
    moves: int
    gib: float
    hours: float
    seconds: float
    mib: float


def main() -> int:
    """Measure every size, print the table, draw it where that is wanted, and tell what is not as it should be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", nargs=2, type=int, metavar=("NODES", "INSTANCES"))
    parser.add_argument("--plot", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.size:
        sys.stdout.write(json.dumps(asdict(measured(*given.size))))
        return 0
    print("nodes  instances   score before      after   moves     GiB   hours     CPU s   peak MiB")
    found = []
    for nodes, instances in SIZES:
        one = _apart(nodes, instances)
        found.append(one)
        print(
            f"{one.nodes:5}{one.instances:11}{one.before:15.4f}{one.after:11.4f}{one.moves:8}{one.gib:8.0f}"
            f"{one.hours:8.1f}{one.seconds:10.1f}{one.mib:11.0f}",
            flush=True,
        )
    if given.plot:
        curves = (
            growth_plot.Curve("CPU seconds", [one.seconds for one in found]),
            growth_plot.Curve("peak memory, MiB", [one.mib for one in found]),
        )
        given.plot.write_text(growth_plot.drawn([one.instances for one in found], curves))
    wrong = [text for one in found for text in _too_much(one)]
    print(*(wrong or ["balancing grows as it should"]), sep="\n")
    return 1 if wrong else 0


def measured(nodes: int, instances: int) -> Figures:
    """Balance a generated cluster of this size."""
    cluster = generated_clusters.make(nodes=nodes, instances=instances)
    began = time.process_time()
    found = balancing.balance(state.build(cluster))
    seconds = time.process_time() - began
    return Figures(
        nodes,
        instances,
        before=oracle.total(found.before),
        after=oracle.total(found.after),
        moves=len(found.schedule.turns),
        gib=found.schedule.data_gib,
        hours=found.schedule.seconds / 3600,
        seconds=seconds,
        mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / turns.GIB,
    )


def _apart(nodes: int, instances: int) -> Figures:
    command = [sys.executable, __file__, "--size", str(nodes), str(instances)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Figures(**json.loads(done.stdout))


def _too_much(one: Figures) -> list[str]:
    wrong = []
    if one.seconds > MOST_SECONDS.get(one.instances, one.seconds):
        wrong.append(f"{one.instances} instances take {one.seconds:.0f} s")
    if one.mib > MOST_MIB:
        wrong.append(f"{one.instances} instances take {one.mib:.0f} MiB")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
