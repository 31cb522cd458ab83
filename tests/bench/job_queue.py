"""What the job queue costs: submissions and jobs per second, and how both stand with 20,000 jobs in it.

Run by `make bench`. The jobs do nothing (`test_delay` of 0 s), so what is measured is the queue: files made durable,
order, locks. A live Ganeti 3.0.2 on two cores: 6 submissions and 1.7 jobs a second.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.roundsman.cluster.daemon import service
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import building
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

JOBS = 1000
MANY = 20_000
GANETI = (6, 1.7)


def main() -> int:
    """Measure, and print what it cost."""
    with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
        ports = {"http": 1, "bmc": 2}
        lab = building.build(Path(folder) / "lab", nodes=3, instances=0, ports=ports, settings=clusters.Settings())
        where = tree.Tree(lab.controller)
        wrong = asyncio.run(_in_one_call(where)) + asyncio.run(_in_many_calls(where)) + asyncio.run(_among_many(where))
    print(*(wrong or ["the jobs of one submission ended in order of priority"]), sep="\n")
    return 1 if wrong else 0


async def _in_one_call(where: tree.Tree) -> list[str]:
    one = service.assemble(where, limit=8)
    began = time.perf_counter()
    jobs = await one.queue.submit([_job((-10, 0, 10)[number % 3]) for number in range(JOBS)])
    submitted = time.perf_counter()
    ended = await _end(one, jobs)
    print(f"{JOBS} jobs in one call: {_rate(submitted - began)} submissions/s, {_rate(ended - began)} jobs/s")
    priorities = [job.opcodes[0].priority for job in sorted(one.queue.jobs.values(), key=lambda job: job.ended)]
    await one.queue.stop()
    return [] if priorities == sorted(priorities) else ["the jobs did not end in order of priority"]


async def _in_many_calls(where: tree.Tree) -> list[str]:
    one = service.assemble(where, limit=8)
    began = time.perf_counter()
    found = await asyncio.gather(*(one.queue.submit([_job(0)]) for _ in range(JOBS)))
    submitted = time.perf_counter()
    ended = await _end(one, [job for jobs in found for job in jobs])
    print(
        f"{JOBS} calls at once: {_rate(submitted - began)} submissions/s ({GANETI[0]} in Ganeti), "
        f"{_rate(ended - began)} jobs/s ({GANETI[1]} in Ganeti)"
    )
    began = time.perf_counter()
    for _ in range(JOBS // 5):
        await one.queue.submit([_job(0)])
    print(f"one call after the other: {_rate(time.perf_counter() - began, JOBS // 5)} submissions/s")
    await one.queue.stop()
    return []


async def _among_many(where: tree.Tree) -> list[str]:
    one = service.assemble(where, limit=8)
    first = (await one.queue.submit([_job(0, duration=3600)]))[0].id
    before = _memory()
    began = time.perf_counter()
    await one.queue.submit([_job(0, depends=(values.Dependency(first),)) for _ in range(MANY)])
    print(f"{MANY} jobs that wait: {time.perf_counter() - began:.1f} s to submit, {_memory() - before:.0f} MiB")
    began = time.perf_counter()
    for _ in range(JOBS // 10):
        await _end(one, await one.queue.submit([_job(0)]))
    print(f"among them, one after the other: {_rate(time.perf_counter() - began, JOBS // 10)} jobs/s")
    await one.queue.stop()
    began = time.perf_counter()
    again = service.assemble(where, limit=8)
    print(f"start with {len(again.queue.jobs)} jobs: {time.perf_counter() - began:.1f} s")
    began = time.perf_counter()
    moved = await again.queue.archive_older_than(0)
    print(f"{len(moved)} jobs archived in {time.perf_counter() - began:.2f} s")
    await again.queue.stop()
    return []


async def _end(one: service.Service, jobs: list[values.Job]) -> float:
    for job in jobs:
        await one.queue.wait(job.id, seconds=600)
    return time.perf_counter()


def _job(priority: int, *, duration: float = 0, depends: tuple[values.Dependency, ...] = ()) -> values.Job:
    return values.Job(0, (values.Opcode("test_delay", {"duration": duration}, priority),), depends, received=1.0)


def _rate(seconds: float, count: int = JOBS) -> str:
    return f"{count / seconds:.0f}"


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
