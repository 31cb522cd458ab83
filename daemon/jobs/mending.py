"""What is left of a job whose file was damaged: its processes end, and what they had made true is kept.

Nobody knows any more which opcode it was at, so nothing of it goes on. Its locks tell whether it was at work: only then
its last run is settled like a lost one, for the runs before were settled before their locks were given back, and what
others did since must not be undone. The instances that it held alone are looked for, as after any lost run, and the
power of nodes that it held alone is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.locks import Mode
from . import lookup, process, settling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from ..locks import holders
    from .ports import Ports


async def clear_up(ports: Ports, job: int, owner: holders.Owner) -> str:
    """End what a lost job has left at work, commit what it recorded, look for its instances; returns what was found.

    To be called again after a crash is harmless.
    """
    runs = ports.store.runs(job)
    for run in runs:
        await process.end_run(run)
        if (run / "livelock").exists():
            await ports.processes.ended(run)
    held = ports.desk.table.locks_of(owner)
    if not held or not runs:
        return ""
    return await _settled(ports, runs[-1], held, owner)


async def _settled(ports: Ports, run: Path, held: Mapping[str, Mode], owner: holders.Owner) -> str:
    settlement = await settling.settle(run)
    refused = await settling.commit(settlement, ports=ports, by=owner.name)
    told = [f"its last run: {settlement.text or 'success'}", *refused]
    if not settlement.succeeded:
        looks = _looks(ports.configuration.current, held)
        told += [await lookup.carry_out(one, folder=run / "lookup", ports=ports, owner=owner) for one in looks]
    return "; ".join(told)


def _looks(cluster: clusters.Cluster, held: Mapping[str, Mode]) -> list[lookup.Look]:
    instances = [one for one in _named(held, "instance", only=Mode.EXCLUSIVE) if one in cluster.instances]
    looks = [lookup.instance(cluster, one, beside=_named(held, "node")) for one in instances]
    power = lookup.power(cluster, _named(held, "node", only=Mode.EXCLUSIVE))
    return looks if power is None else [*looks, power]


def _named(held: Mapping[str, Mode], level: str, *, only: Mode | None = None) -> list[str]:
    return [
        lock.partition("/")[2] for lock, mode in held.items() if lock.startswith(f"{level}/") and only in {None, mode}
    ]
