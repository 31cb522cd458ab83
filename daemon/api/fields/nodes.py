"""The fields of nodes; names are Ganeti's, memory and disk are in MiB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....plugins.plugin_utils.cluster import cluster as clusters
from ....plugins.plugin_utils.rounds import holdings
from .definition import Field, Kind, Missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..snapshots import Snapshot

ROLES = {
    clusters.Role.MASTER: ("M", "master"),
    clusters.Role.CANDIDATE: ("C", "master-candidate"),
    clusters.Role.DRAINED: ("D", "drained"),
    clusters.Role.OFFLINE: ("O", "offline"),
    clusters.Role.REGULAR: ("R", "regular"),
}
"""Each role as Ganeti's fields and as its remote API name it."""
Node = Field[clusters.Node]


def _attribute(name: str, title: str, kind: Kind, doc: str) -> Node:
    return Node(title, kind, doc, lambda _, node: getattr(node, name))


def _measured(title: str, doc: str, read: Callable[[Snapshot, clusters.Node], int]) -> Node:
    # As in Ganeti, nobody knows what an offline node has.
    return Node(title, Kind.UNIT, doc, lambda seen, node: Missing.OFFLINE if node.offline else read(seen, node))


def _powered(seen: Snapshot, node: clusters.Node) -> Any:
    return node.powered if clusters.parameter(seen.cluster, node, "oob_program") is not None else Missing.UNAVAILABLE


def _parameters(seen: Snapshot, node: clusters.Node) -> dict[str, Any]:
    group = seen.cluster.nodegroups[node.group]
    names = {*seen.cluster.cluster.ndparams, *group.ndparams, *node.ndparams}
    found = {name: clusters.inherited(seen.cluster, node, name) for name in sorted(names)}
    return {name: None if value in {"", "!"} else value for name, value in found.items()}


def _role(seen: Snapshot, node: clusters.Node) -> str:
    return ROLES[clusters.role(seen.cluster, node)][0]


FIELDS: dict[str, Node] = {
    "name": _attribute("name", "Node", Kind.TEXT, "Node name"),
    "uuid": _attribute("uuid", "UUID", Kind.TEXT, "Node UUID"),
    "offline": _attribute("offline", "Offline", Kind.BOOL, "Whether the node is out of service"),
    "drained": _attribute("drained", "Drained", Kind.BOOL, "Whether no instances go to the node"),
    "master_candidate": _attribute("master_candidate", "MasterC", Kind.BOOL, "Whether the node is a candidate"),
    "master_capable": _attribute("master_capable", "MasterCapable", Kind.BOOL, "Whether it can become a candidate"),
    "vm_capable": _attribute("vm_capable", "VMCapable", Kind.BOOL, "Whether the node can host instances"),
    "powered": Node("Powered", Kind.BOOL, "The power state of record, where the node has OOB", _powered),
    "role": Node("Role", Kind.TEXT, "M, C, R, D or O: master, candidate, regular, drained, offline", _role),
    "pip": _attribute("primary_ip", "PrimaryIP", Kind.TEXT, "Primary IP address"),
    "sip": _attribute("secondary_ip", "SecondaryIP", Kind.TEXT, "Secondary IP address"),
    "group": Node("Group", Kind.TEXT, "Node group", lambda seen, node: seen.cluster.nodegroups[node.group].name),
    "group.uuid": _attribute("group", "GroupUUID", Kind.TEXT, "UUID of the node group"),
    "mtotal": _measured("MTotal", "Memory", lambda _, node: node.mtotal),
    "mnode": _measured("MNode", "Memory that the node keeps for itself", lambda _, node: node.mnode),
    "mfree": _measured(
        "MFree",
        "Memory that no instance is promised",
        lambda seen, node: node.mtotal - node.mnode - seen.holdings.memory(node.uuid),
    ),
    "dtotal": _measured("DTotal", "Disk", lambda _, node: node.dtotal),
    "dfree": _measured(
        "DFree", "Disk that no replica is promised", lambda seen, node: node.dtotal - seen.holdings.disk(node.uuid)
    ),
    "ctotal": Node(
        "CTotal", Kind.NUMBER, "Number of CPUs", lambda _, node: Missing.OFFLINE if node.offline else node.ctotal
    ),
    "pinst_cnt": Node(
        "Pinst", Kind.NUMBER, "Number of primaries", lambda seen, node: len(seen.holdings.primaries(node.uuid))
    ),
    "sinst_cnt": Node(
        "Sinst", Kind.NUMBER, "Number of other replicas", lambda seen, node: len(seen.holdings.secondaries(node.uuid))
    ),
    "pinst_list": Node(
        "PriInstances", Kind.OTHER, "Primaries", lambda seen, node: holdings.names(seen.holdings.primaries(node.uuid))
    ),
    "sinst_list": Node(
        "SecInstances",
        Kind.OTHER,
        "Other replicas",
        lambda seen, node: holdings.names(seen.holdings.secondaries(node.uuid)),
    ),
    "ndparams": Node("NodeParameters", Kind.OTHER, "Node parameters, inherited ones too", _parameters),
    "custom_ndparams": Node(
        "CustomNodeParameters", Kind.OTHER, "Parameters of the node itself", lambda _, node: dict(node.ndparams)
    ),
    "tags": Node("Tags", Kind.OTHER, "Tags", lambda _, node: list(node.tags)),
    "serial_no": _attribute("serial_no", "SerialNo", Kind.NUMBER, "How often the node was changed"),
    "ctime": _attribute("ctime", "CTime", Kind.TIMESTAMP, "Creation (unix seconds)"),
    "mtime": _attribute("mtime", "MTime", Kind.TIMESTAMP, "Last change (unix seconds)"),
}
BULK = tuple(FIELDS)
