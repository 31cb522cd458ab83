"""What is left of a job whose file was damaged: its processes end, and what they had made true is kept.

Nobody knows any more which opcode it was at, so nothing of it goes on. Its locks tell whether it was at work: only then
its last run is settled like a lost one, for the runs before were settled before their locks were given back, and what
others did since must not be undone. The instances that it held alone are looked for, as after any lost run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...plugins.module_utils.domain import changes
from ...plugins.module_utils.domain.locks import Mode
from . import lookup, process, settling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ...plugins.module_utils.domain import cluster as clusters
    from ..locks import table
    from .ports import Ports


@dataclass(frozen=True)
class _Unknown:
    """An opcode of which only the locks are known: as much as a search for its instance needs."""

    kind: ClassVar[str] = "unknown"
    time_limit: ClassVar[int] = 0
    instance: str
    nodes: tuple[str, ...]

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {}

    def moot(self, _cluster: clusters.Cluster) -> str:
        return ""

    def hosts(self, cluster: clusters.Cluster) -> list[str]:
        return [uuid for uuid in self.nodes if uuid in cluster.nodes]

    def variables(self, _cluster: clusters.Cluster) -> dict[str, Any]:
        return {}

    def files(self) -> dict[str, str]:
        return {}

    def about(self) -> str:
        return self.instance


async def clear_up(ports: Ports, job: int, owner: table.Owner) -> str:
    """End what a lost job has left at work, commit what it recorded, look for its instances; returns what was found.

    To be called again after a crash is harmless.
    """
    runs = ports.store.runs(job)
    for run in runs:
        process.end_all_of(run)
        if (run / "livelock").exists():
            await ports.processes.ended(run)
    held = ports.desk.table.locks_of(owner)
    if not held or not runs:
        return ""
    return await _settled(ports, runs[-1], held, owner)


async def _settled(ports: Ports, run: Path, held: Mapping[str, Mode], owner: table.Owner) -> str:
    settlement = settling.settle(run)
    refused = list(settlement.unreadable)

    def recorded(cluster: clusters.Cluster) -> list[changes.Change]:
        applicable, others = changes.sort_out(cluster, settlement.recorded, now=ports.clock())
        refused.extend(others)
        return applicable

    await ports.configuration.commit(recorded)
    told = [f"its last run: {settlement.text or 'success'}", *refused]
    if not settlement.succeeded:
        cluster = ports.configuration.current
        for instance in _named(held, "instance", only=Mode.EXCLUSIVE):
            if instance in cluster.instances:
                lost = _Unknown(instance, tuple(_named(held, "node")))
                told.append(await lookup.look_for(lost, folder=run / "lookup", ports=ports, owner=owner))
    return "; ".join(told)


def _named(held: Mapping[str, Mode], level: str, *, only: Mode | None = None) -> list[str]:
    return [
        lock.partition("/")[2] for lock, mode in held.items() if lock.startswith(f"{level}/") and only in {None, mode}
    ]
