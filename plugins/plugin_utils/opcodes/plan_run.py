"""The opcode that runs a plan which somebody has looked at: if nothing has changed since, it submits its moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .. import plan_documents
from ..placement.plan import Move
from ..rounds import moving
from . import contract

if TYPE_CHECKING:
    from ..cluster import cluster as clusters
    from ..cluster.locks import Mode
    from ..rounds import work


@dataclass(frozen=True)
class MoveParams:
    """A move as a document has it: its steps in `action`, one space between them."""

    instance: str
    action: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunPlan(contract.SubmitOpcode):
    """Submit one job for each move of a plan, unless the cluster is another one than the plan was made for.

    `moves` name instances and nodes by name, as the plan does; its digest covers the names.
    """

    kind: ClassVar[str] = "run_plan"
    command: str
    digest: str
    moves: tuple[MoveParams, ...]
    failover: bool = False
    ignore_consistency: bool = False
    max_loss: contract.Loss | None = None

    def wants(self, cluster: clusters.Cluster) -> dict[str, Mode]:
        nodes = moving.nodes_of(cluster, self._moves)
        # Alone at these nodes it sees no move half done: what the digest says is what is there.
        return {f"node/{uuid}": contract.EXCLUSIVE for uuid in sorted(nodes)}

    def jobs(self, cluster: clusters.Cluster, _facts: contract.Facts) -> list[work.Job]:
        found = plan_documents.run(
            cluster,
            self._moves,
            digest=self.digest,
            command=self.command,
            failover=self.failover,
            ignore_consistency=self.ignore_consistency,
            max_loss=self.max_loss,
        )
        return list(found)

    @property
    def _moves(self) -> tuple[Move, ...]:
        return tuple(Move(move.instance, tuple(move.action.split()), move.after) for move in self.moves)
