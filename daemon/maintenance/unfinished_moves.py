"""Instances of which a migration has not ended: a job looks for each once both nodes answer where it may run.

The look records where it runs; it starts and fences nothing. One that runs on neither node waits for a person.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.opcodes import instance_looks
from ..failures import Failures
from ..jobs import submission, values
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .reports import Intake

RETRY, LONGEST_RETRY = 300.0, 3600.0
"""Seconds after which an instance is looked for again that was not found: doubled each time, up to an hour.

Once one of its nodes was silent it is the shortest again."""
BOOTED = 30.0
"""The same where one of its nodes has booted since: what it answered before says nothing any more."""
MOST_JOBS = 2
"""How many instances are looked for at the same time: a node that answers may hang all the same."""
PRIORITY = 10


@dataclass(frozen=True)
class Tried:
    """The last look for an instance: how many there were, and when its end was seen, by the monotonic clock.

    `boots` are the boot ids that its nodes had reported when it was submitted.
    """

    job: int
    times: int
    boots: tuple[str, ...]
    ended: float = math.inf


class UnfinishedMoves(parts.Part):
    """Submits the jobs; `step` is called after each poll, report, job and change of the configuration."""

    name = "unfinished migrations"
    retried = "after the next poll or job"

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        intake: Intake,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
        failures: Failures | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._queue = queue
        self._intake = intake
        self._clock = clock
        self._monotonic = monotonic
        self._tried: dict[str, Tried] = {}
        self._seen: Mapping[str, clusters.Instance] = {}
        self._moving: tuple[clusters.Instance, ...] = ()

    async def step(self) -> None:
        """Submit a job for instances that may run on either of two nodes, both of which answer."""
        cluster = self._configuration.current
        if cluster.instances is not self._seen:
            self._seen = cluster.instances
            self._moving = tuple(instance for instance in cluster.instances.values() if instance.moving)
        self._tried = {
            instance.uuid: self._followed(instance, self._tried[instance.uuid])
            for instance in self._moving
            if instance.uuid in self._tried
        }
        maintenance = cluster.maintenance
        if not self._moving or maintenance.epo is not None or maintenance.settings.paused or self._queue.drained:
            return
        # A migration that goes on is one of them.
        busy = {opcode.params.get("instance") for opcode in self._queue.unfinished_opcodes()}
        free = MOST_JOBS - sum(tried.ended == math.inf for tried in self._tried.values())
        due = [instance for instance in self._moving if instance.uuid not in busy and self._is_due(cluster, instance)]
        # The least recently tried is next.
        for instance in sorted(due, key=self._last)[: max(0, free)]:
            await self._submit(cluster, instance)

    def _followed(self, instance: clusters.Instance, tried: Tried) -> Tried:
        """The last look for an instance as it is by now; a node that is silent may know more once it answers."""
        if any(self._intake.is_silent(uuid) for uuid in instance.places):
            tried = replace(tried, times=1)
        if tried.ended < math.inf or self._queue.unfinished([tried.job]):
            return tried
        return replace(tried, ended=self._monotonic())

    def _last(self, instance: clusters.Instance) -> float:
        tried = self._tried.get(instance.uuid)
        return -math.inf if tried is None else tried.ended

    def _is_due(self, cluster: clusters.Cluster, instance: clusters.Instance) -> bool:
        tried = self._tried.get(instance.uuid)
        if tried is not None:
            has_booted = tried.boots != self._boots(instance, tried)
            pause = BOOTED if has_booted else parts.pause(RETRY, times=tried.times, most=LONGEST_RETRY)
            if self._monotonic() - tried.ended < pause:
                return False
        # Where the clock was set back since, no answer would be later for as long as that; the look asks both anyway.
        since = instance.mtime if instance.mtime <= self._clock() else 0.0
        return all(self._answers(cluster, uuid, since=since) for uuid in instance.places)

    def _answers(self, cluster: clusters.Cluster, uuid: str, *, since: float) -> bool:
        """Whether a node may be contacted, and has answered since the migration began."""
        node = cluster.nodes.get(uuid)
        if node is None or not clusters.reachable(cluster, node) or self._intake.is_silent(uuid):
            return False
        return self._intake.last_said(uuid) > since

    def _boots(self, instance: clusters.Instance, tried: Tried | None) -> tuple[str, ...]:
        """The boot ids that its nodes report, or reported before the last look where they report none."""
        tracks, before = self._intake.tracks, tried.boots if tried is not None else ("", "")
        now = (tracks[uuid].boot_id if uuid in tracks else "" for uuid in instance.places)
        return tuple(boot or known for boot, known in zip(now, before, strict=True))

    async def _submit(self, cluster: clusters.Cluster, instance: clusters.Instance) -> None:
        look = instance_looks.opcode(cluster, instance.uuid)
        opcode = values.Opcode(look.kind, {"instance": look.instance, "nodes": list(look.nodes)}, PRIORITY)
        now = self._clock()
        primary, other = (cluster.node_name(uuid) for uuid in instance.places)
        text = f"{primary} and {other} answer: the migration of {instance.name} between them has not ended"
        job = values.Job(
            id=0,
            opcodes=(opcode,),
            reason=(values.Reason(submission.ROUNDS, text, int(now * 1e9)),),
            received=now,
            names={instance.uuid: instance.name, **{uuid: cluster.node_name(uuid) for uuid in look.nodes}},
        )
        (submitted,) = await self._queue.submit([job])
        known = self._tried.get(instance.uuid)
        boots = self._boots(instance, known)
        times = known.times + 1 if known is not None and known.boots == boots else 1
        self._tried[instance.uuid] = Tried(submitted.id, times=times, boots=boots)
