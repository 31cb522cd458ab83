"""What instances really use of their nodes' CPUs, of what the nodes measure (Ganeti's `cpu-avg-load`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..cluster import cluster as clusters
from ..placement.models import model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Measured:
    """What was measured at one moment: by name of the instance its load, and the nodes (names) that told nothing.

    With one of those there are no loads: nothing would compare.
    """

    loads: Mapping[str, model.Load]
    missing: tuple[str, ...] = ()


def per_instance(cluster: clusters.Cluster, cpus: Mapping[str, float]) -> Measured:
    """What `cpus`, by node (UUID) how many are busy, says of the instances where they run now."""
    unmeasured = missing(cluster, cpus)
    return Measured({}, tuple(unmeasured)) if unmeasured else Measured(loads(cluster, cpus))


def loads(cluster: clusters.Cluster, cpus: Mapping[str, float]) -> dict[str, model.Load]:
    """By name the load of each running instance on a measured node.

    `cpus` has by node (UUID) how many CPUs are busy. As in Ganeti every virtual CPU of a node has the same part of
    that; memory, disk and network are not measured and count as they do without measurements.
    """
    running = [instance for instance in cluster.instances.values() if instance.is_up and instance.primary_node in cpus]
    vcpus: dict[str, int] = {}
    for instance in running:
        vcpus[instance.primary_node] = vcpus.get(instance.primary_node, 0) + instance.vcpus
    return {
        instance.name: replace(
            model.Load(), cpu=cpus[instance.primary_node] * instance.vcpus / vcpus[instance.primary_node]
        )
        for instance in running
        if vcpus[instance.primary_node]
    }


def missing(cluster: clusters.Cluster, cpus: Mapping[str, float]) -> list[str]:
    """The names of the nodes that instances run on and that are not measured: without one of them nothing compares."""
    running = {instance.primary_node for instance in cluster.instances.values() if instance.is_up}
    unmeasured = [cluster.nodes[uuid] for uuid in running if uuid in cluster.nodes and uuid not in cpus]
    names = [node.name for node in unmeasured if clusters.reachable(cluster, node)]
    return sorted(names, key=clusters.natural)


def told(names: Iterable[str]) -> str:
    """Why measurements are not used."""
    return f"what instances use is not counted: no load is known of {', '.join(names)}"
