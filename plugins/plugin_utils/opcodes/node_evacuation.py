"""Opcodes that move instances off a node: they plan as `roundsman evacuate` does, and submit one job per instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from ...module_utils.domain.values import errors
from ..placement.allocation.allocator import Scope
from ..rounds import departures, moving
from . import contract

if TYPE_CHECKING:
    from ..cluster import cluster as clusters
    from ..cluster.locks import Mode
    from ..rounds import work


@dataclass(frozen=True)
class NodeEvacuate(contract.SubmitOpcode):
    """Move instances off a node: its primaries, the copies it keeps for others, or both.

    With `primary-only` a replicated instance goes to its other replica and keeps the one on this node. If one of the
    instances cannot be moved, none is.
    """

    kind: ClassVar[str] = "node_evacuate"
    node: str
    mode: Literal["primary-only", "secondary-only", "all"] = "all"

    def wants(self, _cluster: clusters.Cluster) -> dict[str, Mode]:
        return {f"node/{self.node}": contract.SHARED}

    def jobs(self, cluster: clusters.Cluster, facts: contract.Facts) -> list[work.Job]:
        cluster = contract.observed(cluster, facts)
        node = cluster.node(self.node)
        plan = departures.of_nodes(cluster, [node.uuid], scope=Scope(self.mode))
        if plan.refusals:
            told = "; ".join(f"{refusal.subject}: {refusal.reason}" for refusal in plan.refusals)
            raise errors.Refused(f"Unable to evacuate {node.name}: {told}")
        return list(moving.Jobs(cluster, reason=f"evacuating {node.name}: moving {{}} away").make_all(plan.moves))


@dataclass(frozen=True)
class NodeMigrate(NodeEvacuate):
    """Migrate all primaries of a node away; a stopped one is moved as it is."""

    kind: ClassVar[str] = "node_migrate"
    mode: Literal["primary-only"] = "primary-only"
