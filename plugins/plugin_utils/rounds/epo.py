"""Emergency power off and its return: what is done to which node, and what cannot be (seed 001, "epo").

Pure: the same cluster and the same question give the equal preview, whose code a person confirms.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...module_utils.domain.values import errors
from ..cluster import changes, known_off
from ..cluster import cluster as clusters
from ..disks import unfinished_moves
from . import holdings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..cluster import epo as emergency

CODE_LENGTH = 6
NO_OOB = "has no OOB: its power stays as it is"
OFFLINE = "is offline: nobody looks at what runs there"
SELF = "is where this runs: its power is the last step, by hand"
DONE = "is {} on record already: its BMC is asked all the same"
ASKED = "is asked, and keeps its power as it is: it has replicas of what starts"
NOTHING_STANDS = (
    "no emergency power off stands: there is nothing to bring back. After a loss of power name the nodes, or all: "
    "`roundsman cluster epo --on --all`"
)


@dataclass(frozen=True)
class NodeStep:
    """What is done to one node: whether it is contacted and for which of its instances (names), and its power.

    `group` is its node group's name; `note` says what is special about it, or nothing.
    """

    uuid: str
    name: str
    group: str
    contact: bool
    power: bool
    instances: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Preview:
    """What an emergency power off, or with `on` its return, would do.

    `steps` are in the order in which nodes are powered; `last` is the controller's own node, when it is among them.
    `degraded` are the instances (names) that go on elsewhere without their secondary replica.
    """

    on: bool
    steps: tuple[NodeStep, ...]
    last: str = ""
    degraded: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What stands for exactly this preview, also against those who choose the names in it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def code(self) -> str:
        """The beginning of the digest, for a person to type: who types it has read the preview."""
        return self.digest[:CODE_LENGTH]

    def is_confirmed_by(self, text: str) -> bool:
        """Whether this is the code, or more of the digest."""
        return len(text) >= CODE_LENGTH and self.digest.startswith(text)

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of all instances that are stopped, or started."""
        return tuple(dict.fromkeys(name for step in self.steps for name in step.instances))

    @property
    def lines(self) -> list[str]:
        """What is done to each node, for a person to read before it is done."""
        stop, power = ("start", "power on") if self.on else ("stop", "power off")
        told = []
        for step in self.steps:
            todo = [f"{stop} {', '.join(step.instances)}"] if step.instances else []
            todo += [power] if step.power else []
            told.append(f"{step.name}: {'; '.join(todo) or 'nothing'}" + (f" ({step.note})" if step.note else ""))
        if self.degraded:
            told.append(f"go on without their secondary replica: {', '.join(self.degraded)}")
        return told

    @property
    def told(self) -> dict[str, Any]:
        """The preview with its code, all of the digest as nobody types it, as a JSON value."""
        return {**asdict(self), "code": self.digest}

    def batches(self, size: int) -> list[list[str]]:
        """The nodes to power, by name: off all together, on so many at a time and never of two groups together."""
        if not self.on:
            return [[step.name for step in self.steps if step.power]]
        groups: dict[str, list[str]] = {}
        for step in self.steps:
            if step.power:
                groups.setdefault(step.group, []).append(step.name)
        return [names[start : start + size] for names in groups.values() for start in range(0, len(names), size)]


def chosen(cluster: clusters.Cluster, names: Sequence[str], *, by_group: bool, everything: bool) -> list[str]:
    """The nodes (UUIDs) that are meant, by name or by node group; all of them only when that is said.

    Raises:
        NotFound: there is no such node or group. InvalidInput: nothing is named, or too much.
    """
    if everything and (names or by_group):
        raise errors.InvalidInput("--all is the whole cluster: name neither nodes nor groups beside it")
    if everything:
        return list(cluster.nodes)
    if not names:
        what = "node groups" if by_group else "nodes"
        raise errors.InvalidInput(f"name the {what}, or say --all for the whole cluster")
    if by_group:
        groups = {cluster.group(name).uuid for name in names}
        return [uuid for uuid, node in cluster.nodes.items() if node.group in groups]
    return list(dict.fromkeys(cluster.node(name).uuid for name in names))


def preview(cluster: clusters.Cluster, names: Sequence[str], *, on: bool, by_group: bool, everything: bool) -> Preview:
    """What is meant, and what would be done; without any name that is what stands already.

    Raises:
        NotFound: there is no such node or group. InvalidInput: nothing is named, or too much.
        Refused: no emergency power off stands that could be returned from, and nothing is named.
    """
    known, is_named = cluster.maintenance.epo, bool(names or by_group or everything)
    if known is not None and not is_named:
        if on and known.lost:
            # A person may keep a node off that was asked only, for its replicas.
            return _after_loss(cluster, known, set(_in_service(cluster, known.nodes)))
        nodes = _taken(cluster, known)
        return _on(cluster, known, nodes) if on else _off(cluster, nodes)
    if on and not is_named:
        raise errors.Refused(NOTHING_STANDS)
    nodes = chosen(cluster, names, by_group=by_group, everything=everything)
    if not on:
        return _off(cluster, nodes)
    if known is None or known.lost:
        return _after_loss(cluster, known, set(nodes if names and not by_group else _in_service(cluster, nodes)))
    if by_group or everything:
        # What was off before it began stays so.
        taken = set(_taken(cluster, known))
        nodes = [uuid for uuid in nodes if uuid in taken]
    return _on(cluster, known, nodes)


def _after_loss(cluster: clusters.Cluster, known: emergency.Epo | None, named: Collection[str]) -> Preview:
    """What bringing these nodes (UUIDs) back would do after a loss of power; what stands already goes on.

    All that should run there starts. The other nodes that have replicas of it may have lost their power, too, and may
    have newer data: they are waited for, and not powered.
    """
    lost = {uuid: cluster.instances[uuid] for uuid in (_returning(cluster, known) if known else ())}
    lost |= {
        uuid: instance
        for uuid, instance in cluster.instances.items()
        if instance.primary_node in named and instance.is_up and not instance.moving
        if not cluster.nodes[instance.primary_node].offline
    }
    places = {uuid for instance in lost.values() for uuid in instance.nodes if not cluster.nodes[uuid].offline}
    held = holdings.Holdings(lost)
    steps = []
    for node in _ordered(cluster, {*named, *places}):
        step = _on_step(cluster, node, held.primaries(node.uuid))
        if node.uuid not in named:
            step = replace(step, power=False, note=ASKED)
        elif known_off.is_off(node):
            person = node.off_stated_by or "a person"
            off = f"is off by the word of {person}" if node.off_confirmed else DONE.format("off")
            step = replace(step, note="; ".join(filter(None, [off, step.note])))
        steps.append(step)
    return Preview(on=True, steps=tuple(steps))


def _in_service(cluster: clusters.Cluster, nodes: Iterable[str]) -> list[str]:
    """Those that are neither offline nor off by the word of a person, who keeps them so."""
    there = [cluster.nodes[uuid] for uuid in nodes if uuid in cluster.nodes]
    return [node.uuid for node in there if not node.offline and not node.off_confirmed]


def _taken(cluster: clusters.Cluster, known: emergency.Epo) -> list[str]:
    """The nodes (UUIDs) that are to return, or on which something is."""
    primaries = [cluster.instances[uuid].primary_node for uuid in known.instances if uuid in cluster.instances]
    return [uuid for uuid in dict.fromkeys([*known.nodes, *primaries]) if uuid in cluster.nodes]


def _off(cluster: clusters.Cluster, nodes: Iterable[str]) -> Preview:
    """What powering these nodes (UUIDs) off would do: the instances that run there, or may, are stopped first."""
    among, held = set(nodes), holdings.Holdings(cluster.instances)
    steps = tuple(_off_step(cluster, node, held.possibly_running(node.uuid)) for node in _ordered(cluster, among))
    stopped = {name for step in steps for name in step.instances}
    degraded = [
        instance.name
        for instance in cluster.instances.values()
        if instance.name not in stopped and instance.primary_node not in among and among & set(instance.secondary_nodes)
    ]
    last = _last(cluster, among)
    return Preview(on=False, steps=steps, last=last, degraded=tuple(sorted(degraded, key=clusters.natural)))


def _on(cluster: clusters.Cluster, known: emergency.Epo, nodes: Iterable[str]) -> Preview:
    """What powering these nodes (UUIDs) on would do: the instances that were stopped start again."""
    stopped = {uuid: cluster.instances[uuid] for uuid in _returning(cluster, known)}
    held = holdings.Holdings(stopped)
    steps = tuple(_on_step(cluster, node, held.possibly_running(node.uuid)) for node in _ordered(cluster, set(nodes)))
    return Preview(on=True, steps=steps)


@dataclass(frozen=True)
class Return:
    """How far the return of an emergency power off has come, and what is to be done next.

    `stated` are the changes that say so. `waiting` are the nodes (names) that have not answered. Per node (name),
    `replicas` are the instances (UUIDs) whose replicas are to be brought up there, as DRBD does not do that by itself,
    and then `starts` those to start there now. `missed` tells a line for each that is not back.
    """

    stated: tuple[changes.Change, ...]
    waiting: tuple[str, ...] = ()
    replicas: Mapping[str, list[str]] = field(default_factory=dict)
    starts: Mapping[str, list[str]] = field(default_factory=dict)
    missed: tuple[str, ...] = ()


def returned(
    cluster: clusters.Cluster,
    *,
    among: set[str],
    answered: set[str],
    running: set[str],
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> Return:
    """Strike off the nodes that answered and the instances that run (UUIDs), as far as nodes `among` these are meant.

    `reasons` are why instances (UUIDs) did not start, as their primaries say. An instance starts when all its nodes are
    back. Nobody waits for a node that is offline, nor for what has its primary there.
    """
    known = cluster.maintenance.epo
    if known is None:
        return Return(())
    nodes = [
        uuid
        for uuid in known.nodes
        if uuid in cluster.nodes and uuid not in answered and not cluster.nodes[uuid].offline
    ]
    instances = [uuid for uuid in _returning(cluster, known) if uuid not in running]
    awaited = [uuid for uuid in instances if not cluster.nodes[cluster.instances[uuid].primary_node].offline]
    stands = changes.EpoStands(tuple(nodes), tuple(awaited), known.by, returning=True, lost=known.lost)
    powered = [
        changes.NodePowered(uuid, powered=True) for uuid in sorted(answered) if known_off.is_off(cluster.nodes[uuid])
    ]
    starts = _startable(cluster, instances, missing=set(nodes))
    meant = [cluster.instances[uuid] for uuid in instances if cluster.instances[uuid].primary_node in among]
    missed = [f"{cluster.node_name(uuid)} does not answer" for uuid in nodes if uuid in among]
    return Return(
        (*powered, stands if nodes or awaited else changes.EpoGone()),
        tuple(cluster.node_name(uuid) for uuid in nodes if uuid in among),
        _replicas(cluster, came={uuid for uuid in known.nodes if uuid in answered}, starts=starts),
        {cluster.node_name(node): found for node, found in starts.items()},
        (
            *missed,
            *(
                _missed_text(
                    clusters.observed(cluster, silent=nodes), instance, nodes, why=reasons.get(instance.uuid, "")
                )
                for instance in meant
            ),
        ),
    )


def _missed_text(cluster: clusters.Cluster, instance: clusters.Instance, missing: Sequence[str], *, why: str) -> str:
    primary = cluster.nodes[instance.primary_node]
    text = f"{instance.name} does not run on {primary.name}"
    if primary.offline:
        return f"{text}, which is offline: run `roundsman instance failover {instance.name}`"
    unfinished = unfinished_moves.text(cluster, instance)
    again = "; then run `roundsman cluster epo --on` again, which ends the hold"
    if unfinished:
        return f"{text}, and is not started, as {unfinished}{again}"
    others = [cluster.node_name(uuid) for uuid in instance.secondary_nodes if uuid in missing]
    if not others or instance.primary_node in missing:
        return f"{text}: {why}" if why else text
    return (
        f"{text}: it waits for {', '.join(others)}, which may have newer data. If that does not come back, run "
        f"`roundsman instance start {instance.name}`, which starts it without its replica there if it may{again}"
    )


def _returning(cluster: clusters.Cluster, known: emergency.Epo) -> list[str]:
    """The instances (UUIDs) that are to start again: not those that were removed or shut down since."""
    return [uuid for uuid in known.instances if uuid in cluster.instances and cluster.instances[uuid].is_up]


def _startable(cluster: clusters.Cluster, instances: Iterable[str], *, missing: set[str]) -> dict[str, list[str]]:
    """Per primary the instances none of whose nodes is missing, and which no migration may have taken elsewhere."""
    found: dict[str, list[str]] = {}
    for uuid in instances:
        instance = cluster.instances[uuid]
        if instance.moving:
            continue
        if missing.isdisjoint(instance.nodes) and not cluster.nodes[instance.primary_node].offline:
            found.setdefault(instance.primary_node, []).append(uuid)
    return found


def _replicas(cluster: clusters.Cluster, *, came: set[str], starts: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Per secondary (name) the instances with a replica on a node that came back, or that are about to start."""
    about_to = {uuid for found in starts.values() for uuid in found}
    found: dict[str, list[str]] = {}
    for instance in cluster.instances.values():
        if instance.disk_template != "drbd":
            continue
        for node in instance.secondary_nodes:
            if node in came or (instance.uuid in about_to and not cluster.nodes[node].offline):
                found.setdefault(cluster.node_name(node), []).append(instance.uuid)
    return found


def _off_step(cluster: clusters.Cluster, node: clusters.Node, instances: list[clusters.Instance]) -> NodeStep:
    contact = clusters.reachable(cluster, node)
    running = holdings.names(instances) if contact else []
    is_self = node.uuid == cluster.cluster.master_node
    note, power = "", True
    if is_self:
        note, power = SELF, False
    elif clusters.parameter(cluster, node, "oob_program") is None:
        note, power = NO_OOB, False
    elif not node.powered:
        note = DONE.format("off")
    elif node.offline:
        note = OFFLINE
    note = _noted(cluster, note, instances)
    return NodeStep(node.uuid, node.name, _group(cluster, node), contact, power, tuple(running), note)


def _on_step(cluster: clusters.Cluster, node: clusters.Node, starts: list[clusters.Instance]) -> NodeStep:
    power = node.uuid != cluster.cluster.master_node and clusters.parameter(cluster, node, "oob_program") is not None
    note = "" if power or node.uuid == cluster.cluster.master_node else NO_OOB
    names = tuple(instance.name for instance in starts if not instance.moving)
    note = _noted(cluster, note, starts)
    return NodeStep(node.uuid, node.name, _group(cluster, node), not node.offline, power, names, note)


def _noted(cluster: clusters.Cluster, note: str, instances: Iterable[clusters.Instance]) -> str:
    """The note of a node, with the migrations to or from it that have not ended."""
    unfinished = (unfinished_moves.text(cluster, instance) for instance in instances)
    return "; ".join(text for text in (note, *unfinished) if text)


def _ordered(cluster: clusters.Cluster, among: set[str]) -> list[clusters.Node]:
    """By group, then by name; the controller's own node last."""
    found = [cluster.nodes[uuid] for uuid in among]
    return sorted(
        found,
        key=lambda node: (
            node.uuid == cluster.cluster.master_node,
            clusters.natural(_group(cluster, node)),
            clusters.natural(node.name),
        ),
    )


def _last(cluster: clusters.Cluster, among: set[str]) -> str:
    master = cluster.cluster.master_node
    return cluster.nodes[master].name if master in among else ""


def _group(cluster: clusters.Cluster, node: clusters.Node) -> str:
    return cluster.nodegroups[node.group].name
