"""Departures: what leaves nodes at once as one plan, with its refusals."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..placement.allocation.allocator import Scope
from . import evacuation, moving, rounds, work
from .room import Room
from .waves import Waves

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...module_utils.domain import cluster as clusters

MOVES = frozenset({"migrate", "failover"})


@dataclass(frozen=True)
class Departure:
    """The moves, what is refused, and the failures that are no longer survived then."""

    moves: tuple[moving.Move, ...] = ()
    refusals: tuple[work.Refusal, ...] = ()
    lost: tuple[str, ...] = ()


def of_nodes(
    cluster: clusters.Cluster, names: Collection[str], *, scope: Scope = Scope.ALL, failover: bool = False
) -> Departure:
    """Instances leave nodes: their primaries, the replicas that they keep for others, or both.

    The nodes are no targets for each other, and share the room that is left; what has both of its nodes among them
    gets two others. With `PRIMARY` a replicated instance goes to its other replica and keeps the one on the node. It
    costs what the evacuations of the nodes cost, one after the other.

    Raises:
        NotFound: there is no such node.
    """
    leaving = tuple(dict.fromkeys(cluster.node(name).uuid for name in names))
    room, waves = Room(cluster), Waves(limit=cluster.maintenance.settings.moves_per_node)
    jobs: list[work.Job] = []
    refusals: list[work.Refusal] = []
    lost: dict[str, None] = {}
    for uuid in leaving:
        plan = evacuation.plan(
            cluster,
            uuid,
            failover=failover,
            avoid=rounds.no_targets(cluster),
            taken={},
            room=room,
            waves=waves,
            which=_meant(uuid, scope, leaving),
            leaving=leaving,
        )
        jobs += [_trimmed(job) if scope is Scope.PRIMARY else job for job in plan.jobs]
        refusals += plan.refusals
        lost |= dict.fromkeys(plan.failures_no_longer_survived)
    moves = moving.moves_of(cluster, jobs)
    moved = {move.instance for move in moves}
    # Of an instance that leaves by a job only its replica is refused, which `PRIMARY` does not move.
    refused = [one for one in refusals if scope is not Scope.PRIMARY or one.subject not in moved]
    return Departure(moves, tuple(refused), tuple(lost))


def _meant(node: str, scope: Scope, leaving: Collection[str]) -> Callable[[clusters.Instance], bool]:
    def is_meant(instance: clusters.Instance) -> bool:
        is_primary = instance.primary_node == node
        if scope is Scope.ALL:
            # What leaves its primary, too, leaves both by one job.
            return is_primary or instance.primary_node not in leaving
        return is_primary is (scope is Scope.PRIMARY)

    return is_meant


def _trimmed(job: work.Job) -> work.Job:
    last = max(index for index, one in enumerate(job.opcodes) if one.kind in MOVES)
    return dataclasses.replace(job, opcodes=job.opcodes[: last + 1])
