"""How a node joins a cluster, joins it again, and leaves it (behaviour: Ganeti's; addresses: seed 004, "IPv6")."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from ...module_utils.domain.values import errors
from ..cluster import changes, left_replicas, membership, roles
from ..cluster import cluster as clusters
from ..disks import replica_texts, unfinished_moves
from . import addresses, parameter_rules, parameters

Fields = Mapping[str, Any]


def add(cluster: clusters.Cluster, uuid: str, fields: Fields) -> list[changes.Change]:
    """The changes that add a node; it becomes a candidate while the pool is short.

    Raises:
        NotFound, InvalidInput: as `parameters.node_modify`; or its addresses do not fit the cluster.
    """
    checked = parameters.checked({"name": None, **fields}, parameter_rules.NODE)
    parameters.refuse_taken(checked["name"], cluster.nodes, but=uuid, kind="node")
    group = cluster.group(checked.pop("group")) if "group" in checked else _only_group(cluster)
    node = parameters.changed(clusters.Node(uuid, checked["name"], group.uuid), checked)
    addresses.check(cluster, node)
    candidate = node.master_capable and roles.is_short_of_candidates(cluster)
    return [membership.NodeStands(dataclasses.replace(node, master_candidate=candidate))]


def again(cluster: clusters.Cluster, name: str, fields: Fields) -> list[changes.Change]:
    """The changes that let a node join again that was repaired or reinstalled: it keeps its UUID and its instances.

    It counts as powered and is not drained any more; its secondary address and its group stay. One that was not in
    service stays offline until somebody has seen that it runs nothing that runs elsewhere now.

    Raises:
        NotFound: there is no such node. Refused: it is the master. InvalidInput: as `add`, or a group is given, or
            another secondary address than it has.
    """
    node = cluster.node(name)
    if node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: it cannot be added again")
    given = {key: value for key, value in fields.items() if key != "name"}
    if "group" in given:
        raise errors.InvalidInput(f"group: {node.name} is added again to the group that it has")
    checked = parameters.checked(given, parameter_rules.NODE)
    if checked.get("secondary_ip", node.secondary_ip) not in {node.secondary_ip, node.secondary_ip or node.primary_ip}:
        raise errors.InvalidInput(
            f"secondary_ip: {node.name} had {node.secondary_ip or 'none'}: add it again with the same"
        )
    checked.pop("secondary_ip", None)
    stands = parameters.changed(node, checked)
    addresses.check(cluster, stands)
    parameters.refuse_without_instances(cluster, stands)
    back = dataclasses.replace(
        stands, drained=False, powered=True, off_confirmed=0.0, off_stated_by="", off_read=False, off_since=0.0
    )
    if not clusters.reachable(cluster, node):
        return [membership.NodeStands(dataclasses.replace(back, offline=True, master_candidate=False))]
    without = dataclasses.replace(node, master_candidate=False)
    short = roles.is_short_of_candidates(clusters.with_node(cluster, without))
    return [membership.NodeStands(dataclasses.replace(back, master_candidate=back.master_capable and short))]


def remove(cluster: clusters.Cluster, name: str) -> list[changes.Change]:
    """The changes that take a node out of the cluster.

    Raises:
        NotFound: there is none. Refused: it is the master, it holds instances, or a replica of one is being made there.
    """
    node = cluster.node(name)
    if node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: move the master role to another node first")
    held = cluster.held(node.uuid)
    holds = [instance.name for instance in held if not instance.moving]
    texts = [f"{node.name} holds {', '.join(holds)}: evacuate it first"] if holds else []
    texts += [unfinished_moves.text(cluster, instance) for instance in held if instance.moving]
    if texts:
        raise errors.Refused("; ".join(texts))
    made = left_replicas.made_on(cluster, node.uuid)
    if made:
        names, secondary = ", ".join(instance.name for instance in made), cluster.node_name(made[0].secondary_nodes[0])
        raise errors.Refused(
            f"{node.name} may hold the newest data of {names}, whose replace-disks has not ended. To end that without "
            f"{node.name}, {replica_texts.give_up_step(made[0].name, secondary)}; then retry"
        )
    promoted = roles.promotions(cluster, without=node.uuid) if node.master_candidate else []
    return [*promoted, membership.NodeGone(node.uuid)]


def _only_group(cluster: clusters.Cluster) -> clusters.Group:
    if len(cluster.nodegroups) > 1:
        names = ", ".join(sorted(group.name for group in cluster.nodegroups.values()))
        raise errors.InvalidInput(f"group: there are several, say which: {names}")
    return next(iter(cluster.nodegroups.values()))
