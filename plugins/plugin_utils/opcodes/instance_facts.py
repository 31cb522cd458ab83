"""An instance as plays see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..cluster import cluster as clusters
from ..cluster import left_replicas
from . import time_limits

if TYPE_CHECKING:
    from collections.abc import Iterable


_OF_PLAYS = frozenset({"admin_state", "keeps_peer", "nodes", "sync_looks"})
"""What no step on a node needs."""


def instance_variables(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any]:
    """What the steps of an opcode need to know of an instance.

    It `keeps_peer` while a new replica is made: DRBD 8.4 has one bitmap, and a primary that went back to its old
    secondary in the middle of the resync would not send that one what the new replica has received already.
    """
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
        "sync_looks": time_limits.sync_looks(instance),
        "keeps_peer": bool(left_replicas.being_made(cluster, instance.uuid)),
    }


def step_facts(cluster: clusters.Cluster, found: Iterable[clusters.Instance]) -> list[dict[str, Any]]:
    """What a node needs to know of instances to start or stop them, many in one step."""
    return [_step_facts(cluster, instance) for instance in found]


def _step_facts(cluster: clusters.Cluster, instance: clusters.Instance) -> dict[str, Any]:
    told = instance_variables(cluster, instance)
    return {name: value for name, value in told.items() if name not in _OF_PLAYS}


def _file_dir(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    is_shared = instance.disk_template == "sharedfile"
    return cluster.cluster.shared_file_storage_dir if is_shared else cluster.cluster.file_storage_dir
