"""What changes of a cluster have in common: its objects by their UUIDs alone, and the next value of what is changed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Union

from ...module_utils.domain.values import errors

if TYPE_CHECKING:
    from . import cluster as clusters


def touched(known: clusters.Object, *, now: float) -> dict[str, Union[int, float]]:
    """The fields that change whenever an object changes."""
    return {"serial_no": known.serial_no + 1, "mtime": now}


def with_maintenance(cluster: clusters.Cluster, now: float, **fields: object) -> clusters.Cluster:
    """The cluster with these fields of its maintenance; the same value where they are so already."""
    maintenance = cluster.maintenance
    if dataclasses.replace(maintenance, **fields) == maintenance:  # type: ignore[arg-type]
        return cluster
    stands = dataclasses.replace(maintenance, **fields, serial_no=maintenance.serial_no + 1, mtime=now)  # type: ignore[arg-type]
    return dataclasses.replace(cluster, maintenance=stands)


def node_of_uuid(cluster: clusters.Cluster, uuid: str) -> clusters.Node:
    """A node of the cluster, by its UUID alone.

    Raises:
        NotFound: there is none.
    """
    # By UUID alone: a name in the configuration is a reference to nothing, and its lock is another lock.
    if uuid not in cluster.nodes:
        raise errors.NotFound(f"there is no node with the UUID {uuid!r}")
    return cluster.nodes[uuid]


def instance_of_uuid(cluster: clusters.Cluster, uuid: str) -> clusters.Instance:
    """An instance of the cluster, by its UUID alone; raises as `node_of_uuid`."""
    if uuid not in cluster.instances:
        raise errors.NotFound(f"there is no instance with the UUID {uuid!r}")
    return cluster.instances[uuid]
