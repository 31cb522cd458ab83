"""Opcodes that move instances off a node: they plan as a round does, and submit one job per instance."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ...module_utils.domain import errors
from ..planning import evacuation, room, rounds, waves
from . import contract

if TYPE_CHECKING:
    from ...module_utils.domain import cluster as clusters
    from ...module_utils.domain.locks import Mode
    from ..planning import work

MOVES = frozenset({"migrate", "failover"})


@dataclass(frozen=True)
class NodeEvacuate:
    """Move instances off a node: its primaries, the copies it keeps for others, or both.

    With `primary-only` a replicated instance goes to its other copy and keeps the one on this node. If one of the
    instances cannot be moved, none is.
    """

    kind: ClassVar[str] = "node_evacuate"
    node: str
    mode: Literal["primary-only", "secondary-only", "all"] = "all"

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.SHARED}

    def moot(self, _cluster: clusters.Cluster) -> str:
        return ""

    def jobs(self, cluster: clusters.Cluster, _facts: contract.Facts) -> list[work.Job]:
        node = cluster.node(self.node)
        plan = evacuation.plan(
            cluster,
            node.uuid,
            failover=False,
            avoid=rounds.no_targets(cluster),
            taken={},
            room=room.Room(cluster),
            waves=waves.Waves(limit=cluster.maintenance.settings.moves_per_node),
            which=self._is_meant,
        )
        jobs = [self._trimmed(job) for job in plan.jobs]
        moved = {cluster.instances[str(job.opcodes[0].params["instance"])].name for job in jobs}
        # Of an instance that leaves by a job only its copy is refused, which `primary-only` does not move.
        refused = [one for one in plan.refusals if self.mode != "primary-only" or one.subject not in moved]
        if refused:
            told = "; ".join(f"{one.subject}: {one.reason}" for one in refused)
            raise errors.Refused(f"Unable to evacuate {node.name}: {told}")
        return jobs

    def _is_meant(self, instance: clusters.Instance) -> bool:
        is_primary = instance.primary_node == self.node
        return {"primary-only": is_primary, "secondary-only": not is_primary, "all": True}[self.mode]

    def _trimmed(self, job: work.Job) -> work.Job:
        if self.mode != "primary-only":
            return job
        moves = [index for index, one in enumerate(job.opcodes) if one.kind in MOVES]
        return dataclasses.replace(job, opcodes=job.opcodes[: moves[-1] + 1])


@dataclass(frozen=True)
class NodeMigrate(NodeEvacuate):
    """Migrate all primaries of a node away; a stopped one is moved as it is."""

    kind: ClassVar[str] = "node_migrate"
    mode: Literal["primary-only"] = "primary-only"
