"""Moves as jobs: what a plan says of its instances becomes opcodes for the queue, here and nowhere else."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from . import ways, work
from .waves import Waves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..placement.plan import Move

REPLACE = "replace_disks"
Found = TypeVar("Found")


class Jobs:
    """Makes a job for each move, in their order; O(nodes + instances + moves). Others may be admitted between two.

    A running instance migrates, unless `failover` forbids it; one that is down, or whose primary is not reachable, is
    failed over, with `ignore_consistency` to a replica that is not known to be in sync, and with `max_loss` to one that
    may lack the writes of so many seconds.

    A job comes after those that its move names, and behind so many others that no node has more than
    `moves_per_node` at once; with `waves` those of a round count too, and jobs of one `incident` come after each other
    instead, so that the first failure ends its work. A failover off a node that is not reachable waits for none but
    its like, whatever becomes of those, and other moves at its nodes wait for it. All come after the keys of `after`.
    `reason` has {} where the instance's name stands; why it goes there follows. Of an instance that is moved twice the
    second move comes after the first.
    """

    def __init__(
        self,
        cluster: clusters.Cluster,
        *,
        failover: bool = False,
        ignore_consistency: bool = False,
        max_loss: int | None = None,
        after: tuple[str, ...] = (),
        incident: str | None = None,
        reason: str = "moving {}",
        waves: Waves | None = None,
    ) -> None:
        self._waves = Waves(limit=cluster.maintenance.settings.moves_per_node) if waves is None else waves
        self._maker = _Maker(cluster, failover=failover, ignore_consistency=ignore_consistency, max_loss=max_loss)
        self._after, self._incident, self._reason = after, incident, reason
        self._newest: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def make_all(self, moves: Iterable[Move]) -> tuple[work.Job, ...]:
        """The jobs of the next moves; raises as `make`."""
        return tuple(self.make(move) for move in moves)

    def is_urgent(self, move: Move) -> bool:
        """Whether the next move of its instance only starts it elsewhere, off a node that is not reachable."""
        return self._maker.is_urgent(move)

    def make(self, move: Move) -> work.Job:
        """The job of the next move.

        Raises:
            NotFound: an instance or node is not there. InvalidInput: a step is none, or not possible for its instance,
            or a move comes after one that is not before it.
        """
        urgent = self._maker.is_urgent(move)
        opcodes, nodes = self._maker.opcodes(move)
        newest = self._newest
        self._count[move.instance] = self._count.get(move.instance, 0) + 1
        key = f"move:{move.instance}" + (f":{self._count[move.instance]}" if move.instance in newest else "")
        late = [name for name in move.after if name not in newest]
        if late:
            raise errors.InvalidInput(f"{move.instance} comes after {late[0]}, which no move before it moves")
        named = [newest[name] for name in (*move.after, move.instance) if name in newest]
        admitted = self._waves.admit(key, nodes=nodes, incident=self._incident, urgent=urgent)
        chained = admitted.own if self._incident and not urgent else ()
        before = tuple(dict.fromkeys((*self._after, *named, *chained)))
        others = dict.fromkeys((*admitted.own, *admitted.others))
        newest[move.instance] = key
        return work.Job(
            key,
            opcodes,
            after=before,
            incident=self._incident,
            reason="; ".join(filter(None, [self._reason.replace("{}", move.instance), move.why])),
            behind=tuple(other for other in others if other not in before),
            earlier=admitted.earlier,
        )


def nodes_of(cluster: clusters.Cluster, moves: Iterable[Move]) -> frozenset[str]:
    """The nodes (UUIDs) that the instances of moves have and that their steps name, as far as they are there."""
    there = {node.name: node.uuid for node in cluster.nodes.values()}
    instances = {instance.name: instance for instance in cluster.instances.values()}
    found: set[str] = set()
    for move in moves:
        named = (step.partition(":")[2] for step in move.steps)
        found |= {there[name] for name in named if name in there}
        if move.instance in instances:
            found |= set(instances[move.instance].nodes)
    return frozenset(found)


def ends(cluster: clusters.Cluster, moves: Iterable[Move]) -> tuple[tuple[str, ...], ...]:
    """The nodes (names) that an instance has after each move, the primary first.

    Raises:
        NotFound, InvalidInput: as with `Jobs.make`.
    """
    made = _Maker(cluster, failover=False)
    found = []
    for move in moves:
        made.opcodes(move)
        found.append(tuple(cluster.node_name(uuid) for uuid in made.standing(move.instance).nodes))
    return tuple(found)


def refuse_misplaced(cluster: clusters.Cluster, moves: Sequence[Move]) -> None:
    """No planner puts an instance into two groups, or onto a node that takes none; whoever writes a plan may.

    Raises:
        InvalidInput: a move does; or NotFound, as with `Jobs.make`.
    """
    there = {node.name: node for node in cluster.nodes.values()}
    instances = {instance.name: instance for instance in cluster.instances.values()}
    last = dict(zip((move.instance for move in moves), ends(cluster, moves), strict=True))
    for name, places in last.items():
        nodes = [there[place] for place in places]
        entered = [node for node in nodes if node.uuid not in instances[name].nodes]
        if entered and len({node.group for node in nodes}) > 1:
            raise errors.InvalidInput(f"{name} would end in two groups, on {' and '.join(places)}")
        for node in entered:
            if node.drained or not node.vm_capable or not clusters.reachable(cluster, node):
                raise errors.InvalidInput(f"{name} would end on {node.name}, which takes no instances")


class _Maker:
    """Makes opcodes of moves, each from where the moves before it have left its instance."""

    def __init__(
        self,
        cluster: clusters.Cluster,
        *,
        failover: bool,
        ignore_consistency: bool = False,
        max_loss: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._failover = failover
        self._ignore_consistency = ignore_consistency
        self._max_loss = max_loss
        self._nodes = {node.name: node.uuid for node in cluster.nodes.values()}
        self._now = {instance.name: instance for instance in cluster.instances.values()}

    def standing(self, name: str) -> clusters.Instance:
        """An instance where it is now."""
        return _known(self._now, name, "instance")

    def is_urgent(self, move: Move) -> bool:
        """Whether a move only starts an instance that is down elsewhere: nothing is copied."""
        primary = self._cluster.nodes.get(self.standing(move.instance).primary_node)
        is_down = primary is None or not clusters.reachable(self._cluster, primary)
        return is_down and all(step.partition(":")[0] == "f" for step in move.steps)

    def opcodes(self, move: Move) -> tuple[tuple[work.Opcode, ...], tuple[str, ...]]:
        """The opcodes of a move, and the nodes (UUIDs) that have a part in it."""
        instance = self.standing(move.instance)
        nodes, made = list(instance.nodes), []
        for step in move.steps:
            kind, _, name = step.partition(":")
            target = _known(self._nodes, name, "node") if name else ""
            if kind == "r" and target:
                opcode, instance = self._replace(instance, target, step)
            elif kind == "f":
                opcode, instance = self._run(instance, target, step)
            else:
                raise errors.InvalidInput(f"{instance.name}: {step!r} is not one of f, f:NODE, r:NODE")
            made.append(opcode)
            nodes += instance.nodes
        if not made:
            raise errors.InvalidInput(f"{instance.name}: its move has no steps")
        self._now[move.instance] = instance
        return tuple(made), tuple(dict.fromkeys(nodes))

    def _replace(self, instance: clusters.Instance, target: str, step: str) -> tuple[work.Opcode, clusters.Instance]:
        if not instance.secondary_nodes or target in instance.nodes:
            raise errors.InvalidInput(f"{instance.name}: {step!r} needs another replica, and a node without one")
        if bound := ways.not_replaced(instance):
            raise errors.InvalidInput(f"{instance.name}: {bound}")
        old, *others = instance.secondary_nodes
        opcode = work.Opcode(REPLACE, {"instance": instance.uuid, "old": old, "new": target, "planned": True})
        return opcode, dataclasses.replace(instance, secondary_nodes=(target, *others))

    def _run(self, instance: clusters.Instance, target: str, step: str) -> tuple[work.Opcode, clusters.Instance]:
        source = instance.primary_node
        if instance.disk_template == "drbd":
            if target or not instance.secondary_nodes:
                raise errors.InvalidInput(f"{instance.name}: {step!r} is not possible with disk template drbd")
            target = instance.secondary_nodes[0]
        elif instance.disk_template not in ways.ANYWHERE or target in {"", source}:
            text = f"{step!r} is not possible with disk template {instance.disk_template}"
            raise errors.InvalidInput(f"{instance.name}: {text} on {self._cluster.node_name(source)}")
        kind = self._kind(instance)
        params: dict[str, object] = {"instance": instance.uuid, "source": source, "target": target}
        if kind == "failover" and self._ignore_consistency:
            params["ignore_consistency"] = True
        if kind == "failover" and self._max_loss is not None:
            params["max_loss"] = self._max_loss
        secondaries = tuple(source if uuid == target else uuid for uuid in instance.secondary_nodes)
        moved = dataclasses.replace(instance, primary_node=target, secondary_nodes=secondaries)
        return work.Opcode(kind, params), moved

    def _kind(self, instance: clusters.Instance) -> str:
        reachable = clusters.reachable(self._cluster, self._cluster.node(instance.primary_node))
        return "migrate" if instance.is_up and reachable and not self._failover else "failover"


def _known(there: Mapping[str, Found], name: str, kind: str) -> Found:
    if name not in there:
        raise errors.NotFound(f"there is no {kind} {name!r}")
    return there[name]
