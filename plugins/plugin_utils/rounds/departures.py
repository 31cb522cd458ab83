"""Departures: what leaves nodes at once as one plan, with its refusals."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ..placement.allocation.allocator import Scope
from ..placement.plan import Move, Plan, Refusal
from . import evacuation, rounds
from .basis import Basis
from .room import Room

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ..cluster import cluster as clusters


def of_nodes(
    cluster: clusters.Cluster, names: Collection[str], *, scope: Scope = Scope.ALL, failover: bool = False
) -> Plan:
    """Instances leave nodes: their primaries, the replicas that they keep for others, or both.

    The nodes are no targets for each other, and share the room that is left; what has both of its nodes among them
    gets two others. With `PRIMARY` a replicated instance goes to its other replica and keeps the one on the node. It
    costs what the evacuations of the nodes cost, one after the other.

    Raises:
        NotFound: there is no such node.
    """
    leaving = tuple(dict.fromkeys(cluster.node(name).uuid for name in names))
    basis = Basis(cluster, avoid=rounds.no_targets(cluster), leaving=leaving)
    room = Room(cluster)
    moves: list[Move] = []
    refusals: list[Refusal] = []
    lost: dict[str, None] = {}
    for uuid in leaving:
        plan = evacuation.plan(basis, uuid, failover=failover, room=room, which=_meant(uuid, scope, leaving))
        moves += _without_replicas(plan.moves) if scope is Scope.PRIMARY else plan.moves
        refusals += plan.refusals
        lost |= dict.fromkeys(plan.notes)
    moved = {move.instance for move in moves}
    # Of an instance that leaves by a move only its replica is refused, which `PRIMARY` does not move.
    refused = [refusal for refusal in refusals if scope is not Scope.PRIMARY or refusal.subject not in moved]
    return Plan(tuple(moves), tuple(refused), tuple(lost))


def _meant(node: str, scope: Scope, leaving: Collection[str]) -> Callable[[clusters.Instance], bool]:
    def is_meant(instance: clusters.Instance) -> bool:
        is_primary = instance.primary_node == node
        if scope is Scope.ALL:
            # What leaves its primary, too, leaves both by one job.
            return is_primary or instance.primary_node not in leaving
        return is_primary is (scope is Scope.PRIMARY)

    return is_meant


def _without_replicas(moves: Iterable[Move]) -> list[Move]:
    """Moves up to where their instances run elsewhere."""
    found = []
    for move in moves:
        runs = [index for index, step in enumerate(move.steps, start=1) if step.startswith("f")]
        found += [dataclasses.replace(move, steps=move.steps[: runs[-1]])] if runs else []
    return found
