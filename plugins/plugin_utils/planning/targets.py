"""Targets: which nodes may take an instance, which of them is best, and what is missing when none is."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Collection, Iterable

from ...module_utils.domain import cluster as clusters

if TYPE_CHECKING:
    from .room import NodeRoom, Room

NAMES_SHOWN = 5


class Obstacle(Enum):
    """Why a node takes no instance: the state it is in, and what it would have to be."""

    INCIDENT = ("part of an incident", "free of its incident")
    INCAPABLE = ("not vm_capable", "made vm_capable")
    OFFLINE = ("offline", "back from offline")
    DRAINED = ("drained", "back from drained")
    UNREACHABLE = ("not reachable", "reachable again")

    @property
    def state(self) -> str:
        return self.value[0]

    @property
    def cure(self) -> str:
        return self.value[1]


@dataclass(frozen=True)
class Demand:
    """What an instance asks of a target (MiB).

    `memory` to run there, `disk` for a copy; `reserve` is the memory to keep free there for the day its
    primary `peer` fails, wanted but not demanded.
    """

    memory: int = 0
    disk: int = 0
    reserve: int = 0
    peer: str = ""


@dataclass(frozen=True)
class Choice:
    """The best target, and whether N+1 holds there afterwards."""

    node: str
    keeps: bool


@dataclass(frozen=True)
class Lack:
    """Why there is no target, and what would make one."""

    reason: str
    unblock: str


class Targets:
    """The targets of one cluster for one plan; each choice looks once at each node of the group."""

    def __init__(self, cluster: clusters.Cluster, *, room: Room, avoid: Collection[str]) -> None:
        self._cluster = cluster
        self._room = room
        self._avoid = frozenset(avoid)
        self._open: dict[str, list[NodeRoom]] = {}

    def obstacle(self, node: clusters.Node) -> Obstacle | None:
        """The first reason why a node takes no instance at all, if there is one."""
        found = {
            Obstacle.INCIDENT: node.uuid in self._avoid,
            Obstacle.INCAPABLE: not node.vm_capable,
            Obstacle.OFFLINE: node.offline,
            Obstacle.DRAINED: node.drained,
            Obstacle.UNREACHABLE: not clusters.reachable(self._cluster, node),
        }
        return next((obstacle for obstacle, stands in found.items() if stands), None)

    def of(self, group: str) -> list[NodeRoom]:
        """The nodes of a group that take instances, in no order."""
        if group not in self._open:
            members = (one for one in self._cluster.nodes.values() if one.group == group)
            self._open[group] = [self._room.nodes[one.uuid] for one in members if self.obstacle(one) is None]
        return self._open[group]

    def best(
        self, demand: Demand, *, group: str, without: Collection[str], returning: str | None = None
    ) -> Choice | None:
        """The target with room that keeps N+1 if one does; then the least utilised, emptiest, first by name.

        `returning` is a node whose copy this very job removes before: there the copy needs no further disk,
        unless the node is overfull.
        """
        best: tuple[bool, float, int, int, str] | None = None
        for node in self.of(group):
            disk = 0 if node.uuid == returning and node.disk >= 0 else demand.disk
            if node.uuid in without or not node.holds(memory=demand.memory, disk=disk):
                continue
            utilisation = node.utilisation(memory=demand.memory, disk=disk)
            merit = (loses(node, demand), utilisation, node.instances, node.rank, node.uuid)
            if best is None or merit < best:
                best = merit
        return Choice(node=best[-1], keeps=not best[0]) if best else None

    def lack(self, demand: Demand, *, group: str, without: Collection[str]) -> Lack:
        """Why no node of the group meets a demand, in numbers of the nearest one."""
        open_ = sorted((one for one in self.of(group) if one.uuid not in without), key=lambda one: one.rank)
        cures = self._cures(demand, group=group, without=without)
        if not open_:
            unblock = cures or f"another node in group {self._cluster.nodegroups[group].name}"
            return Lack(self._vacancy(group, without=without), unblock)
        reason, unblock = _shortage(demand, open_)
        return Lack(reason, f"{unblock}, or {cures}" if cures else unblock)

    def _vacancy(self, group: str, *, without: Collection[str]) -> str:
        """Why no node of the group is left to ask: there is no other one, or those that are take nothing."""
        name = self._cluster.nodegroups[group].name
        holders = sorted((one for one in self.of(group) if one.uuid in without), key=lambda one: one.rank)
        told = f" ({' and '.join(one.name for one in holders)} holds its other copy)" if holders else ""
        members = {one.uuid for one in self._cluster.nodes.values() if one.group == group}
        if len(members) > 1 and members <= set(without):
            return f"no third node in group {name}{told}"
        return f"no other node of group {name} takes {f'it{told}' if holders else 'instances'}"

    def _cures(self, demand: Demand, *, group: str, without: Collection[str]) -> str:
        by_obstacle: dict[Obstacle, list[NodeRoom]] = {}
        for node in self._cluster.nodes.values():
            room = self._room.nodes[node.uuid]
            if node.group == group and node.uuid not in without and room.holds(memory=demand.memory, disk=demand.disk):
                obstacle = self.obstacle(node)
                if obstacle is not None:
                    by_obstacle.setdefault(obstacle, []).append(room)
        known = (obstacle for obstacle in Obstacle if obstacle in by_obstacle)
        return ", or ".join(f"{_one_of(by_obstacle[obstacle])} {obstacle.cure}" for obstacle in known)


def loses(node: NodeRoom, demand: Demand) -> bool:
    """Whether N+1 does not hold at a node once a demand is met there."""
    left = node.spare - demand.memory
    if demand.memory and left < node.peak:
        return True
    return demand.reserve > 0 and left < node.reserved.get(demand.peer, 0) + demand.reserve


def _shortage(demand: Demand, nodes: list[NodeRoom]) -> tuple[str, str]:
    with_disk = [one for one in nodes if one.holds(memory=0, disk=demand.disk)]
    roomiest = max(nodes, key=lambda one: one.memory)
    if not roomiest.holds(memory=demand.memory, disk=0):
        reason = f"no node has {demand.memory} MiB free: best is {roomiest.name} with {roomiest.memory}"
        return reason, f"{demand.memory - roomiest.memory} MiB more memory on {roomiest.name}"
    if not with_disk:
        best = max(nodes, key=lambda one: one.disk)
        reason = f"no node has {demand.disk} MiB of disk free: best is {best.name} with {best.disk}"
        return reason, f"{demand.disk - best.disk} MiB more disk on {best.name}"
    best = max(with_disk, key=lambda one: one.memory)
    reason = (
        f"no node has both {demand.memory} MiB of memory and {demand.disk} MiB of disk free: "
        f"best is {best.name} with {best.memory} MiB of memory"
    )
    return reason, f"{demand.memory - best.memory} MiB more memory on {best.name}"


def _one_of(nodes: Iterable[NodeRoom]) -> str:
    ordered = sorted(nodes, key=lambda one: one.rank)
    if len(ordered) == 1:
        return ordered[0].name
    names = ", ".join(one.name for one in itertools.islice(ordered, NAMES_SHOWN))
    rest = len(ordered) - NAMES_SHOWN
    return f"one of {names}" + (f" and {rest} more" if rest > 0 else "")
