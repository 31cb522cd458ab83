"""The fields of node groups; names are Ganeti's."""

from __future__ import annotations

from ....plugins.plugin_utils.cluster import cluster as clusters
from ....plugins.plugin_utils.settings import instance_policy
from .definition import Field, Kind

Group = Field[clusters.Group]


def _attribute(name: str, title: str, kind: Kind, doc: str) -> Group:
    return Group(title, kind, doc, lambda _, group: getattr(group, name))


FIELDS: dict[str, Group] = {
    "name": _attribute("name", "Group", Kind.TEXT, "Group name"),
    "uuid": _attribute("uuid", "UUID", Kind.TEXT, "Group UUID"),
    "alloc_policy": _attribute("alloc_policy", "AllocPolicy", Kind.TEXT, "Whether new instances go there"),
    "node_cnt": Group(
        "Nodes", Kind.NUMBER, "Number of nodes", lambda seen, group: len(seen.nodes_by_group[group.uuid])
    ),
    "node_list": Group("NodeList", Kind.OTHER, "Nodes", lambda seen, group: seen.nodes_by_group[group.uuid]),
    "ndparams": Group(
        "NDParams",
        Kind.OTHER,
        "Parameters of its nodes, the cluster's too",
        lambda seen, group: {**seen.cluster.cluster.ndparams, **group.ndparams},
    ),
    "custom_ndparams": Group(
        "CustomNDParams", Kind.OTHER, "The group's own parameters of its nodes", lambda _, group: dict(group.ndparams)
    ),
    "networks": Group("Networks", Kind.OTHER, "Networks its nodes are on", lambda _, group: list(group.networks)),
    "ipolicy": Group(
        "InstancePolicy",
        Kind.OTHER,
        "Instance policy, the cluster's too",
        lambda seen, group: instance_policy.filled(seen.cluster.cluster.ipolicy, group.ipolicy),
    ),
    "custom_ipolicy": Group(
        "CustomInstancePolicy", Kind.OTHER, "The group's own instance policy", lambda _, group: dict(group.ipolicy)
    ),
    "max_inst_spec": _attribute("max_inst_spec", "MaxInstSpec", Kind.OTHER, "Largest new instance: MiB, MiB, vcpus"),
    "default_template": _attribute("default_template", "DefaultTemplate", Kind.TEXT, "Disk template of new instances"),
    "max_cpu_ratio": _attribute("max_cpu_ratio", "MaxCPURatio", Kind.NUMBER, "Most vcpus for each CPU"),
    "max_disk_usage": _attribute("max_disk_usage", "MaxDiskUsage", Kind.NUMBER, "Share of disk that may be in use"),
    "failover_max_loss": _attribute(
        "failover_max_loss", "FailoverMaxLoss", Kind.NUMBER, "Seconds of writes an unattended failover may lose"
    ),
    "tags": Group("Tags", Kind.OTHER, "Tags", lambda _, group: list(group.tags)),
    "serial_no": _attribute("serial_no", "SerialNo", Kind.NUMBER, "How often the group was changed"),
    "ctime": _attribute("ctime", "CTime", Kind.TIMESTAMP, "Creation (unix seconds)"),
    "mtime": _attribute("mtime", "MTime", Kind.TIMESTAMP, "Last change (unix seconds)"),
}
BULK = tuple(FIELDS)
