"""What planning costs, against Ganeti's htools in the same run, on the same files.

Run by `make bench`. CPU seconds, user and system. The peers' are those of their whole run, ours those of planning
alone: reading the file is told beside it.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import capacity_report
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import rolling as rolls
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model, text_format

from tests import generated_clusters

if TYPE_CHECKING:
    from collections.abc import Callable

HTOOLS = Path("/usr/lib/ganeti/3.0/usr/bin")
ROLLING_SIZES = ((20, 200), (80, 1000), (200, 4000))
ROLLING_RATIO = 100
CAPACITY_SIZES = ((20, 200), (80, 800))
CAPACITY_SEED = 2
"""Clusters that keep N+1: into others hspace puts nothing."""
CAPACITY_RATIO = 100
STANDARD = model.Spec(4096, 2, 51200)
Found = TypeVar("Found")


def main() -> int:
    """Measure, and print what is not as it should be."""
    wrong = [text for part in (rolling, capacity) for text in part()]
    print(*(wrong or ["the planner is as fast as it should be"]), sep="\n")
    return 1 if wrong else 0


def rolling() -> list[str]:
    """Rolling groups against hroller: never more steps, and a hundredth of its time at 200 nodes."""
    print("rolling groups: nodes  instances   hroller's steps   CPU s   ours   CPU s   ratio   reading, CPU s")
    wrong = []
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        for nodes, instances in ROLLING_SIZES:
            file = Path(folder) / f"cluster-{nodes}"
            file.write_text(text_format.write(generated_clusters.make(nodes=nodes, instances=instances)))
            output, theirs = peer("hroller", "--no-headers", "-t", str(file))
            cluster, reading = best_of(3, partial(_read, file))
            plan, ours = best_of(3, partial(rolls.plan, cluster))
            steps = len(output.split())
            print(
                f"{nodes:21}{instances:11}{steps:18}{theirs:8.2f}{len(plan.steps):7}{ours:8.3f}{theirs / ours:8.0f}"
                f"{reading:17.3f}"
            )
            if len(plan.steps) > steps:
                wrong.append(f"{nodes} nodes are rolled in {len(plan.steps)} steps, by hroller in {steps}")
    if theirs / ours < ROLLING_RATIO:
        wrong.append(f"rolling groups are {theirs / ours:.0f} times as fast as hroller, not {ROLLING_RATIO} times")
    return wrong


def capacity() -> list[str]:
    """Tiers and the standard size against hspace: the same, and a hundredth of its time at 80 nodes."""
    print("capacity: nodes  instances   tiers   standard   hspace, CPU s   ours, CPU s   ratio")
    asked = capacity_report.Question(call=capacity_report.Limits(default_template=model.Template.DRBD))
    wrong = []
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        for nodes, instances in CAPACITY_SIZES:
            file = Path(folder) / f"cluster-{nodes}"
            file.write_text(text_format.write(_with_standard(nodes, instances)))
            output, theirs = peer("hspace", "--machine-readable", "--disk-template=drbd", "-t", str(file))
            report, ours = best_of(3, partial(capacity_report.compute, _read(file), asked, ctime=0.0))
            tiers = [f"{one.size.memory},{one.size.disk},{one.size.vcpus}={one.count}" for one in report.cluster.tiers]
            print(
                f"{nodes:15}{instances:11}{len(tiers):8}{report.cluster.standard:11}{theirs:16.2f}{ours:14.3f}"
                f"{theirs / ours:8.0f}"
            )
            values = dict(re.findall(r"^HTS_(TSPEC|ALLOC_INSTANCES)='?([^'\n]*)", output, re.MULTILINE))
            found = re.sub(r",\d+=", "=", values["TSPEC"]).split()
            if (found, int(values["ALLOC_INSTANCES"])) != (tiers, report.cluster.standard):
                wrong.append(f"{nodes} nodes have the tiers {tiers}, for hspace {found}")
    if theirs / ours < CAPACITY_RATIO:
        wrong.append(f"capacity is {theirs / ours:.0f} times as fast as hspace, not {CAPACITY_RATIO} times")
    return wrong


def _with_standard(nodes: int, instances: int) -> model.Model:
    """A cluster with a standard size of the kind that runs there; the generated one is as small as can be."""
    cluster = generated_clusters.make(nodes=nodes, instances=instances, seed=CAPACITY_SEED)
    policy = replace(cluster.policy, std=STANDARD)
    return replace(cluster, policy=policy, groups=tuple(replace(one, policy=policy) for one in cluster.groups))


def _read(file: Path) -> model.Model:
    return text_format.read(file.read_text())


def peer(program: str, *arguments: str) -> tuple[str, float]:
    """Run one of Ganeti's htools: its output and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([HTOOLS / program, *arguments], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best_of(times: int, work: Callable[[], Found]) -> tuple[Found, float]:
    """Work several times: what was found, and the CPU seconds of the shortest."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        found = work()
        taken.append(time.process_time() - began)
    return found, min(taken)


if __name__ == "__main__":
    sys.exit(main())
