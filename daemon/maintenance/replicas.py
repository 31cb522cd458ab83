"""Pairs that part while their primary runs: committed from the first report on, and the secondary outdated by a job.

DRBD has no fencing policy here (docs/decisions/replica-evidence.md): without this a secondary whose link is cut calls
itself up to date for ever, and could be promoted with old data.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import changes, evidence, replicas
from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.plugin_utils import replica_evidence
from ..failures import Failures
from ..jobs import planned, values
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .reports import Intake

LOG = logging.getLogger(__name__)
PRIORITY = -10
MOST_JOBS = 10
"""How many secondaries are outdated at the same time; each costs about a second of CPU here."""
MOST_PER_NODE = 2
"""How many of them may be on one node: a node that hangs does not keep the others waiting."""
RETRY = 60.0
"""Seconds after the end of a job that did not outdate its secondary until the next one."""


class Replicas(parts.Part):
    """Commits which pairs have parted, and has their secondaries outdated; `wake` after each report and each job."""

    name = "replicas"
    retried = "after the next report"

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        intake: Intake,
        *,
        clock: Callable[[], float],
        failures: Failures | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._queue = queue
        self._intake = intake
        self._clock = clock
        self._monotonic = monotonic
        self._judged: dict[str, replicas.NodeTrack] = {}
        self._jobs: dict[str, int] = {}
        self._tried: dict[str, float] = {}

    async def step(self) -> None:
        """Commit what the newest reports say of pairs, in one write if anything is new, and outdate what is stale."""
        tracks = dict(self._intake.tracks)
        new = [uuid for uuid, track in tracks.items() if self._judged.get(uuid) is not track]

        def stated(cluster: clusters.Cluster) -> list[changes.Change]:
            return [
                *replica_evidence.returned(cluster, tracks, new),
                *replica_evidence.parted(cluster, tracks, new),
                *replica_evidence.joined(cluster, tracks),
            ]

        if new:
            self._tell_witnesses(tracks, new)
            await self._configuration.commit(stated)
            self._judged = tracks
        await self._outdate()

    def _tell_witnesses(self, tracks: Mapping[str, replicas.NodeTrack], new: Collection[str]) -> None:
        """Log whose word makes a node alive that was known to be off: it ends the failovers from there."""
        cluster = self._configuration.current
        for lived in replica_evidence.returned(cluster, tracks, new):
            if lived.witness:
                LOG.warning(
                    "%s was known to be off, and %s reports at %s that it was connected to it: check both on site",
                    cluster.node_name(lived.node),
                    cluster.node_name(lived.witness),
                    evidence.clock(lived.at),
                )

    async def _outdate(self) -> None:
        """Have each secondary outdated that its running primary has lost, and that answers.

        Neither a pause nor an emergency power off holds it (`jobs/rules.py`): it writes metadata only, and keeps old
        data from starting.
        """
        for uuid, number in list(self._jobs.items()):
            job = self._queue.jobs.get(number)
            if job is None or job.is_final:
                del self._jobs[uuid]
                self._tried[uuid] = self._monotonic()
        cluster, now = self._configuration.current, self._monotonic()
        self._tried = {uuid: at for uuid, at in self._tried.items() if uuid in cluster.instances}
        parted = [one for one in cluster.instances.values() if one.parted is not None and one.uuid not in self._jobs]
        # The one that was tried least recently is next, so that no instance waits for another one's retries.
        for one in sorted(parted, key=lambda one: self._tried.get(one.uuid, -math.inf)):
            if self._queue.drained or len(self._jobs) >= MOST_JOBS:
                return
            is_due = now - self._tried.get(one.uuid, -math.inf) >= RETRY
            if is_due and self._is_to_outdate(cluster, one) and self._has_room(cluster, one.secondary_nodes[0]):
                self._jobs[one.uuid] = await self._submit(cluster, one)

    def _has_room(self, cluster: clusters.Cluster, node: str) -> bool:
        known = (cluster.instances.get(uuid) for uuid in self._jobs)
        return sum(one is not None and node in one.secondary_nodes for one in known) < MOST_PER_NODE

    def _is_to_outdate(self, cluster: clusters.Cluster, one: clusters.Instance) -> bool:
        if len(one.secondary_nodes) != 1:
            return False
        nodes = (one.primary_node, one.secondary_nodes[0])
        if any(not clusters.reachable(cluster, cluster.nodes[uuid]) or self._intake.is_silent(uuid) for uuid in nodes):
            return False
        primary, secondary = (self._intake.tracks.get(uuid) for uuid in nodes)
        return replicas.to_outdate(primary, secondary, replica_evidence.resources(one))

    async def _submit(self, cluster: clusters.Cluster, one: clusters.Instance) -> int:
        now, node = self._clock(), one.secondary_nodes[0]
        since = evidence.clock(one.parted.since) if one.parted is not None else ""
        text = f"{one.name} writes without its secondary {cluster.node_name(node)} since {since}: that one is outdated"
        job = values.Job(
            id=0,
            opcodes=(values.Opcode("outdate_replica", {"instance": one.uuid, "node": node}, PRIORITY),),
            reason=(values.Reason(planned.ROUNDS, text, int(now * 1e9)),),
            received=now,
            names={one.uuid: one.name, node: cluster.node_name(node)},
        )
        (submitted,) = await self._queue.submit([job])
        return submitted.id
