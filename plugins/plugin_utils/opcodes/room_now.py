"""The room that a target has when an opcode is about to start: a plan by hand may have used what a round counted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...module_utils.domain.values import errors
from ..rounds import holdings

if TYPE_CHECKING:
    from ..cluster import cluster as clusters


def refuse_without_memory(cluster: clusters.Cluster, instance: clusters.Instance, *, target: str) -> None:
    """An instance that is up starts only where its memory is free.

    Raises:
        Refused: it is not; the text has the numbers.
    """
    node, needed = cluster.node(target), holdings.memory_in_use(instance)
    used = sum(holdings.memory_in_use(held) for held in cluster.instances.values() if held.primary_node == node.uuid)
    _refuse(node, instance, needed=needed, free=node.mtotal - node.mnode - used, what="memory")


def refuse_without_disk(cluster: clusters.Cluster, instance: clusters.Instance, *, target: str) -> None:
    """A replica is made only where there is disk for it.

    Raises:
        Refused: there is not; the text has the numbers.
    """
    node, needed = cluster.node(target), holdings.disk_per_copy(instance)
    used = sum(holdings.disk_per_copy(held) for held in cluster.instances.values() if node.uuid in held.nodes)
    _refuse(node, instance, needed=needed, free=node.dtotal - used, what="disk")


def refuse_growth(cluster: clusters.Cluster, before: clusters.Instance, after: clusters.Instance) -> None:
    """An instance that is up gets more memory only where that is free, too: it takes it when it starts again.

    Raises:
        Refused: it is not; the text has the numbers.
    """
    more = holdings.memory_in_use(after) - holdings.memory_in_use(before)
    if more > 0:
        node, used = cluster.node(after.primary_node), holdings.Holdings(cluster.instances).memory(after.primary_node)
        free = max(0, node.mtotal - node.mnode - used)
        if more > free:
            raise errors.Refused(f"{node.name} has {free} MiB of memory free, and {after.name} would need {more} more")


def _refuse(node: clusters.Node, instance: clusters.Instance, *, needed: int, free: int, what: str) -> None:
    if needed > max(0, free):
        raise errors.Refused(f"{node.name} has {max(0, free)} MiB of {what} free, and {instance.name} needs {needed}")
