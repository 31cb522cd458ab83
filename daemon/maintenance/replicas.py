"""Pairs that part while their primary runs: committed from the first report on, and the secondary outdated by a job.

DRBD has no fencing policy here (docs/decisions/replica-evidence.md): without this a secondary whose link is cut calls
itself up to date for ever, and could be promoted with old data.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.disks import replicas
from ...plugins.plugin_utils import out_of_sync, replica_evidence
from ...plugins.plugin_utils.cluster import changes
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.disks import replica_texts
from ..failures import Failures
from ..jobs import submission, values
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .reports import Intake

LOG = logging.getLogger(__name__)
MOST_JOBS = 10
"""How many secondaries are outdated at the same time; each costs about a second of CPU here."""
MOST_PER_NODE = 2
"""How many of them may be on one node: a node that hangs does not keep the others waiting."""
RETRY = 60.0
"""Seconds after the end of a job until the next one, if its secondary still reports that it could start.

Doubled with each job that succeeded while nothing else is reported either.
"""
LONGEST_RETRY = 3600.0
OFTEN_FAILED, SELDOM = 30, 600.0
"""After so many jobs in a row, of which the last failed, the pause is this long: old data must not stay promotable."""


@dataclass(frozen=True)
class Tried:
    """The last job about an instance, what was known when it began, and how many in a row there were with that.

    `ended` is when its end was seen, by the monotonic clock.
    """

    job: int
    known: Any
    times: int
    ended: float = math.inf
    has_failed: bool = False

    def is_due(self, known: Any, now: float) -> bool:
        """Whether it is time for another job, with what is known now."""
        times = self.times if self.known == known else 1
        if self.has_failed:
            pause = RETRY if times < OFTEN_FAILED else SELDOM
        else:
            pause = parts.pause(RETRY, times=times, most=LONGEST_RETRY)
        return now - self.ended >= pause


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
        self._tried: dict[str, Tried] = {}

    async def step(self) -> None:
        """Commit what the newest reports say of pairs, in one write if anything is new, and outdate what is stale."""
        tracks = dict(self._intake.tracks)
        new = [uuid for uuid, track in tracks.items() if self._judged.get(uuid) is not track]

        self._intake.follow_offs()

        def stated(cluster: clusters.Cluster) -> list[changes.Change]:
            return [
                *replica_evidence.returned(cluster, tracks, new, now=self._clock()),
                *out_of_sync.parted(cluster, tracks, new),
                *out_of_sync.joined(cluster, tracks),
            ]

        if new:
            await self._configuration.commit(stated)
            self._judged = tracks
        await self._outdate()

    async def _outdate(self) -> None:
        """Have each secondary outdated that its running primary has lost, and that answers.

        Neither a pause nor an emergency power off holds it (`jobs/rules.py`): it writes metadata only, and keeps old
        data from starting.
        """
        cluster, now = self._configuration.current, self._monotonic()
        self._take_ends(cluster, now)
        parted = [instance for instance in cluster.instances.values() if instance.parted is not None]
        # The one that was tried least recently is next, so that no instance waits for another one's retries.
        for instance in sorted(parted, key=self._last):
            if self._queue.drained or len(self._at_work()) >= MOST_JOBS:
                return
            tried, known = self._tried.get(instance.uuid), self._known(instance)
            is_due = tried is None or tried.is_due(known, now)
            if (
                is_due
                and self._is_to_outdate(cluster, instance)
                and self._has_room(cluster, instance.secondary_nodes[0])
            ):
                times = tried.times + 1 if tried is not None and tried.known == known else 1
                self._tried[instance.uuid] = Tried(await self._submit(cluster, instance), known, times)

    def _take_ends(self, cluster: clusters.Cluster, now: float) -> None:
        for uuid, tried in list(self._tried.items()):
            if tried.ended == math.inf and not self._queue.unfinished([tried.job]):
                job = self._queue.jobs.get(tried.job)
                has_failed = job is not None and job.status is not values.Status.SUCCESS
                self._tried[uuid] = dataclasses.replace(tried, ended=now, has_failed=has_failed)
            elif tried.ended < math.inf and uuid not in cluster.instances:
                del self._tried[uuid]

    def _at_work(self) -> list[str]:
        return [uuid for uuid, tried in self._tried.items() if tried.ended == math.inf]

    def _last(self, instance: clusters.Instance) -> float:
        return self._tried[instance.uuid].ended if instance.uuid in self._tried else -math.inf

    def _known(self, instance: clusters.Instance) -> Any:
        """What is recorded and reported of a pair, and the boots of its nodes."""
        tracks = self._intake.tracks
        boots = [tracks[uuid].boot_id for uuid in instance.nodes if uuid in tracks]
        return instance.parted, instance.nodes, boots, replica_evidence.newest(tracks, instance.nodes, instance)

    def _has_room(self, cluster: clusters.Cluster, node: str) -> bool:
        known = (cluster.instances.get(uuid) for uuid in self._at_work())
        return sum(instance is not None and node in instance.secondary_nodes for instance in known) < MOST_PER_NODE

    def _is_to_outdate(self, cluster: clusters.Cluster, instance: clusters.Instance) -> bool:
        if len(instance.secondary_nodes) != 1:
            return False
        nodes = (instance.primary_node, instance.secondary_nodes[0])
        if any(not clusters.reachable(cluster, cluster.nodes[uuid]) or self._intake.is_silent(uuid) for uuid in nodes):
            return False
        primary, secondary = (self._intake.tracks.get(uuid) for uuid in nodes)
        return replicas.to_outdate(primary, secondary, replica_evidence.resources(instance))

    async def _submit(self, cluster: clusters.Cluster, instance: clusters.Instance) -> int:
        now, node = self._clock(), instance.secondary_nodes[0]
        since = replica_texts.clock(instance.parted.since) if instance.parted is not None else ""
        peer = cluster.node_name(node)
        text = f"{instance.name} writes without its secondary {peer} since {since}: that one is outdated"
        job = values.Job(
            id=0,
            opcodes=(values.Opcode("outdate_replica", {"instance": instance.uuid, "node": node}, submission.URGENT),),
            reason=(values.Reason(submission.ROUNDS, text, int(now * 1e9)),),
            received=now,
            names={instance.uuid: instance.name, node: peer},
        )
        (submitted,) = await self._queue.submit([job])
        return submitted.id
