"""Schedules: when each move of a plan may begin, what it copies and how long it is expected to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..placement.balancing import plans
from . import holdings, moving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...module_utils.domain import cluster as clusters
    from . import work


@dataclass(frozen=True)
class Turn:
    """One job of a plan: `wave` moves have to end before it one after the other; `mib` is what it copies.

    `start` is in seconds from the plan's, `seconds` is how long the job is expected to take.
    """

    mib: float
    wave: int
    start: float
    seconds: float


def of(cluster: clusters.Cluster, jobs: Sequence[work.Job]) -> tuple[Turn, ...]:
    """A turn for each job of moves, whose dependencies are all before it; O(jobs)."""
    by_key: dict[str, Turn] = {}
    for job in jobs:
        before = [by_key[key] for key in (*job.after, *job.behind) if key in by_key]
        sizes = [_copied(cluster, opcode) for opcode in job.opcodes]
        by_key[job.key] = Turn(
            mib=sum(sizes),
            wave=max((one.wave + 1 for one in before), default=0),
            start=max((one.start + one.seconds for one in before), default=0.0),
            seconds=sum(size / plans.RATE + plans.OVERHEAD for size in sizes),
        )
    return tuple(by_key.values())


def _copied(cluster: clusters.Cluster, opcode: work.Opcode) -> float:
    """The MiB that a step copies: a disk, or the memory of what runs on."""
    instance = cluster.instances[str(opcode.params["instance"])]
    if opcode.kind == moving.REPLACE:
        return float(instance.disk_size)
    return float(holdings.memory_in_use(instance)) if opcode.kind == "migrate" else 0.0
