"""What may be set of a cluster, a group and a node, given, and the changes that setting it means.

`oob_program` is the absolute path of a helper program, the name of a built-in driver, `!` (or nothing) to opt out, or
`default` to inherit again (seed 001). Field names are Ganeti's where it has the field.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from ...module_utils.domain.values import errors, value_rules
from ..cluster import changes, membership, roles
from ..cluster import cluster as clusters
from ..silent_nodes import dead_node_settings
from . import addresses, all_problems, host_variables, instance_policy, parameter_rules

Fields = Mapping[str, Any]


def cluster_modify(cluster: clusters.Cluster, fields: Fields) -> list[changes.Change]:
    """The changes that give the cluster other parameters and maintenance settings.

    Raises:
        InvalidInput: a field is unknown, or its value is not accepted; the text says which are. Refused: a setting
            about silent nodes needs agents.
    """
    given = checked(fields, {**parameter_rules.CLUSTER, **parameter_rules.SETTINGS})
    own = {name: value for name, value in given.items() if name in parameter_rules.CLUSTER}
    settings = {name: value for name, value in given.items() if name in parameter_rules.SETTINGS}
    stated: list[changes.Change] = []
    if own:
        stands_own = changed(cluster.cluster, own)
        instance_policy.check(stands_own.ipolicy)
        stated.append(membership.ParametersStand(stands_own))
    if settings:
        stands = dataclasses.replace(cluster.maintenance.settings, **settings)
        _refuse_without_agents(cluster, stands)
        stated.append(changes.SettingsStand(stands))
    return stated


def _refuse_without_agents(cluster: clusters.Cluster, settings: clusters.Settings) -> None:
    """Refuse a rule about silent nodes where no node is asked in a way that shows its silence.

    Raises:
        Refused: the text names the nodes and the remedy. What stood before may be changed otherwise.
    """
    maintenance = dataclasses.replace(cluster.maintenance, settings=settings)
    unasked = dead_node_settings.without_agents(dataclasses.replace(cluster, maintenance=maintenance))
    if unasked and not dead_node_settings.without_agents(cluster):
        raise errors.Refused(unasked)


def group_modify(cluster: clusters.Cluster, name: str, fields: Fields) -> list[changes.Change]:
    """The changes that give a node group another name, policy or parameters.

    Raises:
        NotFound, InvalidInput: as `cluster_modify`; a name is taken already.
    """
    group = cluster.group(name)
    given = checked(fields, parameter_rules.GROUP)
    refuse_taken(given.get("name", group.name), cluster.nodegroups, but=group.uuid, kind="node group")
    return [_group_stands(cluster, group, given)]


def group_add(cluster: clusters.Cluster, uuid: str, fields: Fields) -> list[changes.Change]:
    """The changes that make a node group.

    Raises:
        InvalidInput: as `group_modify`.
    """
    given = checked({"name": None, **fields}, parameter_rules.GROUP)
    refuse_taken(given["name"], cluster.nodegroups, but=uuid, kind="node group")
    return [_group_stands(cluster, clusters.Group(uuid, given["name"]), given)]


def group_remove(cluster: clusters.Cluster, name: str) -> list[changes.Change]:
    """The changes that remove an empty node group.

    Raises:
        NotFound: there is none. Refused: it has nodes, or it is the last one.
    """
    group = cluster.group(name)
    nodes = [node.name for node in cluster.nodes.values() if node.group == group.uuid]
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
            stays vm_capable, and `powered` needs OOB, but not to record a node as on that is recorded as off, and for
            off a node that is offline.
    """
    node = cluster.node(name)
    given = checked(fields, {**parameter_rules.NODE, "powered": value_rules.flag})
    refuse_taken(given.get("name", node.name), cluster.nodes, but=node.uuid, kind="node")
    if "group" in given:
        given["group"] = _other_group(cluster, node, given["group"])
    stands = changed(node, given)
    refuse_without_instances(cluster, stands)
    if "primary_ip" in given or "secondary_ip" in given:
        addresses.check(cluster, stands)
    elif "hostvars" in given or "name" in given:
        addresses.check_place(cluster, stands)
    if not stands.master_capable and node.uuid == cluster.cluster.master_node:
        raise errors.Refused(f"{node.name} is the master: it stays master_capable")
    if "powered" in given:
        _refuse_powered(clusters.with_node(cluster, stands), stands, was_powered=node.powered)
    stated: list[changes.Change] = []
    if not stands.master_capable and node.master_candidate:
        stated += roles.promotions(cluster, without=node.uuid)
        stands = dataclasses.replace(stands, master_candidate=False)
    return [*stated, membership.NodeStands(stands)]


def checked(fields: Fields, rules: Mapping[str, value_rules.Rule]) -> dict[str, Any]:
    """The values that fields have by their rules.

    Raises:
        InvalidInput: there is no rule for one, or values are not accepted; the text names all of these.
    """
    for name in fields:
        if name not in rules:
            raise errors.InvalidInput(f"there is no parameter {name!r} here: use one of {', '.join(sorted(rules))}")
    problems, found = all_problems.Problems(), dict[str, Any]()
    for name, value in fields.items():
        with problems.noting():
            found[name] = rules[name](name, value)
    problems.refuse()
    return found


def changed(known: Any, wanted: Mapping[str, Any]) -> Any:
    """A cluster's own entry, a group or a node with other values; parameters of nodes are among them by their names."""
    fields = dict(wanted)
    given = {name: fields.pop(name) for name in parameter_rules.NDPARAMS if name in fields}
    if given:
        stands = {**known.ndparams, **given}
        fields["ndparams"] = {name: value for name, value in stands.items() if value is not None}
    if "hostvars" in fields:
        fields["hostvars"] = host_variables.merged(known.hostvars, fields["hostvars"])
    if "ipolicy" in fields:
        fields["ipolicy"] = instance_policy.changed(known.ipolicy, fields["ipolicy"])
    return dataclasses.replace(known, **fields)


def _group_stands(cluster: clusters.Cluster, group: clusters.Group, given: Mapping[str, Any]) -> changes.Change:
    stands = changed(group, given)
    instance_policy.check(stands.ipolicy, over=cluster.cluster.ipolicy)
    return membership.GroupStands(stands)


def refuse_taken(name: str, known: Mapping[str, Any], *, but: str, kind: str) -> None:
    """Refuse a name that another object of its kind has, as name or UUID."""
    if any(name in {uuid, other.name} for uuid, other in known.items() if uuid != but):
        article = "an" if kind[0] in "aeiou" else "a"
        raise errors.InvalidInput(f"name: there is {article} {kind} {name!r} already")


def refuse_without_instances(cluster: clusters.Cluster, node: clusters.Node) -> None:
    """Refuse a node that shall take no instances, and has some.

    Raises:
        Refused: the text names them.
    """
    holds = [instance.name for instance in cluster.held(node.uuid)]
    if not node.vm_capable and holds:
        raise errors.Refused(f"{node.name} holds {', '.join(holds)}: it stays vm_capable")


def _refuse_powered(cluster: clusters.Cluster, node: clusters.Node, *, was_powered: bool) -> None:
    # Without OOB nothing else ends an off that was recorded while there was some.
    is_corrected = node.powered and not was_powered
    if clusters.parameter(cluster, node, "oob_program") is None and not is_corrected:
        raise errors.Refused(f"Node {node.name} does not support OOB commands: it has no powered to set")
    if not node.powered and not node.offline:
        raise errors.Refused(
            f"{node.name} is not offline, and nobody contacts a node without power: set it offline first, with "
            f"`roundsman node offline {node.name}`, or power it off with `roundsman node power off {node.name}`"
        )


def _other_group(cluster: clusters.Cluster, node: clusters.Node, name: str) -> str:
    group = cluster.group(name)
    split = [instance.name for instance in cluster.instances.values() if node.uuid in instance.nodes]
    if group.uuid != node.group and split:
        raise errors.Refused(f"{node.name} holds {', '.join(sorted(split))}: only an empty node changes its group")
    return group.uuid
