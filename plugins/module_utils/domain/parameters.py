"""What may be set of a cluster, a group and a node, checked, and the changes that setting it means.

`oob_program` is the absolute path of a helper program, the name of a built-in driver, `!` (or nothing) to opt out, or
`default` to inherit again (seed 001). Field names are Ganeti's where it has the field.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from . import changes, errors, instance_policy, membership, parameter_rules, roles
from . import cluster as clusters

Fields = Mapping[str, Any]


def cluster_modify(cluster: clusters.Cluster, fields: Fields) -> list[changes.Change]:
    """The changes that give the cluster other parameters and maintenance settings.

    Raises:
        InvalidInput: a field is unknown, or its value is not accepted; the text says which are.
    """
    checked = _checked(fields, {**parameter_rules.CLUSTER, **parameter_rules.SETTINGS})
    own = {name: value for name, value in checked.items() if name in parameter_rules.CLUSTER}
    settings = {name: value for name, value in checked.items() if name in parameter_rules.SETTINGS}
    stated: list[changes.Change] = []
    if own:
        stands_own = _with(cluster.cluster, own)
        instance_policy.check(stands_own.ipolicy)
        stated.append(membership.ParametersStand(stands_own))
    if settings:
        stands = dataclasses.replace(cluster.maintenance.settings, **settings)
        stated.append(changes.SettingsStand(stands))
    return stated


def group_modify(cluster: clusters.Cluster, name: str, fields: Fields) -> list[changes.Change]:
    """The changes that give a node group another name, policy or parameters.

    Raises:
        NotFound, InvalidInput: as `cluster_modify`; a name is taken already.
    """
    group = cluster.group(name)
    checked = _checked(fields, parameter_rules.GROUP)
    _refuse_taken(checked.get("name", group.name), cluster.nodegroups, but=group.uuid, kind="node group")
    return [_group_stands(cluster, group, checked)]


def group_add(cluster: clusters.Cluster, uuid: str, fields: Fields) -> list[changes.Change]:
    """The changes that make a node group.

    Raises:
        InvalidInput: as `group_modify`.
    """
    checked = _checked({"name": None, **fields}, parameter_rules.GROUP)
    _refuse_taken(checked["name"], cluster.nodegroups, but=uuid, kind="node group")
    return [_group_stands(cluster, clusters.Group(uuid, checked["name"]), checked)]


def group_remove(cluster: clusters.Cluster, name: str) -> list[changes.Change]:
    """The changes that remove an empty node group.

    Raises:
        NotFound: there is none. Refused: it has nodes, or it is the last one.
    """
    group = cluster.group(name)
    nodes = [one.name for one in cluster.nodes.values() if one.group == group.uuid]
    if nodes:
        raise errors.Refused(f"node group {group.name} has nodes: {', '.join(sorted(nodes, key=clusters.natural))}")
    if len(cluster.nodegroups) == 1:
        raise errors.Refused(f"node group {group.name} is the last one")
    return [membership.GroupGone(group.uuid)]


def node_modify(cluster: clusters.Cluster, name: str, fields: Fields) -> list[changes.Change]:
    """The changes that give a node other parameters (behaviour of the flags: seed 004, "Node flags").

    A candidate that is not master_capable any more hands its place to another node. `powered` is the power state of
    record (seed 001, "Node State Changes"): to bring it in line with the world, without touching the node.

    Raises:
        NotFound, InvalidInput: as `cluster_modify`. Refused: the master stays master_capable, a node with instances
            stays vm_capable, and `powered` needs OOB, and for off a node that is offline.
    """
    node = cluster.node(name)
    checked = _checked(fields, {**parameter_rules.NODE, "powered": parameter_rules.flag})
    _refuse_taken(checked.get("name", node.name), cluster.nodes, but=node.uuid, kind="node")
    if "group" in checked:
        checked["group"] = _other_group(cluster, node, checked["group"])
    stands = _with(node, checked)
    holds = [one.name for one in (*cluster.primaries(node.uuid), *cluster.secondaries(node.uuid))]
    if not stands.vm_capable and holds:
        raise errors.Refused(f"{node.name} holds {', '.join(holds)}: it stays vm_capable")
    if not stands.master_capable and node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: it stays master_capable")
    if "powered" in checked:
        _refuse_powered(clusters.with_node(cluster, stands), stands)
    stated: list[changes.Change] = []
    if not stands.master_capable and node.master_candidate:
        stated += roles.promotions(cluster, without=node.uuid)
        stands = dataclasses.replace(stands, master_candidate=False)
    return [*stated, membership.NodeStands(stands)]


def node_add(cluster: clusters.Cluster, uuid: str, fields: Fields) -> list[changes.Change]:
    """The changes that add a node; it becomes a candidate while the pool is short.

    Raises:
        NotFound, InvalidInput: as `node_modify`.
    """
    checked = _checked({"name": None, **fields}, parameter_rules.NODE)
    _refuse_taken(checked["name"], cluster.nodes, but=uuid, kind="node")
    group = cluster.group(checked.pop("group")) if "group" in checked else _only_group(cluster)
    node = _with(clusters.Node(uuid, checked["name"], group.uuid), checked)
    candidate = node.master_capable and roles.is_short_of_candidates(cluster)
    return [membership.NodeStands(dataclasses.replace(node, master_candidate=candidate))]


def node_remove(cluster: clusters.Cluster, name: str) -> list[changes.Change]:
    """The changes that take a node out of the cluster.

    Raises:
        NotFound: there is none. Refused: it is the master, or it holds instances.
    """
    node = cluster.node(name)
    if node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: move the master role to another node first")
    holds = [one.name for one in (*cluster.primaries(node.uuid), *cluster.secondaries(node.uuid))]
    if holds:
        raise errors.Refused(f"{node.name} holds {', '.join(holds)}: evacuate it first")
    promoted = roles.promotions(cluster, without=node.uuid) if node.master_candidate else []
    return [*promoted, membership.NodeGone(node.uuid)]


def _checked(fields: Fields, rules: Mapping[str, parameter_rules.Rule]) -> dict[str, Any]:
    for name in fields:
        if name not in rules:
            raise errors.InvalidInput(f"there is no parameter {name!r} here: use one of {', '.join(sorted(rules))}")
    return {name: rules[name](name, value) for name, value in fields.items()}


def _with(one: Any, checked: Mapping[str, Any]) -> Any:
    fields = dict(checked)
    given = {name: fields.pop(name) for name in parameter_rules.NDPARAMS if name in fields}
    if given:
        stands = {**one.ndparams, **given}
        fields["ndparams"] = {name: value for name, value in stands.items() if value is not None}
    if "ipolicy" in fields:
        fields["ipolicy"] = instance_policy.changed(one.ipolicy, fields["ipolicy"])
    return dataclasses.replace(one, **fields)


def _group_stands(cluster: clusters.Cluster, group: clusters.Group, checked: Mapping[str, Any]) -> changes.Change:
    stands = _with(group, checked)
    instance_policy.check(stands.ipolicy, over=cluster.cluster.ipolicy)
    return membership.GroupStands(stands)


def _refuse_taken(name: str, known: Mapping[str, Any], *, but: str, kind: str) -> None:
    if any(name in {uuid, one.name} for uuid, one in known.items() if uuid != but):
        raise errors.InvalidInput(f"name: there is a {kind} {name!r} already")


def _refuse_powered(cluster: clusters.Cluster, node: clusters.Node) -> None:
    if clusters.parameter(cluster, node, "oob_program") is None:
        raise errors.Refused(f"Node {node.name} does not support OOB commands: it has no powered to set")
    if not node.powered and not node.offline:
        raise errors.Refused(
            f"{node.name} is not offline, and nobody contacts a node without power: set it offline first, with "
            f"`roundsman node offline {node.name}`, or power it off with `roundsman node power off {node.name}`"
        )


def _other_group(cluster: clusters.Cluster, node: clusters.Node, name: str) -> str:
    group = cluster.group(name)
    split = [one.name for one in cluster.instances.values() if node.uuid in one.nodes]
    if group.uuid != node.group and split:
        raise errors.Refused(f"{node.name} holds {', '.join(sorted(split))}: only an empty node changes its group")
    return group.uuid


def _only_group(cluster: clusters.Cluster) -> clusters.Group:
    if len(cluster.nodegroups) > 1:
        names = ", ".join(sorted(one.name for one in cluster.nodegroups.values()))
        raise errors.InvalidInput(f"group: there are several, say which: {names}")
    return next(iter(cluster.nodegroups.values()))
