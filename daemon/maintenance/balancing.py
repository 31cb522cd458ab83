"""The balancing step of rounds at work: asked at every step, searched for only when the cluster has changed.

A search takes seconds on a large cluster, so it runs in a thread, over values that nobody changes.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils.opcodes import registry
from ...plugins.plugin_utils.placement.plan import Refusal
from ...plugins.plugin_utils.rounds import balancing_step, measured, rebalancing, rounds
from ..jobs import submission, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...plugins.plugin_utils.cluster import cluster as clusters
    from ..jobs.queue import Queue

AVERAGED = 600.0
"""Seconds that a node's load is an average of."""
PATIENCE = 300.0
"""Seconds without balancing after one of its jobs failed, where no `round_interval` says how many."""


class Balancer:
    """Keeps the answer to the last question; the same question is not searched twice.

    `withdrawn` are jobs that rounds themselves have canceled: that is no failure.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        clock: Callable[[], float],
        cpus: Callable[[], Mapping[str, float]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._monotonic = monotonic
        self._since_change = _Elapsed(clock, monotonic)
        self._since_failure = _Elapsed(clock, monotonic)
        self._cpus = cpus
        self._known: tuple[float, measured.Measured] | None = None
        self._asked: rebalancing.Question | None = None
        self._answer = rebalancing.Answer()
        self.withdrawn: set[int] = set()

    def completed(
        self, cluster: clusters.Cluster, plan: rounds.RoundPlan
    ) -> tuple[rounds.RoundPlan, rebalancing.Question | None]:
        """The plan with its balancing step, as far as that is known, and the question if it is not."""
        asked = balancing_step.to_balance(cluster, plan, busy=self._busy(cluster))
        if asked is None:
            return plan, None
        if cluster.maintenance.settings.balance_dynamic_load:
            asked = replace(asked, measured=self._measurement(cluster))
        held = balancing_step.evacuation_before_balancing(cluster, plan) or self._failed(cluster)
        if held is not None:
            return balancing_step.balanced(plan, asked, rebalancing.Answer(refusals=(held,))), None
        if asked == self._asked:
            return balancing_step.balanced(plan, asked, self._answer), None
        return balancing_step.balanced(plan, asked, rebalancing.Answer()), asked

    async def search(self, asked: rebalancing.Question) -> None:
        """Find the answer to a question, beside all other work."""
        self._answer = await asyncio.to_thread(rebalancing.answer, asked)
        self._asked = asked

    def _measurement(self, cluster: clusters.Cluster) -> measured.Measured:
        """What instances use, as it was measured while they ran where they do.

        It is taken anew once it is as old as the time between rounds, and no instance has changed for as long as the
        nodes' averages reach back: what has just moved would count where it was, and move on for ever.
        """
        if self._known is not None and not self._known[1].missing:
            changed = max((instance.mtime for instance in cluster.instances.values()), default=0.0)
            version = sum(instance.serial_no for instance in cluster.instances.values())
            still = self._since_change.seconds(changed, of=version)
            age = self._monotonic() - self._known[0]
            if age < (cluster.maintenance.settings.round_interval or PATIENCE) or still < AVERAGED:
                return self._known[1]
        self._known = (self._monotonic(), measured.per_instance(cluster, self._cpus()))
        return self._known[1]

    def _busy(self, cluster: clusters.Cluster) -> set[str]:
        """The objects (UUIDs) that all jobs which have not ended lock, or will."""
        if not cluster.maintenance.settings.balance:
            return set()
        jobs = (job for job in self._queue.jobs.values() if not job.is_final)
        return {uuid for job in jobs for opcode in job.opcodes for uuid in _locked(cluster, opcode)}

    def _failed(self, cluster: clusters.Cluster) -> Refusal | None:
        """While a balancing that failed is not long ago nothing is balanced."""
        known = (self._queue.jobs[number] for number in cluster.maintenance.jobs if number in self._queue.jobs)
        failed = [job for job in known if has_failed(job) and job.id not in self.withdrawn]
        last = max(failed, key=lambda job: job.ended, default=None)
        seconds = cluster.maintenance.settings.round_interval or PATIENCE
        if last is None or self._since_failure.seconds(last.ended, of=last.id) >= seconds:
            return None
        return Refusal(
            rebalancing.SUBJECT,
            f"job {last.id} of the last balancing did not succeed: {last.text or last.status.value}",
            f"{seconds:g} s after its end, or another round",
        )


class _Elapsed:
    """Seconds since an event on record, which no step of the clock changes once the event has been seen here."""

    def __init__(self, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._event: object = None
        self._began = 0.0

    def seconds(self, moment: float, *, of: object) -> float:
        """Since the unix time of this event; one that is dated ahead counts as of now."""
        if (moment, of) != self._event:
            self._event = (moment, of)
            self._began = self._monotonic() - max(0.0, self._clock() - moment)
        return self._monotonic() - self._began


def _locked(cluster: clusters.Cluster, opcode: values.Opcode) -> set[str]:
    try:
        wants = registry.make(opcode.kind, opcode.params).wants(cluster)
    except errors.RoundsmanError:
        return set()  # It is about something that is gone: it will fail.
    return {lock.partition("/")[2] for lock in wants}


def has_failed(job: values.Job) -> bool:
    """Whether a job is one of a balancing, and has ended without success."""
    return job.is_final and job.status is not values.Status.SUCCESS and not submission.has_incident(job)
