"""Which nodes a rolling reboot leaves out: those out of service, and those whose reboot would stop an instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cluster import cluster as clusters
from ..disks import replica_texts

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class LeftOut:
    """A node (name) that is not rebooted, and why; `stops` is the instance (name) that would stop, "" for none."""

    node: str
    text: str
    stops: str = ""


def left_out(cluster: clusters.Cluster, *, is_offline: bool) -> list[LeftOut]:
    """The nodes that are left out, by name; with `is_offline` instances are shut down meanwhile, so none can stop."""
    nodes = sorted(cluster.nodes.values(), key=lambda node: clusters.natural(node.name))
    return [found for node in nodes if (found := _left_out(cluster, node, is_offline=is_offline)) is not None]


def out_of_service(cluster: clusters.Cluster) -> list[tuple[str, str]]:
    """The nodes (names) that take no instances, by name, each with why, after "it"."""
    nodes = sorted(cluster.nodes.values(), key=lambda node: clusters.natural(node.name))
    found = [(node.name, _out_of_service(cluster, node) or _silent(cluster, node)) for node in nodes]
    return [(name, why) for name, why in found if why]


def _silent(cluster: clusters.Cluster, node: clusters.Node) -> str:
    return "" if clusters.answers(cluster, node) else "does not answer"


def _left_out(cluster: clusters.Cluster, node: clusters.Node, *, is_offline: bool) -> LeftOut | None:
    if why := _out_of_service(cluster, node):
        return LeftOut(node.name, f"it {why}")
    return None if is_offline else next(_stopped(cluster, node), None)


def _out_of_service(cluster: clusters.Cluster, node: clusters.Node) -> str:
    """Why a node is not in service, after "it" or its name; or ''."""
    if node.offline or not clusters.reachable(cluster, node):
        return "is offline" if node.offline else "is recorded as powered off"
    if node.drained:
        return "is drained"
    return "" if node.vm_capable else "takes no instances"


def _stopped(cluster: clusters.Cluster, node: clusters.Node) -> Iterator[LeftOut]:
    """The running instances of a node with a secondary that cannot be moved there."""
    for instance in cluster.primaries(node.uuid):
        if not instance.is_up or not instance.secondary_nodes:
            continue
        if why := _stays(cluster, instance):
            yield LeftOut(node.name, f"{instance.name} would stop, because {why}", instance.name)


def _stays(cluster: clusters.Cluster, instance: clusters.Instance) -> str:
    if instance.is_bound:
        return "it can never be migrated"
    if instance.parted is not None:
        since = replica_texts.clock(instance.parted.since)
        return f"it is degraded since {since}: run `roundsman explain {instance.name}`"
    others = [cluster.nodes[uuid] for uuid in instance.secondary_nodes if uuid in cluster.nodes]
    reasons = [f"its secondary {other.name} {why}" for other in others if (why := _out_of_service(cluster, other))]
    return reasons[0] if len(reasons) == len(others) else ""
