"""The fields of nodes; names are Ganeti's, memory and disk are in MiB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....plugins.module_utils.domain import cluster as clusters
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
    return Node(title, kind, doc, lambda _, one: getattr(one, name))


def _measured(title: str, doc: str, read: Callable[[Snapshot, clusters.Node], int]) -> Node:
    # As in Ganeti, nobody knows what an offline node has.
    return Node(title, Kind.UNIT, doc, lambda seen, one: Missing.OFFLINE if one.offline else read(seen, one))


def _powered(seen: Snapshot, one: clusters.Node) -> Any:
    return one.powered if clusters.parameter(seen.cluster, one, "oob_program") is not None else Missing.UNAVAILABLE


def _parameters(seen: Snapshot, one: clusters.Node) -> dict[str, Any]:
    group = seen.cluster.nodegroups[one.group]
    names = {*seen.cluster.cluster.ndparams, *group.ndparams, *one.ndparams}
    found = {name: clusters.inherited(seen.cluster, one, name) for name in sorted(names)}
    return {name: None if value in {"", "!"} else value for name, value in found.items()}


def _role(seen: Snapshot, one: clusters.Node) -> str:
    return ROLES[clusters.role(seen.cluster, one)][0]


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
    "group": Node("Group", Kind.TEXT, "Node group", lambda seen, one: seen.cluster.nodegroups[one.group].name),
    "group.uuid": _attribute("group", "GroupUUID", Kind.TEXT, "UUID of the node group"),
    "mtotal": _measured("MTotal", "Memory", lambda _, one: one.mtotal),
    "mnode": _measured("MNode", "Memory that the node keeps for itself", lambda _, one: one.mnode),
    "mfree": _measured(
        "MFree",
        "Memory that no instance is promised",
        lambda seen, one: one.mtotal - one.mnode - seen.holdings.memory(one.uuid),
    ),
    "dtotal": _measured("DTotal", "Disk", lambda _, one: one.dtotal),
    "dfree": _measured(
        "DFree", "Disk that no replica is promised", lambda seen, one: one.dtotal - seen.holdings.disk(one.uuid)
    ),
    "ctotal": Node(
        "CTotal", Kind.NUMBER, "Number of CPUs", lambda _, one: Missing.OFFLINE if one.offline else one.ctotal
    ),
    "pinst_cnt": Node(
        "Pinst", Kind.NUMBER, "Number of primaries", lambda seen, one: len(seen.holdings.primaries(one.uuid))
    ),
    "sinst_cnt": Node(
        "Sinst", Kind.NUMBER, "Number of other replicas", lambda seen, one: len(seen.holdings.secondaries(one.uuid))
    ),
    "pinst_list": Node(
        "PriInstances", Kind.OTHER, "Primaries", lambda seen, one: holdings.names(seen.holdings.primaries(one.uuid))
    ),
    "sinst_list": Node(
        "SecInstances",
        Kind.OTHER,
        "Other replicas",
        lambda seen, one: holdings.names(seen.holdings.secondaries(one.uuid)),
    ),
    "ndparams": Node("NodeParameters", Kind.OTHER, "Node parameters, inherited ones too", _parameters),
    "custom_ndparams": Node(
        "CustomNodeParameters", Kind.OTHER, "Parameters of the node itself", lambda _, one: dict(one.ndparams)
    ),
    "tags": Node("Tags", Kind.OTHER, "Tags", lambda _, one: list(one.tags)),
    "serial_no": _attribute("serial_no", "SerialNo", Kind.NUMBER, "How often the node was changed"),
    "ctime": _attribute("ctime", "CTime", Kind.TIMESTAMP, "Creation (unix seconds)"),
    "mtime": _attribute("mtime", "MTime", Kind.TIMESTAMP, "Last change (unix seconds)"),
}
BULK = tuple(FIELDS)
