"""An instance as plays see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...module_utils.domain import cluster as clusters


def instance_variables(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any]:
    """What the steps of an opcode need to know of an instance."""
    return {
        "uuid": instance.uuid,
        "name": instance.name,
        "hypervisor": instance.hypervisor,
        "hvparams": dict(instance.hvparams),
        "disk_template": instance.disk_template,
        "disks": [{"size": disk.size, "name": disk.name, "minor": disk.minor} for disk in instance.disks],
        "nics": [{"mac": nic.mac, "link": nic.link} for nic in instance.nics],
        "vg": cluster.cluster.vg_name,
        "file_dir": _file_dir(cluster, instance),
        "memory": instance.memory,
        "vcpus": instance.vcpus,
        "admin_state": instance.admin_state,
        "nodes": [cluster.node_name(uuid) for uuid in instance.nodes],
    }


def _file_dir(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    is_shared = instance.disk_template == "sharedfile"
    return cluster.cluster.shared_file_storage_dir if is_shared else cluster.cluster.file_storage_dir
