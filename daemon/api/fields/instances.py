"""The fields of instances; names are Ganeti's, memory and disk are in MiB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....plugins.module_utils.domain.values import secret_values
from ....plugins.plugin_utils.cluster import cluster as clusters
from .. import replica_views
from .definition import Field, Kind

if TYPE_CHECKING:
    from ..snapshots import Snapshot

Instance = Field[clusters.Instance]


def _attribute(name: str, title: str, kind: Kind, doc: str) -> Instance:
    return Instance(title, kind, doc, lambda _, instance: getattr(instance, name))


def _status(seen: Snapshot, instance: clusters.Instance) -> str:
    if seen.cluster.nodes[instance.primary_node].offline:
        return "ERROR_nodeoffline"
    return "running" if instance.is_up else "ADMIN_down"


def _beparams(_seen: Snapshot, instance: clusters.Instance) -> dict[str, Any]:
    memory = dict.fromkeys(("memory", "maxmem", "minmem"), instance.memory)
    return {
        **memory,
        "vcpus": instance.vcpus,
        "auto_balance": instance.auto_balance,
        "spindle_use": instance.spindle_use,
    }


def _secondaries(seen: Snapshot, instance: clusters.Instance) -> list[str]:
    return [seen.cluster.nodes[uuid].name for uuid in instance.secondary_nodes]


FIELDS: dict[str, Instance] = {
    "name": _attribute("name", "Instance", Kind.TEXT, "Instance name"),
    "uuid": _attribute("uuid", "UUID", Kind.TEXT, "Instance UUID"),
    "pnode": Instance(
        "Primary_node", Kind.TEXT, "Primary", lambda seen, instance: seen.cluster.nodes[instance.primary_node].name
    ),
    "pnode.uuid": _attribute("primary_node", "PrimaryNodeUUID", Kind.TEXT, "UUID of the primary"),
    "snodes": Instance("Secondary_Nodes", Kind.OTHER, "Nodes of the other replicas", _secondaries),
    "admin_state": _attribute("admin_state", "InstanceState", Kind.TEXT, "Whether it shall be up or down"),
    "admin_up": Instance("Autostart", Kind.BOOL, "Whether it shall be up", lambda _, instance: instance.is_up),
    "status": Instance(
        "Status", Kind.TEXT, "By the record: running, ADMIN_down, or ERROR_nodeoffline; no node is asked", _status
    ),
    "disk_template": _attribute("disk_template", "Disk_template", Kind.TEXT, "Disk template"),
    "disk.count": Instance("Disks", Kind.NUMBER, "Number of disks", lambda _, instance: len(instance.disks)),
    "disk.sizes": Instance(
        "Disk_sizes", Kind.OTHER, "Sizes", lambda _, instance: [disk.size for disk in instance.disks]
    ),
    "disk_usage": _attribute("disk_size", "DiskUsage", Kind.UNIT, "Disk in all, of one replica"),
    "nic.count": Instance("NICs", Kind.NUMBER, "Number of network interfaces", lambda _, instance: len(instance.nics)),
    "nic.networks.names": Instance(
        "NIC_networks_names",
        Kind.OTHER,
        "Network of each interface, null for none",
        lambda _, instance: [nic.network or None for nic in instance.nics],
    ),
    "hypervisor": _attribute("hypervisor", "Hypervisor", Kind.TEXT, "Hypervisor"),
    "hvparams": Instance(
        "HypervisorParameters",
        Kind.OTHER,
        "Hypervisor's own",
        lambda _, instance: secret_values.masked(instance.hvparams),
    ),
    "beparams": Instance("BackendParameters", Kind.OTHER, "Memory and CPUs", _beparams),
    "be/memory": _attribute("memory", "ConfigMemory", Kind.UNIT, "Memory"),
    "be/auto_balance": _attribute("auto_balance", "Auto_balance", Kind.BOOL, "Whether memory is kept for its failure"),
    "be/spindle_use": _attribute("spindle_use", "SpindleUse", Kind.NUMBER, "How many spindles it keeps busy"),
    "be/vcpus": _attribute("vcpus", "ConfigVCPUs", Kind.NUMBER, "Number of CPUs"),
    "parted": Instance(
        "Parted",
        Kind.OTHER,
        "Since when its running primary has lost its secondary, null while it has not",
        lambda seen, instance: replica_views.parted(seen.cluster, instance),
    ),
    "tags": Instance("Tags", Kind.OTHER, "Tags", lambda _, instance: list(instance.tags)),
    "serial_no": _attribute("serial_no", "SerialNo", Kind.NUMBER, "How often the instance was changed"),
    "ctime": _attribute("ctime", "CTime", Kind.TIMESTAMP, "Creation (unix seconds)"),
    "mtime": _attribute("mtime", "MTime", Kind.TIMESTAMP, "Last change (unix seconds)"),
}
BULK = tuple(FIELDS)
