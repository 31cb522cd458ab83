"""Regrouping: instances leave their node group for others (seed 004, "Instance level changes").

A pair gets a replica in the new group, moves there, and gets its secondary there. An instance on shared storage moves
as it is: that the new group reaches the storage nobody can see here. What a move frees is free for none of the plan.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ...module_utils.domain.values import errors
from ..cluster import cluster as clusters
from ..placement.allocation import allocator, relocation
from ..placement.plan import Move, Plan, Refusal
from . import rounds, ways
from .holdings import memory_in_use
from .room import Room

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..placement.models import model


def of_group(
    cluster: clusters.Cluster, found: model.Model, name: str, *, targets: Sequence[str] = (), failover: bool = False
) -> Plan:
    """All that has a node in a group leaves it for one of the targets, by default for any other group.

    `found` is the model of the cluster. It costs what a change of group costs, for each instance.

    Raises:
        NotFound: there is no such group. Refused: it is its own target, or the only group.
    """
    group = cluster.group(name)
    inside = {node.uuid for node in cluster.nodes.values() if node.group == group.uuid}
    leaving = [instance for instance in cluster.instances.values() if not inside.isdisjoint(instance.nodes)]
    allowed = _targets(cluster, targets, leaving=[group])
    return _Change(cluster, found, failover=failover).made(leaving, allowed)


def of_instance(
    cluster: clusters.Cluster,
    found: model.Model,
    name: str,
    *,
    targets: Sequence[str] = (),
    primary: str = "",
    secondary: str = "",
    failover: bool = False,
) -> Plan:
    """One instance leaves its group for one of the targets, or for nodes of another one that are given.

    Raises:
        NotFound: there is no such instance, group or node. Refused: no other group is left; or what is given is no
        pair of nodes of one other group.
    """
    instance = cluster.instance(name)
    groups = {cluster.nodes[uuid].group for uuid in instance.nodes if uuid in cluster.nodes}
    # On its way from one group to another it may go on to either.
    leaving = [cluster.nodegroups[uuid] for uuid in groups] if len(groups) == 1 else []
    given = [cluster.node(node) for node in (primary, secondary) if node]
    _refuse_pair(cluster, instance, given)
    if given and not targets:
        targets = [given[0].group]
    allowed = _targets(cluster, targets, leaving=leaving)
    outside = [node.name for node in given if node.group not in allowed]
    if outside:
        raise errors.Refused(f"{outside[0]} is in none of the groups that {instance.name} shall go to")
    return _Change(cluster, found, failover=failover).made([instance], allowed, primary=primary, secondary=secondary)


def _refuse_pair(cluster: clusters.Cluster, instance: clusters.Instance, given: Sequence[clusters.Node]) -> None:
    if len({node.group for node in given}) > 1:
        told = " and ".join(f"{node.name} in {cluster.nodegroups[node.group].name}" for node in given)
        raise errors.Refused(f"primary and secondary are in one group: {told}")
    if len(given) > 1 and given[0].uuid == given[1].uuid:
        raise errors.Refused(f"{given[0].name} cannot be both primary and secondary")
    if len(given) > 1 and instance.disk_template != "drbd":
        raise errors.Refused(f"{instance.name} has no secondary: its disk template is {instance.disk_template}")


def _targets(cluster: clusters.Cluster, names: Sequence[str], *, leaving: Sequence[clusters.Group]) -> tuple[str, ...]:
    own = {group.uuid for group in leaving}
    wanted = tuple(dict.fromkeys(cluster.group(name).uuid for name in names))
    for uuid in wanted:
        if uuid in own:
            raise errors.Refused(f"{cluster.nodegroups[uuid].name} is the group that is left: name another one")
    found = wanted or tuple(uuid for uuid in cluster.nodegroups if uuid not in own)
    if not found:
        raise errors.Refused(f"there is no group but {leaving[0].name}")
    return found


class _Change:
    """What of the instances can leave, and why the others cannot."""

    def __init__(self, cluster: clusters.Cluster, found: model.Model, *, failover: bool) -> None:
        self._cluster = cluster
        self._failover = failover
        closed = {cluster.node_name(uuid) for uuid in rounds.no_targets(cluster)}
        # What an incident is about takes nothing; but from a node that only takes nothing, disks can be copied.
        self._nodes = {
            node.name: dataclasses.replace(node, offline=node.offline or node.name in closed) for node in found.nodes
        }
        self._found = found
        self._room = Room(cluster)

    def made(
        self,
        instances: Collection[clusters.Instance],
        targets: Sequence[str],
        *,
        primary: str = "",
        secondary: str = "",
    ) -> Plan:
        """The plan for instances that leave for one of the targets."""
        ordered = sorted(instances, key=lambda instance: clusters.natural(instance.name))
        refusals = [refusal for refusal in map(self._obstacle, ordered) if refusal is not None]
        refused = {refusal.subject for refusal in refusals}
        going = [instance for instance in ordered if instance.name not in refused]
        request = allocator.ChangeGroup(tuple(instance.name for instance in going), tuple(targets), primary, secondary)
        answer = relocation.change_group(self._seen(going, targets), request)
        refusals += [self._refusal(unplaced, targets) for unplaced in answer.unplaced]
        moves = tuple(Move(placed.instance, _steps(self._cluster, placed)) for placed in answer.placements)
        return Plan(moves, tuple(refusals))

    def _seen(self, going: Collection[clusters.Instance], targets: Sequence[str]) -> model.Model:
        """The model as a change of group shall see it: nodes that are left are online if they can be read from."""
        sources = {uuid for instance in going for uuid in instance.nodes}
        nodes = dict(self._nodes)
        for uuid in sources:
            node = self._cluster.nodes[uuid]
            if node.group not in targets:
                is_offline = not clusters.reachable(self._cluster, node)
                nodes[node.name] = dataclasses.replace(nodes[node.name], offline=is_offline)
        return dataclasses.replace(self._found, nodes=tuple(nodes.values()))

    def _obstacle(self, instance: clusters.Instance) -> Refusal | None:
        """Why an instance can go to no other group at all."""
        name = self._cluster.node_name(instance.primary_node)
        if instance.disk_template in ways.NOWHERE:
            reason = (
                f"disk template {instance.disk_template} keeps its only replica on {name}: no other group can have it"
            )
            return Refusal(instance.name, reason, "", permanent=True)
        if instance.disk_template == "drbd" and (bound := ways.not_replaced(instance)):
            return Refusal(instance.name, bound, "", permanent=True)
        primary = self._cluster.nodes[instance.primary_node]
        if clusters.reachable(self._cluster, primary):
            if instance.is_bound and not self._failover:
                reason = "it runs and can never be migrated (migratable=no)"
                return Refusal(instance.name, reason, "--failover")
            return None
        return self._stranded(instance)

    def _answers(self, node: clusters.Node) -> bool:
        return clusters.answers(self._cluster, node)

    def _stranded(self, instance: clusters.Instance) -> Refusal | None:
        """What lost its primary starts on its secondary first, if that has the memory."""
        name = self._cluster.node_name(instance.primary_node)
        if instance.disk_template != "drbd":
            return None
        replicas = [self._cluster.nodes[uuid] for uuid in instance.secondary_nodes if uuid in self._cluster.nodes]
        if not replicas or not self._answers(replicas[0]):
            reason = "neither of its nodes is reachable" if replicas else f"its primary {name} is not reachable"
            return Refusal(instance.name, reason, f"{name} reachable again")
        replica, memory = self._room.nodes[replicas[0].uuid], memory_in_use(instance)
        if replica.has_room(memory=memory, disk=0):
            replica.memory -= memory
            return None
        reason = f"it would start on {replica.name} first, which has {replica.memory} MiB free and not {memory}"
        cure = f"{memory - replica.memory} MiB more memory on {replica.name}, or {name} reachable again"
        return Refusal(instance.name, reason, cure)

    def _refusal(self, unplaced: allocator.Unplaced, targets: Sequence[str]) -> Refusal:
        names = sorted((self._cluster.nodegroups[uuid].name for uuid in targets), key=clusters.natural)
        cure = f"room for it in {' or '.join(names)}, or other groups as targets"
        return Refusal(unplaced.instance, unplaced.within(names) or unplaced.text, cure)


def _steps(cluster: clusters.Cluster, placement: allocator.Placement) -> tuple[str, ...]:
    is_pair = cluster.instance(placement.instance).disk_template == "drbd"
    steps = []
    for step in placement.steps:
        if step.action is allocator.Action.REPLACE_SECONDARY:
            steps.append(f"r:{step.node}")
        else:
            steps.append("f" if is_pair else f"f:{step.node or placement.nodes[0]}")
    return tuple(steps)
