"""Targets: which nodes may take an instance, which of them is best, and what is missing when none is."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Callable, Collection, Iterable, Mapping, Sequence

from ..cluster import cluster as clusters
from ..cluster import incidents
from ..placement.balancing.actions import Action
from ..placement.plan import Refusal
from . import wording

if TYPE_CHECKING:
    from .basis import Basis
    from .prospects import Prospects
    from .room import NodeRoom, Room

NAMES_SHOWN = 5
Scores = Callable[[], Mapping[str, float]]
"""By node (UUID) the score of the cluster with it as the target; less is better."""


class Unfit(Enum):
    """Why a node takes no instance: the state it is in, and what it would have to be."""

    LEAVING = ("left in the same plan", "kept out of the plan")
    INCIDENT = ("part of an incident", "free of its incident")
    INCAPABLE = ("not vm_capable", "made vm_capable")
    OFFLINE = ("offline", "back from offline")
    DRAINED = ("drained", "back from drained")
    UNREACHABLE = ("not reachable", "reachable again")
    SILENT = ("silent: it did not answer when it was last asked", "answering again")

    @property
    def state(self) -> str:
        return self.value[0]

    @property
    def cure(self) -> str:
        return self.value[1]


COMMANDS = {
    Unfit.INCAPABLE: "roundsman node modify {} vm_capable=yes",
    Unfit.OFFLINE: "roundsman node online {}",
    Unfit.DRAINED: "roundsman node undrain {}",
}


@dataclass(frozen=True)
class Demand:
    """What an instance, which is named, asks of a target (MiB).

    `memory` to run there with so many `vcpus`, apart from instances with its exclusion `tags`, and able to migrate
    there from the node `source` ("" where it needs not); `disk` for a replica; `reserve` is the memory to keep free
    there for the day its primary `peer` fails, wanted but not demanded.
    """

    instance: str
    memory: int = 0
    disk: int = 0
    reserve: int = 0
    peer: str = ""
    vcpus: int = 0
    tags: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True)
class Choice:
    """The best target, whether N+1 holds there afterwards, and among how many it was the best."""

    node: str
    keeps: bool
    among: int


class Targets:
    """The targets for one plan, of which `source` (UUID) is none; each choice looks once at each node of the group."""

    def __init__(self, basis: Basis, *, room: Room, source: str = "") -> None:
        self._basis = basis
        self._cluster = basis.cluster
        self._room = room
        self._avoid, self._leaving = frozenset({*basis.avoid, source}), frozenset(basis.leaving)
        self._open: dict[str, list[NodeRoom]] = {}

    def _is_last_resort(self, node: str) -> bool:
        """Whether a node (UUID) is avoided only for a failed incident that nobody acknowledged, and says Ok since."""
        return node in self._avoid and node in self._basis.recovered

    def last_resort(self, node: str) -> str:
        """Why an avoided node (UUID) is the last resort of an instance with a replica there; "" if it is none."""
        if not self._is_last_resort(node):
            return ""
        name, commands = self._cluster.node_name(node), acknowledgements(self._cluster, [node])
        return f"{name} is the last resort: it says Ok since an incident of it failed; acknowledge it: {commands[0]}"

    def unfit(self, node: clusters.Node, *, last_resort: bool = False) -> Unfit | None:
        """The first reason why a node takes no instance at all, if there is one."""
        found = {
            Unfit.LEAVING: node.uuid in self._leaving,
            Unfit.INCIDENT: node.uuid in self._avoid and not (last_resort and self._is_last_resort(node.uuid)),
            Unfit.INCAPABLE: not node.vm_capable,
            Unfit.OFFLINE: node.offline,
            Unfit.DRAINED: node.drained,
            Unfit.UNREACHABLE: node.uuid not in self._basis.reachable,
            Unfit.SILENT: clusters.is_silent(self._cluster, node),
        }
        return next((unfit for unfit, stands in found.items() if stands), None)

    def _commands(self, unfit: Unfit, nodes: Sequence[str]) -> str:
        """In brackets the commands that make nodes (UUIDs) fit, one with NODE for several; '' where there is none."""
        if unfit is Unfit.INCIDENT:
            commands = acknowledgements(self._cluster, nodes)
            return f" ({', '.join(commands)})" if commands else ""
        name = self._cluster.node_name(nodes[0]) if len(nodes) == 1 else "NODE"
        return f" (`{COMMANDS[unfit].format(name)}`)" if unfit in COMMANDS else ""

    def members(self, group: str) -> list[NodeRoom]:
        """The nodes of a group that take instances, in no order."""
        if group not in self._open:
            nodes = (node for node in self._cluster.nodes.values() if node.group == group)
            self._open[group] = [self._room.nodes[node.uuid] for node in nodes if self.unfit(node) is None]
        return self._open[group]

    def scores(self, instance: clusters.Instance, action: Action) -> Mapping[str, float]:
        """By node (UUID) the score of the cluster after this action with it as the new node."""
        return self._prospects().scores(instance, action)

    def scores_of_secondaries(
        self, instance: clusters.Instance, *, primary: str, secondary: str
    ) -> Mapping[str, float]:
        """By node (UUID) the score with it as the secondary, of an instance that by then is on these nodes."""
        prospects = self._prospects()
        with prospects.moved(instance, primary=primary, secondaries=(secondary,)):
            return prospects.scores(instance, Action.REPLACE_SECONDARY)

    def _prospects(self) -> Prospects:
        self._room.prospects.close(self._avoid | self._leaving)
        return self._room.prospects

    def choose(
        self,
        demand: Demand,
        *,
        group: str,
        without: Collection[str],
        scores: Scores,
        returning: str | None = None,
    ) -> Choice | Refusal:
        """The target with room that keeps N+1 if one does; then of the best score of the cluster, first by name.

        Where no node of the group meets the demand the refusal says so in numbers of the nearest one. `scores` are
        asked for only where there is a choice. `returning` is a node whose replica this very job removes before: there
        the replica needs no further disk, unless the node is overfull.
        """
        found: list[tuple[bool, NodeRoom]] = []
        for node in self.members(group):
            disk = 0 if node.uuid == returning and node.disk >= 0 else demand.disk
            if node.uuid not in without and self._meets(node, demand, disk=disk):
                found.append((loses(node, demand), node))
        if not found:
            return self._nowhere(demand, group=group, without=without)
        least = min(loss for loss, _ in found)
        equals = [node for loss, node in found if loss is least]
        known = scores() if len(equals) > 1 else {}
        best = min(equals, key=lambda node: (known.get(node.uuid, math.inf), node.rank, node.uuid))
        return Choice(node=best.uuid, keeps=not least, among=len(found))

    def _meets(self, node: NodeRoom, demand: Demand, *, disk: int) -> bool:
        return (
            node.has_room(memory=demand.memory, disk=disk)
            and node.runs(vcpus=demand.vcpus, excluded=demand.tags)
            and self._receives(demand.source, node.uuid)
        )

    def _receives(self, source: str, target: str) -> bool:
        return not source or self._room.receives(source, target)

    def _nowhere(self, demand: Demand, *, group: str, without: Collection[str]) -> Refusal:
        open_ = sorted((node for node in self.members(group) if node.uuid not in without), key=lambda node: node.rank)
        cures = self._cures(demand, group=group, without=without)
        if not open_:
            unblock = cures or f"another node in group {self._cluster.nodegroups[group].name}"
            return Refusal(demand.instance, self._vacancy(group, without=without), unblock)
        reason, unblock = self._shortage(demand, open_)
        return Refusal(demand.instance, reason, f"{unblock}, or {cures}" if cures else unblock)

    def objection(
        self, node: clusters.Node, demand: Demand, *, group: str, last_resort: bool = False
    ) -> Refusal | None:
        """Why one node, which the reason does not name, is no target for an instance that is to run there, if so."""
        unfit = self.unfit(node, last_resort=last_resort)
        if unfit is not None:
            cure = f"{node.name} {unfit.cure}{self._commands(unfit, [node.uuid])}"
            return Refusal(demand.instance, f"is {unfit.state}", cure)
        if node.group != group:
            return Refusal(demand.instance, "is in another group")
        return self._lack(demand, self._room.nodes[node.uuid])

    def _lack(self, demand: Demand, node: NodeRoom) -> Refusal | None:
        if not node.has_room(memory=demand.memory, disk=0):
            text = f"has {node.memory} MiB free and not {demand.memory}"
            return Refusal(demand.instance, text, f"{demand.memory - node.memory} MiB more memory on {node.name}")
        if not node.runs(vcpus=demand.vcpus, excluded=()):
            left = max(0, math.floor(node.vcpus))
            return Refusal(
                demand.instance,
                f"has {wording.count(left, 'virtual CPU')} left and not {demand.vcpus}",
                _more_cpus(demand.vcpus - left, node),
            )
        taken = sorted(node.excluded.intersection(demand.tags))
        if taken:
            text = f"runs another instance with the exclusion tag {taken[0]}"
            return Refusal(demand.instance, text, f"that instance off {node.name}")
        if not self._receives(demand.source, node.uuid):
            name = self._room.nodes[demand.source].name
            text = f"receives no live migrations from {name} (migration tags)"
            return Refusal(demand.instance, text, "other migration tags")
        return None

    def _shortage(self, demand: Demand, nodes: list[NodeRoom]) -> tuple[str, str]:
        with_room = [node for node in nodes if node.has_room(memory=demand.memory, disk=demand.disk)]
        if not with_room:
            return _no_room(demand, nodes)
        with_cpus = [node for node in with_room if node.runs(vcpus=demand.vcpus, excluded=())]
        if not with_cpus:
            best = max(with_room, key=lambda node: node.vcpus)
            left = max(0, math.floor(best.vcpus))
            wanted = wording.count(demand.vcpus, "virtual CPU")
            reason = f"no node with room has {wanted} left: best is {best.name} with {left}"
            return reason, _more_cpus(demand.vcpus - left, best)
        apart = [node for node in with_cpus if node.excluded.isdisjoint(demand.tags)]
        if not apart:
            names = _one_of(with_cpus)
            reason = f"another instance with the exclusion tag {', '.join(demand.tags)} is on each node with room"
            return reason, f"that instance off {names}"
        name = self._room.nodes[demand.source].name
        return f"no node with room receives live migrations from {name} (migration tags)", "other migration tags"

    def _vacancy(self, group: str, *, without: Collection[str]) -> str:
        """Why no node of the group is left to ask: there is no other one, or those that are take nothing."""
        name = self._cluster.nodegroups[group].name
        holders = sorted((node for node in self.members(group) if node.uuid in without), key=lambda node: node.rank)
        told = f" ({' and '.join(node.name for node in holders)} holds its other replica)" if holders else ""
        members = {node.uuid for node in self._cluster.nodes.values() if node.group == group}
        if len(members) > 1 and members <= set(without):
            return f"no third node in group {name}{told}"
        return f"no other node of group {name} takes {f'it{told}' if holders else 'instances'}"

    def _cures(self, demand: Demand, *, group: str, without: Collection[str]) -> str:
        closed: dict[Unfit, list[NodeRoom]] = {}
        for node in self._cluster.nodes.values():
            room = self._room.nodes[node.uuid]
            fits = node.group == group and node.uuid not in without
            if fits and self._meets(room, demand, disk=demand.disk):
                unfit = self.unfit(node)
                if unfit is not None:
                    closed.setdefault(unfit, []).append(room)
        known = (unfit for unfit in Unfit if unfit in closed)
        return ", or ".join(
            f"{_one_of(closed[unfit])} {unfit.cure}{self._commands(unfit, [room.uuid for room in closed[unfit]])}"
            for unfit in known
        )


def acknowledgements(cluster: clusters.Cluster, nodes: Collection[str]) -> list[str]:
    """The commands that acknowledge the failed incidents of nodes (UUIDs), a few of them."""
    failed = [
        incident
        for incident in cluster.maintenance.incidents
        if incident.node in nodes and incident.repair_status is incidents.RepairStatus.FAILED
    ]
    return [incident.acknowledgement for incident in failed[:NAMES_SHOWN]]


def loses(node: NodeRoom, demand: Demand) -> bool:
    """Whether N+1 does not hold at a node once a demand is met there."""
    left = node.spare - demand.memory
    if demand.memory and left < node.peak:
        return True
    return demand.reserve > 0 and left < node.reserved.get(demand.peer, 0) + demand.reserve


def _no_room(demand: Demand, nodes: list[NodeRoom]) -> tuple[str, str]:
    with_disk = [node for node in nodes if node.has_room(memory=0, disk=demand.disk)]
    roomiest = max(nodes, key=lambda node: node.memory)
    if not roomiest.has_room(memory=demand.memory, disk=0):
        reason = f"no node has {demand.memory} MiB free: best is {roomiest.name} with {roomiest.memory}"
        return reason, f"{demand.memory - roomiest.memory} MiB more memory on {roomiest.name}"
    if not with_disk:
        best = max(nodes, key=lambda node: node.disk)
        reason = f"no node has {demand.disk} MiB of disk free: best is {best.name} with {best.disk}"
        return reason, f"{demand.disk - best.disk} MiB more disk on {best.name}"
    best = max(with_disk, key=lambda node: node.memory)
    reason = (
        f"no node has both {demand.memory} MiB of memory and {demand.disk} MiB of disk free: "
        f"best is {best.name} with {best.memory} MiB of memory"
    )
    return reason, f"{demand.memory - best.memory} MiB more memory on {best.name}"


def _more_cpus(missing: int, node: NodeRoom) -> str:
    less = wording.count(missing, "virtual CPU")
    return f"{less} less in use on {node.name}, or a higher vcpu-ratio in the instance policy"


def _one_of(nodes: Iterable[NodeRoom]) -> str:
    ordered = sorted(nodes, key=lambda node: node.rank)
    if len(ordered) == 1:
        return ordered[0].name
    names = ", ".join(node.name for node in itertools.islice(ordered, NAMES_SHOWN))
    rest = len(ordered) - NAMES_SHOWN
    return f"one of {names}" + (f" and {rest} more" if rest > 0 else "")
