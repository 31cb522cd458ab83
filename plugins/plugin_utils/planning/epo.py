"""Emergency power off and its return: what is done to which node, and what cannot be (seed 001, "epo").

Pure: the same cluster and the same question give the equal preview, whose code a person confirms.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Sequence

from ...module_utils.domain import cluster as clusters
from ...module_utils.domain import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

CODE_LENGTH = 6
NO_OOB = "has no OOB: its power stays as it is"
OFFLINE = "is offline: nobody looks at what runs there"
SELF = "is where this runs: its power is the last step, by hand"
DONE = "is {} on record already: its BMC is asked all the same"


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
    `degraded` are the instances (names) that go on elsewhere without their second copy.
    """

    on: bool
    steps: tuple[NodeStep, ...]
    last: str = ""
    degraded: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """A few characters that stand for exactly this preview: who types them has read it."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:CODE_LENGTH]

    @property
    def instances(self) -> tuple[str, ...]:
        """The names of all instances that are stopped, or started."""
        return tuple(name for step in self.steps for name in step.instances)


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


def off(cluster: clusters.Cluster, nodes: Iterable[str]) -> Preview:
    """What powering these nodes (UUIDs) off would do: the instances that run there are stopped first."""
    among = set(nodes)
    steps = tuple(_off_step(cluster, node) for node in _ordered(cluster, among))
    stopped = {name for step in steps for name in step.instances}
    degraded = [
        one.name
        for one in cluster.instances.values()
        if one.name not in stopped and one.primary_node not in among and among & set(one.secondary_nodes)
    ]
    return Preview(False, steps, _last(cluster, among), tuple(sorted(degraded, key=clusters.natural)))


def on(cluster: clusters.Cluster, nodes: Iterable[str]) -> Preview:
    """What powering these nodes (UUIDs) on would do: the instances that were stopped start again.

    Raises:
        Refused: no emergency power off stands.
    """
    known = cluster.maintenance.epo
    if known is None:
        raise errors.Refused("no emergency power off stands: there is nothing to bring back")
    among, remembered = set(nodes), set(known.instances)
    steps = tuple(_on_step(cluster, node, remembered) for node in _ordered(cluster, among))
    return Preview(True, steps)


def startable(cluster: clusters.Cluster, remembered: Iterable[str], *, answering: Iterable[str]) -> dict[str, list[str]]:
    """Of instances (UUIDs) those whose nodes (UUIDs) all answer: per primary, the instances to start there."""
    there = set(answering)
    found: dict[str, list[str]] = {}
    for uuid in remembered:
        one = cluster.instances.get(uuid)
        if one is not None and set(one.nodes) <= there:
            found.setdefault(one.primary_node, []).append(uuid)
    return found


def facts(cluster: clusters.Cluster, names: Iterable[str]) -> list[dict[str, object]]:
    """What a node needs to know of instances (names or UUIDs) to start or stop them."""
    found = [cluster.instance(name) for name in names]
    return [
        {"name": one.name, "hypervisor": one.hypervisor, "memory": one.memory, "vcpus": one.vcpus} for one in found
    ]


def _off_step(cluster: clusters.Cluster, node: clusters.Node) -> NodeStep:
    contact = clusters.reachable(cluster, node)
    running = [one.name for one in cluster.primaries(node.uuid) if one.is_up] if contact else []
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
    return NodeStep(node.uuid, node.name, _group(cluster, node), contact, power, tuple(running), note)


def _on_step(cluster: clusters.Cluster, node: clusters.Node, remembered: set[str]) -> NodeStep:
    power = node.uuid != cluster.cluster.master_node and clusters.parameter(cluster, node, "oob_program") is not None
    starts = [one.name for one in cluster.primaries(node.uuid) if one.uuid in remembered]
    note = "" if power or node.uuid == cluster.cluster.master_node else NO_OOB
    return NodeStep(node.uuid, node.name, _group(cluster, node), not node.offline, power, tuple(starts), note)


def _ordered(cluster: clusters.Cluster, among: set[str]) -> list[clusters.Node]:
    """By group, then by name; the controller's own node last."""
    found = [cluster.nodes[uuid] for uuid in among]
    return sorted(
        found,
        key=lambda one: (
            one.uuid == cluster.cluster.master_node,
            clusters.natural(_group(cluster, one)),
            clusters.natural(one.name),
        ),
    )


def _last(cluster: clusters.Cluster, among: set[str]) -> str:
    master = cluster.cluster.master_node
    return cluster.nodes[master].name if master in among else ""


def _group(cluster: clusters.Cluster, node: clusters.Node) -> str:
    return cluster.nodegroups[node.group].name
