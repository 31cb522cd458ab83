"""Unfinished jobs: what was submitted before holds instances and may use room, and others are planned beside it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..cluster import cluster as clusters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from . import work

KINDS = frozenset({"failover", "migrate", "replace_disks", "startup"})
"""The opcodes that hold their instance, each with its nodes in its parameters: nothing else moves it until they end."""


@dataclass(frozen=True)
class Job:
    """A submitted job that has not ended: its number, and its opcodes of these kinds that have not ended.

    `depends` are the numbers of the jobs that it waits for, `incident` is that for which it works (UUID); `is_running`
    says that the first of the opcodes is at work.
    """

    number: int
    opcodes: tuple[work.Opcode, ...]
    depends: tuple[int, ...] = ()
    incident: str | None = None
    is_running: bool = False

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances (UUIDs) that it holds."""
        return tuple(dict.fromkeys(str(opcode.params["instance"]) for opcode in self.opcodes))


@dataclass(frozen=True)
class Claims:
    """What unfinished jobs hold and use of a cluster, looked up once.

    `jobs` are in the order of their numbers; `urgent` are the numbers of those that only start instances elsewhere;
    `nodes` are those (UUIDs) with a part in each job, by its number. By instance (UUID) `held_by` has the jobs that
    hold it, and `stations` where it may be until they end.
    """

    jobs: tuple[Job, ...] = ()
    urgent: frozenset[int] = frozenset()
    nodes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    held_by: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    stations: Mapping[str, list[clusters.Instance]] = field(default_factory=dict)


def claims(cluster: clusters.Cluster, jobs: Iterable[Job]) -> Claims:
    """What jobs hold and use; O(jobs * log(jobs))."""
    ordered = tuple(sorted(jobs, key=lambda job: job.number))
    held_by = by_instance(cluster, ordered)
    return Claims(
        ordered,
        urgent=frozenset(job.number for job in ordered if is_urgent(cluster, job)),
        nodes={job.number: nodes_of(cluster, job) for job in ordered},
        held_by=held_by,
        stations={uuid: stations(cluster, cluster.instances[uuid], held) for uuid, held in held_by.items()},
    )


def by_instance(cluster: clusters.Cluster, jobs: Iterable[Job]) -> dict[str, tuple[Job, ...]]:
    """The jobs that hold each instance (UUID) of the cluster, by number."""
    found: dict[str, tuple[Job, ...]] = {}
    for job in sorted(jobs, key=lambda job: job.number):
        for uuid in job.instances:
            if uuid in cluster.instances:
                found[uuid] = (*found.get(uuid, ()), job)
    return found


def holding(cluster: clusters.Cluster, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs that others wait for.

    What was ordered by hand and is not at work holds up no failover of a node that is not reachable: a queue may be
    long, and a filter may hold it for ever. Its turn comes later, and it finds its instance elsewhere.
    """
    return tuple(job for job in jobs if job.incident is not None or job.is_running or not _are_gone(cluster, job))


def _are_gone(cluster: clusters.Cluster, job: Job) -> bool:
    known = [cluster.instances[uuid] for uuid in job.instances if uuid in cluster.instances]
    return all(is_gone(cluster, instance.primary_node) for instance in known)


def stations(cluster: clusters.Cluster, instance: clusters.Instance, jobs: Iterable[Job]) -> list[clusters.Instance]:
    """An instance as it is recorded, then as each step of jobs leaves it: until they end, all of these may be true.

    A step that is on record already changes nothing, nor does one to a node that has left the cluster.
    """
    found = [instance]
    for job in jobs:
        for opcode in job.opcodes:
            if opcode.params["instance"] == instance.uuid:
                found.append(after(cluster, found[-1], opcode))
    return found


def nodes_of(cluster: clusters.Cluster, job: Job) -> tuple[str, ...]:
    """The nodes (UUIDs) that have a part in a job: those that it names, and those with replicas of its instances."""
    named = [str(opcode.params[name]) for opcode in job.opcodes for name in _NAMES[opcode.kind]]
    known = (cluster.instances[uuid] for uuid in job.instances if uuid in cluster.instances)
    return tuple(dict.fromkeys((*named, *(node for instance in known for node in instance.nodes))))


def is_urgent(cluster: clusters.Cluster, job: Job) -> bool:
    """Whether a job only starts instances of nodes that are not reachable elsewhere."""
    return all(opcode.kind == "failover" and is_gone(cluster, str(opcode.params["source"])) for opcode in job.opcodes)


def target(opcode: work.Opcode) -> str:
    """The node (UUID) to which an opcode brings its instance or a replica of it, '' for none."""
    return str(opcode.params[_NAMES[opcode.kind][1]]) if _NAMES[opcode.kind] else ""


def is_gone(cluster: clusters.Cluster, node: str) -> bool:
    """Whether a node (UUID) is not reachable, or has left the cluster."""
    known = cluster.nodes.get(node)
    return known is None or not clusters.reachable(cluster, known)


_NAMES: dict[str, tuple[str, ...]] = {
    "failover": ("source", "target"),
    "migrate": ("source", "target"),
    "replace_disks": ("old", "new"),
    "startup": (),
}


def after(cluster: clusters.Cluster, instance: clusters.Instance, opcode: work.Opcode) -> clusters.Instance:
    """An instance as an opcode leaves it."""
    if opcode.kind == "startup":
        return instance
    came, went = (str(opcode.params[name]) for name in reversed(_NAMES[opcode.kind]))
    if came not in cluster.nodes:
        return instance
    if opcode.kind == "replace_disks":
        if went not in instance.secondary_nodes or came in instance.nodes:
            return instance
        return dataclasses.replace(instance, secondary_nodes=tuple(_exchanged(instance, went, came)))
    secondaries = tuple(_exchanged(instance, came, instance.primary_node))
    return dataclasses.replace(instance, primary_node=came, secondary_nodes=secondaries)


def _exchanged(instance: clusters.Instance, old: str, new: str) -> Iterator[str]:
    return (new if uuid == old else uuid for uuid in instance.secondary_nodes)
