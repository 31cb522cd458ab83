"""What may be set of a cluster, a group and a node, checked, and the changes that setting it means.

`oob_program` is the absolute path of a helper program, the name of a built-in driver, `!` (or nothing) to opt out, or
`default` to inherit again (seed 001). Field names are Ganeti's where it has the field.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from typing import Any, Callable, Mapping, Optional

from . import changes, errors, membership, roles
from . import cluster as clusters

DRIVERS = ("ipmi", "redfish")
POLICIES = ("preferred", "last_resort", "unallocable")
DEFAULT = "default"
Fields = Mapping[str, Any]
Rule = Callable[[str, Any], Any]


def cluster_modify(cluster: clusters.Cluster, fields: Fields) -> list[changes.Change]:
    """The changes that give the cluster other parameters and maintenance settings.

    Raises:
        InvalidInput: a field is unknown, or its value is not accepted; the text says which are.
    """
    checked = _checked(fields, {**_CLUSTER, **_SETTINGS})
    own = {name: value for name, value in checked.items() if name in _CLUSTER}
    settings = {name: value for name, value in checked.items() if name in _SETTINGS}
    stated: list[changes.Change] = []
    if own:
        stated.append(membership.ParametersStand(_with(cluster.cluster, own)))
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
    checked = _checked(fields, _GROUP)
    _refuse_taken(checked.get("name", group.name), cluster.nodegroups, but=group.uuid, kind="node group")
    return [membership.GroupStands(_with(group, checked))]


def group_add(cluster: clusters.Cluster, uuid: str, fields: Fields) -> list[changes.Change]:
    """The changes that make a node group.

    Raises:
        InvalidInput: as `group_modify`.
    """
    checked = _checked({"name": None, **fields}, _GROUP)
    _refuse_taken(checked["name"], cluster.nodegroups, but=uuid, kind="node group")
    return [membership.GroupStands(_with(clusters.Group(uuid, checked["name"]), checked))]


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
    checked = _checked(fields, {**_NODE, "powered": _flag})
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
    checked = _checked({"name": None, **fields}, _NODE)
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


def _checked(fields: Fields, rules: Mapping[str, Rule]) -> dict[str, Any]:
    for name in fields:
        if name not in rules:
            raise errors.InvalidInput(f"there is no parameter {name!r} here: use one of {', '.join(sorted(rules))}")
    return {name: rules[name](name, value) for name, value in fields.items()}


def _with(one: Any, checked: Mapping[str, Any]) -> Any:
    fields = dict(checked)
    if "oob_program" in fields:
        program = fields.pop("oob_program")
        kept = {name: value for name, value in one.ndparams.items() if name != "oob_program"}
        fields["ndparams"] = kept if program is None else {**kept, "oob_program": program}
    return dataclasses.replace(one, **fields)


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


def _oob_program(name: str, value: Any) -> Optional[str]:
    if value == DEFAULT:
        return None
    if value in {"", "!", *DRIVERS} or (isinstance(value, str) and value.startswith("/")):
        return str(value)
    raise errors.InvalidInput(
        f"{name}: {value!r} is none of: an absolute path, {', '.join(DRIVERS)}, '!' (no BMC), 'default' (inherit)"
    )


def _number(least: float, most: float, *, whole: bool) -> Rule:
    def check(name: str, value: Any) -> Any:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            kind = "a whole number" if whole else "a number"
            bound = f"from {least:g} to {most:g}" if most < _MOST else f"of {least:g} or more"
            raise errors.InvalidInput(f"{name}: {value!r} is not {kind} {bound}")
        return value if whole else float(value)

    return check


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise errors.InvalidInput(f"{name}: {value!r} is neither true nor false")
    return value


def _text(pattern: str, what: str) -> Rule:
    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise errors.InvalidInput(f"{name}: {value!r} is not {what}")
        return value

    return check


def _one_of(*values: str) -> Rule:
    def check(name: str, value: Any) -> str:
        if value not in values:
            raise errors.InvalidInput(f"{name}: {value!r} is none of {', '.join(values)}")
        return str(value)

    return check


def _address(name: str, value: Any) -> str:
    try:
        return str(ipaddress.ip_address(value)) if value else ""
    except ValueError as error:
        raise errors.InvalidInput(f"{name}: {value!r} is no IP address") from error


def _variables(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise errors.InvalidInput(f"{name}: {value!r} is no map of names to texts")
    return dict(value)


_MOST = 2**53
_SIZE, _COUNT = _number(0, _MOST, whole=True), _number(1, _MOST, whole=True)
_SECONDS = _number(0, 86400 * 366, whole=False)
_NAME = _text(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,252}", "a name: use letters, digits and . _ -")
_CLUSTER: Mapping[str, Rule] = {
    "cluster_name": _NAME,
    "candidate_pool_size": _COUNT,
    "max_running_jobs": _number(0, 200, whole=True),
    "oob_program": _oob_program,
}
_SETTINGS: Mapping[str, Rule] = {
    "diagnose_command": _text(r"[A-Za-z0-9_-]{0,128}", "the bare name of a whitelisted command"),
    "diagnose_interval": _SECONDS,
    "round_interval": _SECONDS,
    "storm_fraction": _number(0, 1, whole=False),
    "storm_minimum": _COUNT,
    "moves_per_node": _COUNT,
    "power_off_evacuated": _flag,
    "accept_cluster_key": _flag,
    "paused": _text(r"[^\x00-\x1f]{0,500}", "one line of text"),
}
_GROUP: Mapping[str, Rule] = {"name": _NAME, "alloc_policy": _one_of(*POLICIES), "oob_program": _oob_program}
_NODE: Mapping[str, Rule] = {
    "name": _NAME,
    "group": _NAME,
    "primary_ip": _address,
    "secondary_ip": _address,
    "mtotal": _SIZE,
    "mnode": _SIZE,
    "dtotal": _SIZE,
    "ctotal": _SIZE,
    "master_capable": _flag,
    "vm_capable": _flag,
    "oob_program": _oob_program,
    "hostvars": _variables,
}
