"""The evacuation of a node: one plan over all its instances, and the failures of nodes that it makes worse (N+1).

See DESIGN, "Maintenance: from report to tag".
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Callable, Collection, Iterable, Mapping

from ..cluster import cluster as clusters
from ..placement.plan import Move, Plan, Refusal
from . import targets, ways
from .holdings import disk_per_copy, memory_in_use

if TYPE_CHECKING:
    from .basis import Basis
    from .room import Room

NOTHING_KEPT: Mapping[str, Refusal] = MappingProxyType({})


def plan(
    basis: Basis,
    node_uuid: str,
    *,
    failover: bool,
    room: Room,
    which: Callable[[clusters.Instance], bool] | None = None,
    kept: Mapping[str, Refusal] = NOTHING_KEPT,
) -> Plan:
    """Every instance leaves by one move or is refused; no move counts on room that another one frees.

    One that is failed over off a node that is not reachable gets its new secondary by a second move, after those of all
    others: it runs again before anything is copied.

    An instance whose replica finds no room leaves by a move, and its replica is refused. The notes are the failures
    that the cluster no longer survives then.

    `failover` forbids live migration; `which` says which instances are meant, by default all; `kept` are the instances
    (UUID) that are not moved now, or not any more, and why. `room` is that of the round and is used up. Targets are
    chosen instance by instance, by the score of the cluster after each (`prospects.py`); one choice costs
    O(nodes² + instances).
    """
    node = basis.cluster.node(node_uuid)
    lookout = targets.Targets(basis, room=room, source=node.uuid)
    ways_out = ways.Ways(basis, node, failover=failover, lookout=lookout, room=room)
    n_plus_1 = Survival(room)
    moves: list[Move] = []
    later: list[Move] = []
    refusals: list[Refusal] = []
    meant = [instance for instance in room.held(node.uuid) if which is None or which(instance)]
    for instance in in_order(meant, node=node.uuid):
        way = kept.get(instance.uuid) or ways_out.out(instance)
        left = way if isinstance(way, Refusal) else way.left
        if left is not None:
            refusals.append(left)
        if isinstance(way, Refusal):
            continue
        n_plus_1.watch(dict.fromkeys((*instance.nodes, way.primary, *way.secondaries)))
        room.move(instance, primary=way.primary, secondaries=way.secondaries)
        moves.append(Move(instance.name, way.steps, why=way.why))
        later += [Move(instance.name, way.later, why=way.later_why)] if way.later else []
    return Plan((*moves, *later), tuple(refusals), n_plus_1.lost())


def in_order(instances: Collection[clusters.Instance], *, node: str) -> list[clusters.Instance]:
    """Replicated primaries, whose target is given, then other primaries, then replicas; large before small."""

    def place(instance: clusters.Instance) -> tuple[object, ...]:
        kind = 2 if instance.primary_node != node else 0 if instance.disk_template == "drbd" else 1
        size = -memory_in_use(instance), -disk_per_copy(instance)
        return kind, *size, clusters.natural(instance.name), instance.uuid

    return sorted(instances, key=place)


class Survival:
    """Compares what is missing for N+1 at the nodes that a plan touches, before and after."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._before: dict[str, dict[str, int]] = {}

    def watch(self, nodes: Iterable[str]) -> None:
        """Remember nodes (UUIDs) as they are now, unless they are remembered already."""
        for uuid in nodes:
            if uuid in self._room.nodes and uuid not in self._before:
                self._before[uuid] = self._room.nodes[uuid].deficits()

    def lost(self) -> tuple[str, ...]:
        """The failures that were survived, or better survived, before: in words, ordered by name."""
        found = []
        for uuid, before in self._before.items():
            node = self._room.nodes[uuid]
            for peer, missing in node.deficits().items():
                if missing > before.get(peer, 0):
                    failing = self._room.nodes[peer]
                    text = (
                        f"{failing.name} may no longer fail: {node.name} has {node.spare} MiB free "
                        f"for the {node.reserved[peer]} MiB that would start there"
                    )
                    found.append((failing.rank, node.rank, text))
        return tuple(text for _, _, text in sorted(found))
