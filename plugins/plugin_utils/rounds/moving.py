"""Moves as jobs: what a plan says of its instances becomes opcodes for the queue, and the other way round.

An action is a row of steps: `f` exchanges primary and secondary, `f:NODE` runs the instance on another node that
reaches its disks, `r:NODE` moves its secondary replica there. Nodes and instances are told by name.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...module_utils.domain import cluster as clusters
from ...module_utils.domain import errors
from . import ways, work
from .waves import Waves

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPLACE = "replace_disks"
Found = TypeVar("Found")


class Moved(Protocol):
    """A move of any plan; `after` are the instances whose moves of the same plan must have succeeded before."""

    @property
    def instance(self) -> str:
        """The instance's name."""

    @property
    def action(self) -> str:
        """Its steps, one space between them."""

    @property
    def after(self) -> tuple[str, ...]:
        """Names of instances."""


@dataclass(frozen=True)
class Move:
    """The move of one instance, as a document has it."""

    instance: str
    action: str
    after: tuple[str, ...] = ()


def jobs_of(
    cluster: clusters.Cluster,
    moves: Iterable[Moved],
    *,
    failover: bool = False,
    ignore_consistency: bool = False,
    after: tuple[str, ...] = (),
    incident: str | None = None,
    reason: str = "moving {}",
    waves: Waves | None = None,
) -> tuple[work.Job, ...]:
    """A job for each move, in their order; O(nodes + instances + moves).

    A running instance migrates, unless `failover` forbids it; one that is down, or whose primary is not reachable, is
    failed over, with `ignore_consistency` to a replica that is not known to be in sync.

    A job comes after those that its move names, and behind so many others that no node has more than
    `moves_per_node` at once; with `waves` those of a round count too. All come after the keys of `after`. `reason` has
    {} where the instance's name stands. Of an instance that is moved twice the second move comes after the first.

    Raises:
        NotFound: an instance or node is not there. InvalidInput: a step is none, or not possible for its instance, or
        a move comes after one that is not before it.
    """
    admitted = Waves(limit=cluster.maintenance.settings.moves_per_node) if waves is None else waves
    made = _Maker(cluster, failover=failover, ignore_consistency=ignore_consistency)
    newest: dict[str, str] = {}
    count: dict[str, int] = {}
    jobs = []
    for move in moves:
        opcodes, nodes = made.opcodes(move)
        count[move.instance] = count.get(move.instance, 0) + 1
        key = f"move:{move.instance}" + (f":{count[move.instance]}" if move.instance in newest else "")
        late = [one for one in move.after if one not in newest]
        if late:
            raise errors.InvalidInput(f"{move.instance} comes after {late[0]}, which no move before it moves")
        named = [newest[one] for one in (*move.after, move.instance) if one in newest]
        before = tuple(dict.fromkeys((*after, *named)))
        own, others = admitted.admit(key, nodes=nodes, incident=incident)
        behind = tuple(one for one in dict.fromkeys((*own, *others)) if one not in before)
        why = reason.replace("{}", move.instance)
        jobs.append(work.Job(key, opcodes, after=before, incident=incident, reason=why, behind=behind))
        newest[move.instance] = key
    return tuple(jobs)


def moves_of(cluster: clusters.Cluster, jobs: Iterable[work.Job]) -> tuple[Move, ...]:
    """The moves of jobs that move one instance each."""
    return tuple(_move(cluster, job.opcodes) for job in jobs)


def _move(cluster: clusters.Cluster, opcodes: Sequence[work.Opcode]) -> Move:
    instance = cluster.instances[str(opcodes[0].params["instance"])]
    steps = []
    for opcode in opcodes:
        if opcode.kind == REPLACE:
            steps.append(f"r:{cluster.node_name(str(opcode.params['new']))}")
        elif instance.disk_template == "drbd":
            steps.append("f")
        else:
            steps.append(f"f:{cluster.node_name(str(opcode.params['target']))}")
    return Move(instance.name, " ".join(steps))


def nodes_of(cluster: clusters.Cluster, moves: Iterable[Moved]) -> frozenset[str]:
    """The nodes (UUIDs) that the instances of moves have and that their steps name, as far as they are there."""
    there = {one.name: one.uuid for one in cluster.nodes.values()}
    instances = {one.name: one for one in cluster.instances.values()}
    found: set[str] = set()
    for move in moves:
        named = (step.partition(":")[2] for step in move.action.split())
        found |= {there[name] for name in named if name in there}
        if move.instance in instances:
            found |= set(instances[move.instance].nodes)
    return frozenset(found)


def ends(cluster: clusters.Cluster, moves: Iterable[Moved]) -> tuple[tuple[str, ...], ...]:
    """The nodes (names) that an instance has after each move, the primary first.

    Raises:
        NotFound, InvalidInput: as with `jobs_of`.
    """
    made = _Maker(cluster, failover=False)
    found = []
    for move in moves:
        made.opcodes(move)
        found.append(tuple(cluster.node_name(one) for one in made.standing(move.instance).nodes))
    return tuple(found)


def refuse_misplaced(cluster: clusters.Cluster, moves: Sequence[Moved]) -> None:
    """No planner puts an instance into two groups, or onto a node that takes none; whoever writes a plan may.

    Raises:
        InvalidInput: a move does; or NotFound, as with `jobs_of`.
    """
    there = {one.name: one for one in cluster.nodes.values()}
    instances = {one.name: one for one in cluster.instances.values()}
    last = dict(zip((move.instance for move in moves), ends(cluster, moves), strict=True))
    for name, names in last.items():
        entered = [there[one] for one in names if there[one].uuid not in instances[name].nodes]
        if entered and len({there[one].group for one in names}) > 1:
            raise errors.InvalidInput(f"{name} would end in two groups, on {' and '.join(names)}")
        for node in entered:
            if node.drained or not node.vm_capable or not clusters.reachable(cluster, node):
                raise errors.InvalidInput(f"{name} would end on {node.name}, which takes no instances")


class _Maker:
    """Makes opcodes of moves, each from where the moves before it have left its instance."""

    def __init__(self, cluster: clusters.Cluster, *, failover: bool, ignore_consistency: bool = False) -> None:
        self._cluster = cluster
        self._failover = failover
        self._ignore_consistency = ignore_consistency
        self._nodes = {one.name: one.uuid for one in cluster.nodes.values()}
        self._now = {one.name: one for one in cluster.instances.values()}

    def standing(self, name: str) -> clusters.Instance:
        """An instance where it is now."""
        return _known(self._now, name, "instance")

    def opcodes(self, move: Moved) -> tuple[tuple[work.Opcode, ...], tuple[str, ...]]:
        """The opcodes of a move, and the nodes (UUIDs) that have a part in it."""
        instance = self.standing(move.instance)
        nodes, made = list(instance.nodes), []
        for step in move.action.split():
            kind, _, name = step.partition(":")
            target = _known(self._nodes, name, "node") if name else ""
            if kind == "r" and target:
                opcode, instance = self._replace(instance, target, step)
            elif kind == "f":
                opcode, instance = self._run(instance, target, step)
            else:
                raise errors.InvalidInput(f"{instance.name}: {step!r} is none of f, f:NODE, r:NODE")
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
        secondaries = tuple(source if one == target else one for one in instance.secondary_nodes)
        moved = dataclasses.replace(instance, primary_node=target, secondary_nodes=secondaries)
        return work.Opcode(kind, params), moved

    def _kind(self, instance: clusters.Instance) -> str:
        reachable = clusters.reachable(self._cluster, self._cluster.node(instance.primary_node))
        return "migrate" if instance.is_up and reachable and not self._failover else "failover"


def _known(there: Mapping[str, Found], name: str, kind: str) -> Found:
    if name not in there:
        raise errors.NotFound(f"there is no {kind} {name!r}")
    return there[name]
