"""Replicas that were left behind on silent nodes: a job removes each once its node answers again.

One that a rule keeps is asked for again only when a report or the configuration says something new of it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import changes
from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.plugin_utils import replica_evidence
from ...plugins.plugin_utils.opcodes import left_replica
from ..failures import Failures
from ..jobs import planned, values
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .reports import Intake

RETRY = 300.0
"""Seconds after which a removal that failed is tried again."""
PRIORITY = 10


@dataclass(frozen=True)
class Tried:
    """The last job about a replica, its time by the monotonic clock, and what was known of the replica then."""

    job: int
    at: float
    known: tuple[Any, ...]


class LeftBehind(parts.Part):
    """Submits the jobs; `step` is called after each poll, report, job and change of the configuration."""

    name = "left-behind replicas"
    retried = "after the next poll or job"

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        intake: Intake,
        *,
        alive: Callable[[], Collection[str]],
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
        failures: Failures | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._queue = queue
        self._intake = intake
        self._alive = alive
        self._clock = clock
        self._monotonic = monotonic
        self._tried: dict[tuple[str, str], Tried] = {}

    async def step(self) -> None:
        """Submit a job for each replica whose node is back; drop what is no longer left behind."""
        if _in_use(self._configuration.current):
            await self._configuration.commit(_in_use)
        cluster = self._configuration.current
        known = {(left.instance.uuid, left.node) for left in cluster.maintenance.left_behind}
        self._tried = {key: tried for key, tried in self._tried.items() if key in known}
        for left in cluster.maintenance.left_behind:
            maintenance = self._configuration.current.maintenance
            if maintenance.epo is not None or maintenance.settings.paused or self._queue.drained:
                return
            if self._is_back(cluster, left) and self._is_due(cluster, left):
                await self._submit(cluster, left)

    def _is_back(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> bool:
        """Whether the node is in service and has answered since the replica was left there."""
        node = cluster.nodes.get(left.node)
        if node is None or not clusters.reachable(cluster, node):
            return False
        heard = self._intake.diagnosed.get(left.node)
        return left.node in self._alive() or (heard is not None and heard.accepted > left.since)

    def _is_due(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> bool:
        """Whether no job is at work on it, and the last one did not just fail, or was kept and nothing is new."""
        tried = self._tried.get((left.instance.uuid, left.node))
        if tried is None:
            return not any(_is_about(job, left) for job in self._queue.jobs.values() if not job.is_final)
        if self._queue.unfinished([tried.job]) or self._monotonic() - tried.at < RETRY:
            return False
        job = self._queue.jobs.get(tried.job)
        if job is None or job.opcodes[0].result != left_replica.KEPT:
            return True
        return tried.known != self._known(cluster, left)

    def _known(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> tuple[Any, ...]:
        """What the configuration and the newest reports say of the replica and of those that are in use."""
        instance = cluster.instances.get(left.instance.uuid)
        nodes = instance.nodes if instance is not None else ()
        tracks = [self._intake.tracks.get(uuid) for uuid in (left.node, *nodes)]
        facts = [
            sorted((number, repr(volume.fact)) for number, volume in track.of_resource(name).items())
            for name in replica_evidence.resources(left.instance)
            for track in tracks
            if track is not None
        ]
        return nodes, instance is not None and instance.parted, facts

    async def _submit(self, cluster: clusters.Cluster, left: clusters.LeftBehind) -> None:
        name, node = left.instance.name, cluster.node_name(left.node)
        opcode = values.Opcode("remove_replica", {"instance": left.instance.uuid, "node": left.node}, PRIORITY)
        now = self._clock()
        text = f"{node} answers again: the replica that {name} left there is removed"
        job = values.Job(
            id=0,
            opcodes=(opcode,),
            reason=(values.Reason(planned.ROUNDS, text, int(now * 1e9)),),
            received=now,
            names={left.instance.uuid: name, left.node: node},
        )
        (submitted,) = await self._queue.submit([job])
        known = self._known(cluster, left)
        self._tried[left.instance.uuid, left.node] = Tried(submitted.id, self._monotonic(), known)


def _in_use(cluster: clusters.Cluster) -> list[changes.Change]:
    """The entries whose node has a replica of the instance again, dropped; an imported backup may hold such."""
    found: list[changes.Change] = []
    for left in cluster.maintenance.left_behind:
        instance = cluster.instances.get(left.instance.uuid)
        if instance is not None and left.node in instance.nodes:
            found.append(changes.ReplicaLeft(left.instance.uuid, left.node, present=False))
    return found


def _is_about(job: values.Job, left: clusters.LeftBehind) -> bool:
    return any(
        one.kind == "remove_replica" and one.params == {"instance": left.instance.uuid, "node": left.node}
        for one in job.opcodes
    )
