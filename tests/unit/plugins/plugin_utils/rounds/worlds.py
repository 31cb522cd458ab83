"""A small world: the jobs of a plan run in any order that it allows, and each rule is watched."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import holdings, moving, room

if TYPE_CHECKING:
    import random
    from typing import Sequence

    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Move
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work

RATIO = 4
"""Virtual CPUs for each CPU, in the built-in policy."""


def nodes_of(job: work.Job, cluster: clusters.Cluster) -> set[str]:
    """The nodes that take part in a move: those that its job names, and those with replicas."""
    found = set()
    for opcode in job.opcodes:
        if "instance" in opcode.params:
            found |= {str(value) for name, value in opcode.params.items() if name not in {"instance", "planned"}}
            found |= set(cluster.instances[str(opcode.params["instance"])].nodes)
    return found


def is_urgent(job: work.Job, cluster: clusters.Cluster) -> bool:
    """Whether a job only starts an instance of a node that is not reachable elsewhere."""
    return all(
        opcode.kind == "failover" and not clusters.reachable(cluster, cluster.node(str(opcode.params["source"])))
        for opcode in job.opcodes
    )


class World:
    """Every opcode takes its room when it starts and frees it when it ends."""

    def __init__(self, cluster: clusters.Cluster) -> None:
        self.cluster = cluster
        start = room.Room(cluster)
        self.memory = {uuid: node.memory for uuid, node in start.nodes.items()}
        self.disk = {uuid: node.disk for uuid, node in start.nodes.items()}
        self._limits = start
        self._arriving: dict[str, list[clusters.Instance]] = {}
        self._fled: set[str] = set()

    def run(self, jobs: Sequence[work.Job], *, luck: random.Random) -> None:
        """Start and end opcodes in a random order that `after` and `behind` allow."""
        before, limit = self.cluster, self.cluster.maintenance.settings.moves_per_node
        done: set[str] = set()
        step = dict.fromkeys((job.key for job in jobs), 0)
        running: set[str] = set()
        while len(done) < len(jobs):
            open_ = [job for job in jobs if job.key not in done and {*job.after, *job.behind} <= done]
            job = luck.choice(open_)
            busy = {one.key for one in jobs if one.key not in done and (step[one.key] or one.key in running)}
            alike = [
                one for one in jobs if one.key in busy - {job.key} and is_urgent(one, before) == is_urgent(job, before)
            ]
            for node in nodes_of(job, before):
                assert sum(node in nodes_of(one, before) for one in alike) + 1 <= limit
            opcode = job.opcodes[step[job.key]]
            if job.key not in running:
                self._start(opcode)
                running.add(job.key)
                continue
            self._end(opcode)
            running.remove(job.key)
            step[job.key] += 1
            if step[job.key] == len(job.opcodes):
                done.add(job.key)

    def _start(self, opcode: work.Opcode) -> None:
        params = opcode.params
        if "instance" not in params:
            if params.get("offline"):
                assert not any(params["node"] in one.nodes for one in self.cluster.instances.values())
            return
        instance = self.cluster.instances[str(params["instance"])]
        if opcode.kind == "replace_disks":
            assert params["old"] in instance.secondary_nodes
            assert params["new"] not in instance.nodes
            self._take(self.disk, str(params["new"]), holdings.disk_per_copy(instance))
            return
        assert params["source"] == instance.primary_node
        assert instance.disk_template != "drbd" or params["target"] in instance.secondary_nodes
        self._take(self.memory, str(params["target"]), holdings.memory_in_use(instance))
        self._arrive(instance, str(params["target"]))

    def _arrive(self, instance: clusters.Instance, node: str) -> None:
        """Virtual CPUs and exclusion tags hold for what runs there or is on its way, but for what fled a dead node."""
        beside = [one for one in self.cluster.instances.values() if one.primary_node == node]
        beside += self._arriving.setdefault(node, [])
        self._arriving[node].append(instance)
        if not clusters.reachable(self.cluster, self.cluster.nodes[instance.primary_node]):
            self._fled.add(instance.uuid)
            return
        beside = [one for one in beside if one.uuid not in self._fled]
        own = self._limits.exclusion_tags(instance)
        assert not any(set(own) & set(self._limits.exclusion_tags(one)) for one in beside)
        cpus = self.cluster.nodes[node].ctotal
        used = 1 + instance.vcpus + sum(one.vcpus for one in beside)
        assert cpus == 0 or used <= cpus * RATIO

    def _take(self, free: dict[str, int], node: str, size: int) -> None:
        free[node] -= size
        assert size == 0 or free[node] >= 0

    def _end(self, opcode: work.Opcode) -> None:
        params = opcode.params
        if "instance" not in params:
            flags = {name: True for name in ("drained", "offline") if params.get(name)}
            node = dataclasses.replace(self.cluster.nodes[str(params["node"])], **flags)  # type: ignore[arg-type]
            self.cluster = clusters.with_node(self.cluster, node)
            return
        instance = self.cluster.instances[str(params["instance"])]
        if opcode.kind == "replace_disks":
            old, new = str(params["old"]), str(params["new"])
            self.disk[old] += holdings.disk_per_copy(instance)
            secondaries = tuple(new if one == old else one for one in instance.secondary_nodes)
            moved = dataclasses.replace(instance, secondary_nodes=secondaries)
        else:
            source, target = str(params["source"]), str(params["target"])
            self._arriving[target].remove(instance)
            self.memory[source] += holdings.memory_in_use(instance)
            secondaries = tuple(source if one == target else one for one in instance.secondary_nodes)
            moved = dataclasses.replace(instance, primary_node=target, secondary_nodes=secondaries)
        self.cluster = clusters.with_instance(self.cluster, moved)


def run_as_promised(
    cluster: clusters.Cluster, moves: Sequence[Move], jobs: Sequence[work.Job], *, luck: random.Random
) -> World:
    """The world after the jobs of moves ran: each instance is where its move promised, all others as before."""
    world = World(cluster)
    world.run(jobs, luck=luck)
    promised = dict(zip((move.instance for move in moves), moving.ends(cluster, moves), strict=True))
    for one in world.cluster.instances.values():
        there = tuple(cluster.node_name(uuid) for uuid in one.nodes)
        assert there == promised.get(
            one.name, tuple(cluster.node_name(uuid) for uuid in cluster.instances[one.uuid].nodes)
        )
    return world
