"""Schedules: when each move of a plan may begin, what it copies and how long it is expected to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..placement.balancing import turns
from . import holdings, moving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..cluster import cluster as clusters
    from ..placement.plan import Move
    from . import work


def expected(cluster: clusters.Cluster, moves: Sequence[Move], jobs: Sequence[work.Job]) -> tuple[turns.Turn, ...]:
    """A turn for each move; `jobs` are those of the moves, in their order, each behind its dependencies; O(jobs).

    Raises:
        NotFound, InvalidInput: as with `moving.Jobs.make`.
    """
    by_key: dict[str, turns.Turn] = {}
    for move, nodes, job in zip(moves, moving.ends(cluster, moves), jobs, strict=True):
        before = [by_key[key] for key in (*job.after, *job.behind) if key in by_key]
        sizes = [_copied(cluster, opcode) for opcode in job.opcodes]
        by_key[job.key] = turns.Turn(
            move,
            primary=nodes[0],
            secondary=nodes[1] if len(nodes) > 1 else "",
            mib=sum(sizes),
            wave=max((turn.wave + 1 for turn in before), default=0),
            start=max((turn.start + turn.seconds for turn in before), default=0.0),
            seconds=sum(size / turns.RATE + turns.OVERHEAD for size in sizes),
        )
    return tuple(by_key.values())


def _copied(cluster: clusters.Cluster, opcode: work.Opcode) -> float:
    """The MiB that a step copies: a disk, or the memory of what runs on."""
    instance = cluster.instances[str(opcode.params["instance"])]
    if opcode.kind == moving.REPLACE:
        return float(instance.disk_size)
    return float(holdings.memory_in_use(instance)) if opcode.kind == "migrate" else 0.0
