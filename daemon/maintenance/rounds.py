"""Rounds at work: what nodes report and how jobs end becomes incidents, plans and submitted jobs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import uuid
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import replica_evidence
from ...plugins.plugin_utils.cluster import changes, incidents
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.disks import possible_loss
from ...plugins.plugin_utils.opcodes import contract
from ...plugins.plugin_utils.rounds import overtaken, rounds
from ..failures import Failures
from ..jobs import submission, values
from . import balancing, lifecycle, outcomes
from .spoken import Known, Spoken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from ...plugins.module_utils.domain.agent import diagnosis
    from ...plugins.plugin_utils.report_originals import Originals
    from ...plugins.plugin_utils.rounds import rebalancing, unfinished
    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .history import History
    from .reports import Intake

LOG = logging.getLogger(__name__)
RETRY = 30.0
"""Seconds after which a step that failed is retried at the latest."""
PART, INTAKE, RESUMING = "rounds", "report intake", "resuming the last round"


class Rounds:
    """Starts a round when there is something to do, also beside the unfinished jobs of those before; events wake it.

    `has_looked` is set once it has looked for the first time.
    """

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        intake: Intake,
        history: History,
        *,
        clock: Callable[[], float],
        dead: Callable[[clusters.Cluster], Mapping[str, diagnosis.Diagnosis]] = lambda _: {},
        cpus: Callable[[], Mapping[str, float]] = dict,
        failures: Failures | None = None,
        originals: Originals,
    ) -> None:
        self._originals = originals
        self._failures = failures or Failures()
        self._settled = -1
        self._is_hindered = False
        self._dead = dead
        self._configuration = configuration
        self._queue = queue
        self._intake = intake
        self._history = history
        self._clock = clock
        self._balancer = balancing.Balancer(queue, clock=clock, cpus=cpus)
        self._has_searched = False
        self._plans: dict[bool, tuple[clusters.Cluster, tuple[object, ...], rounds.RoundPlan]] = {}
        self._spoken = Spoken(intake.last)
        self._awake = asyncio.Event()
        self.has_looked = asyncio.Event()
        self._deciding = asyncio.Lock()

    def wake(self) -> None:
        """Something has happened: look again."""
        self._awake.set()

    async def run(self) -> None:
        """Work for ever; a step that fails is reported, and retried at the next event or within `RETRY` seconds."""
        while True:
            self._awake.clear()
            interval = self._configuration.current.maintenance.settings.round_interval
            try:
                while await self.step():
                    pass
                self._failures.recovered(PART)
                if self._is_hindered:
                    interval = min(interval or RETRY, RETRY)
            except (errors.RoundsmanError, OSError) as error:
                self._failures.failed(PART, error, remedy=f"fix the cause; the step is retried every {RETRY:.0f} s")
                interval = min(interval or RETRY, RETRY)
            self.has_looked.set()
            limit = min(filter(None, (interval, self._pause_left())), default=None)
            try:
                await asyncio.wait_for(self._awake.wait(), limit)
            except TimeoutError:
                LOG.debug("no event within %g s", limit)

    def _pause_left(self) -> float:
        """The seconds until a pause ends by itself, 0 for none."""
        settings = self._configuration.current.maintenance.settings
        return max(1.0, settings.pause_ends - self._clock()) if settings.paused and settings.pause_ends else 0.0

    def _ended_pause(self, head: clusters.Cluster) -> list[changes.Change]:
        settings = head.maintenance.settings
        if not settings.is_pause_over(now=self._clock()):
            return []
        LOG.info("the pause is over: %s", settings.paused)
        return [changes.SettingsStand(settings.with_pause(""))]

    async def _submit_unsubmitted(self) -> None:
        """Submit the jobs of the round at work that a crash, or a full disk, kept from the queue.

        Only a round whose own file says that its jobs were not submitted yet is resumed. Whatever fails here is
        reported; without a readable file the round is not resumed, and `_forget_lost_jobs` follows.
        """
        maintenance = self._configuration.current.maintenance
        if self._settled == maintenance.round:
            return
        self._queue.keep_numbers(maintenance.jobs)
        try:
            if maintenance.jobs and not await self._has_resumed(maintenance):
                return
            self._failures.recovered(RESUMING)
            self._settled = maintenance.round
        except (errors.RoundsmanError, OSError) as error:
            self._failures.failed(RESUMING, error, remedy="fix the cause; it is retried with every step of the rounds")

    async def _has_resumed(self, maintenance: clusters.Maintenance) -> bool:
        found = self._history.planned(maintenance.round)
        if found is None:
            LOG.warning("round %s is not resumed: its file is missing or damaged", maintenance.round)
            return True
        if not found.is_submitted:
            if self._queue.drained:
                return False
            known = [job for job in found.jobs if job.id in maintenance.jobs]
            await self._submit_planned(known, number=maintenance.round)
        return True

    async def _submit_planned(self, jobs: Sequence[values.Job], *, number: int) -> None:
        try:
            await self._queue.submit(jobs)
        except errors.InvalidInput as error:
            LOG.warning("round %s is not resumed: its jobs cannot be submitted: %s", number, error)
        await self._history.set_submitted(number)

    @contextlib.asynccontextmanager
    async def between_steps(self) -> AsyncIterator[None]:
        """As long as this lasts no step decides: what steps decide upon can be replaced."""
        async with self._deciding:
            yield

    async def step(self) -> bool:
        """Do the next thing there is to do; returns whether there was one."""
        async with self._deciding:
            return await self._step()

    async def _step(self) -> bool:
        await self._submit_unsubmitted()
        self._history.recover()
        has_heard = await self._has_heard()
        await self._configuration.commit(self._forget_lost_jobs)
        await self._configuration.commit(self._ended_pause)
        if self._intake.is_behind:
            self.wake()
        before = self._configuration.current
        await self._keep_originals()
        await self._configuration.commit(lambda head: self._reconciled(head, spoken=self._spoken.look))
        await self._cancel_orphans()
        await self._take_back_overtaken()
        is_settled = self._settled == before.maintenance.round
        self._is_hindered = not (has_heard and is_settled)
        if not is_settled:
            # Jobs of the last round are not in the queue yet: nothing is completed, and no other round starts.
            return False
        after = await self._configuration.commit(self._verdicts)
        if after is not before:
            return True
        if not has_heard or self._queue.drained:
            return False
        urgent = self._plan(after)
        plan, asked = self._with_balancing(after, urgent)
        # Meanwhile anything may change, so all is decided anew then; what is urgent waits for one search, not for more.
        if asked is not None and not (urgent.jobs and self._has_searched):
            await self._balancer.search(asked)
            self._has_searched = True
            return True
        self._has_searched = False
        if not plan.jobs:
            return False
        await self._submit(after, plan)
        return True

    async def _keep_originals(self) -> None:
        """Large reports are durable before an incident is noted for them, and removed once no incident needs them."""
        observed = [report for report in self._intake.observed().values() if report.is_large]
        await asyncio.to_thread(self._originals.keep, observed)
        used = incidents.digests_in_use(self._configuration.current.maintenance.incidents)
        await asyncio.to_thread(self._originals.prune, used | {report.digest for report in observed})

    def _observed(self) -> dict[str, diagnosis.Diagnosis]:
        return {node: report for node, report in self._intake.observed().items() if self._originals.has(report)}

    async def _has_heard(self) -> bool:
        """Take all reports in; a failure is reported, and until it is over no round starts, for nodes may be better."""
        try:
            await self._intake.take_all()
        except (errors.RoundsmanError, OSError) as error:
            self._failures.failed(
                INTAKE, error, remedy="make the folders spool and reports in /var/lib/roundsman usable"
            )
            return False
        self._failures.recovered(INTAKE)
        return True

    def _forget_lost_jobs(self, cluster: clusters.Cluster) -> list[changes.Change]:
        """Jobs of the last round that are not on this controller: lost, or of a configuration that was restored."""
        maintenance = cluster.maintenance
        known = tuple(number for number in maintenance.jobs if self._is_of_a_round(number))
        if self._settled != maintenance.round or known == maintenance.jobs:
            return []
        lost = sorted({*maintenance.jobs} - {*known})
        LOG.warning("jobs %s of round %s are not on this controller: they are forgotten", lost, maintenance.round)
        return [changes.RoundStands(maintenance.round, known)]

    def _is_of_a_round(self, number: int) -> bool:
        job = self._queue.jobs.get(number)
        return job is not None and (job.is_unreadable or any(entry.source == submission.ROUNDS for entry in job.reason))

    def preview(self) -> rounds.RoundPlan:
        """What a round would do now, or after `resume`; nothing is changed by asking.

        Balancing is in it once a step has searched for it.
        """
        cluster = self._configuration.current
        now = changes.apply_all(cluster, self._reconciled(cluster, spoken=self._spoken.since), now=self._clock())
        plan, _ = self._with_balancing(now, self._plan(now, as_if_resumed=True))
        return plan

    def _with_balancing(
        self, cluster: clusters.Cluster, plan: rounds.RoundPlan
    ) -> tuple[rounds.RoundPlan, rebalancing.Question | None]:
        """The plan with its balancing step, which waits until all jobs of rounds have ended."""
        return (plan, None) if self.is_at_work else self._balancer.completed(self._seen(cluster), plan)

    def _seen(self, cluster: clusters.Cluster) -> clusters.Cluster:
        """The cluster as it is planned for: nodes that do not answer are no targets."""
        return contract.observed(cluster, self._intake)

    @property
    def is_at_work(self) -> bool:
        """Whether jobs of rounds have not ended."""
        return bool(self._queue.unfinished(self._configuration.current.maintenance.jobs))

    def _plan(self, cluster: clusters.Cluster, *, as_if_resumed: bool = False) -> rounds.RoundPlan:
        """The plan of a round; the same again as long as nothing has changed, however often it is asked for."""
        at_work = {
            incident.uuid: bool(self._queue.unfinished(incident.jobs)) for incident in cluster.maintenance.incidents
        }
        jobs = self._unfinished()
        silent = {uuid: True for uuid in cluster.nodes if self._intake.is_silent(uuid)}
        evidence = self._waiting(cluster, replica_evidence.of_unreachable(cluster, self._intake))
        recovered = rounds.recovered(cluster, self._intake.reported_ok_since)
        of_open = [
            (incident, self._jobs_of(incident)) for incident in cluster.maintenance.incidents if incident.is_open
        ]
        unstarted = {incident.uuid: outcomes.unstarted(cluster, own) for incident, own in of_open}
        exhausted = {
            incident.uuid: outcomes.exhausted(cluster, incident, own, self._queue.jobs) for incident, own in of_open
        }
        facts = (at_work, jobs, silent, evidence, recovered, unstarted, exhausted)
        known = self._plans.get(as_if_resumed)
        if known is not None and known[0] is cluster and known[1] == facts:
            return known[2]
        seen = self._seen(cluster)
        plan = rounds.plan(
            seen,
            at_work=at_work,
            jobs=jobs,
            evidence=evidence,
            recovered=recovered,
            unstarted=unstarted,
            exhausted=exhausted,
            as_if_resumed=as_if_resumed,
        )
        self._plans[as_if_resumed] = (cluster, facts, plan)
        return plan

    def _reconciled(
        self, cluster: clusters.Cluster, *, spoken: Callable[[Collection[Known]], set[Known]]
    ) -> list[changes.Change]:
        ended = {
            number: outcome
            for incident in cluster.maintenance.incidents
            for number, outcome in outcomes.of_incident(
                cluster, incident, self._jobs_of(incident), self._queue.jobs
            ).items()
        }
        if self._settled != cluster.maintenance.round:
            # A round whose jobs are not in the queue yet has not failed: `resume` is about to submit them.
            ended |= {job: lifecycle.JobOutcome(None) for job in cluster.maintenance.jobs if job not in ended}
        known = {Known(incident.uuid, incident.node, incident.ctime) for incident in cluster.maintenance.incidents}
        stated = {Known("", node.uuid, node.off_confirmed) for node in cluster.nodes.values() if node.off_confirmed}
        # An answer alone ends nothing: nobody signed it, and any machine may have a dead node's address.
        reported = spoken(known | stated)
        returned = [changes.NodeOffConfirmed(each.node, 0.0) for each in sorted(reported & stated)]
        return returned + lifecycle.reconcile(
            cluster,
            observed=self._observed(),
            dead=self._dead(cluster),
            returned={each.uuid for each in reported & known},
            jobs=ended,
            now=self._clock(),
            new_uuid=lambda: str(uuid.uuid4()),
        )

    def _jobs_of(self, incident: incidents.Incident) -> list[values.Job]:
        found = [self._job_of(incident, number) for number in incident.jobs]
        return [job for job in found if job is not None]

    def _job_of(self, incident: incidents.Incident, number: int) -> values.Job | None:
        """A job of an incident, which its reason trail names: another may have its number after a restore."""
        job = self._queue.jobs.get(number)
        if job is None and incident.is_open:
            with contextlib.suppress(errors.NotFound, errors.StoreFailed):
                job = self._queue.find(number)
        if job is None or job.is_unreadable or any(incident.uuid in entry.text for entry in job.reason):
            return job
        return None

    def _verdicts(self, cluster: clusters.Cluster) -> list[changes.Change]:
        # A job may have ended while the last write was waited for: what failed by it is not taken for done.
        stated, now = self._reconciled(cluster, spoken=self._spoken.look), self._clock()
        cluster = changes.apply_all(cluster, stated, now=now)
        plan = self._plan(cluster)
        for incident in plan.completed:
            stated += lifecycle.finish(cluster, incidents.complete(cluster.incident(incident), now=now))
        for incident, reason in plan.failed:
            stated += lifecycle.finish(cluster, incidents.fail(cluster.incident(incident), reason, now=now))
        return stated

    async def _cancel_orphans(self) -> None:
        """Jobs of the round whose incident is not at work any more: what has not started never starts.

        Nor does balancing, once it is turned off or a further node is to be evacuated.
        """
        cluster = self._configuration.current
        opened = [incident for incident in cluster.maintenance.incidents if incident.is_open]
        wanted = {job for incident in opened for job in incident.jobs}
        waiting = any(
            incident.evacuates and incident.repair_status is incidents.RepairStatus.NOTED for incident in opened
        )
        if cluster.maintenance.settings.balance and not waiting:
            known = [job for job in cluster.maintenance.jobs if job in self._queue.jobs]
            wanted |= {job for job in known if not submission.has_incident(self._queue.jobs[job])}
        for job in self._queue.unfinished(cluster.maintenance.jobs):
            # While one was canceled, others may have ended.
            if job not in wanted and self._queue.unfinished([job]) and not self._queue.jobs[job].canceling:
                self._balancer.withdrawn.add(job)
                await self._cancel(job)

    async def _take_back_overtaken(self) -> None:
        """Jobs that cannot be done any more do not fail their incident: what is left of them is planned again."""
        cluster = self._configuration.current
        for number, why in overtaken.reasons(cluster, self._unfinished(), is_drained=self._queue.drained).items():
            if self._queue.unfinished([number]) and not self._queue.jobs[number].canceling:
                reason = values.Reason(submission.TAKEN_BACK, why, int(self._clock() * 1e9))
                await self._cancel(number, reason)

    async def _cancel(self, number: int, *reasons: values.Reason) -> None:
        # It may end while this waits for what is being written of it.
        with contextlib.suppress(errors.Refused, errors.NotFound):
            await self._queue.cancel(number, kill=False, reasons=reasons)

    def _unfinished(self) -> tuple[unfinished.Job, ...]:
        return tuple(submission.unfinished_moves(self._queue.jobs.values()))

    async def _submit(self, cluster: clusters.Cluster, plan: rounds.RoundPlan) -> None:
        number, now = cluster.maintenance.round + 1, self._clock()
        jobs = self._numbered(cluster, plan, now=now)
        by_incident: dict[str, list[int]] = {}
        for draft, job in zip(plan.jobs, jobs, strict=True):
            if draft.incident is not None:
                by_incident.setdefault(draft.incident, []).append(job.id)
        self._history.write(number, started=now, plan=dataclasses.asdict(plan), jobs=jobs)

        def submitted(head: clusters.Cluster) -> list[changes.Change]:
            going_on = self._queue.unfinished(head.maintenance.jobs)
            stated: list[changes.Change] = [changes.RoundStands(number, (*going_on, *(job.id for job in jobs)))]
            for incident, ids in by_incident.items():
                stated.append(changes.IncidentStands(incidents.submit(head.incident(incident), ids, now=now)))
            return stated

        await self._configuration.commit(submitted)
        LOG.info("round %s starts: %s jobs, %s refusals", number, len(jobs), len(plan.refusals))
        await self._queue.submit(jobs)
        await self._history.set_submitted(number)
        self._settled = number

    def _numbered(self, cluster: clusters.Cluster, plan: rounds.RoundPlan, *, now: float) -> tuple[values.Job, ...]:
        numbers = self._queue.reserve(len(plan.jobs))
        return submission.numbered(cluster, plan.jobs, numbers, source=submission.ROUNDS, now=now)

    def _waiting(
        self, cluster: clusters.Cluster, known: Mapping[str, possible_loss.Answer]
    ) -> dict[str, possible_loss.Answer]:
        """What is known of replicas, with what their nodes answered the failovers of the incidents.

        That answer counts until the limit, or what is known of the power of the source, changes.
        """
        numbers = sorted({number for incident in cluster.maintenance.incidents for number in incident.jobs})
        jobs = [self._queue.jobs[number] for number in numbers if number in self._queue.jobs]
        found = dict(known)
        for instance, waits in outcomes.refusals(jobs).items():
            about = cluster.instances.get(instance)
            if about is None or not (instance in known or about.moving):
                continue
            if waits["basis"] == replica_evidence.basis(cluster, about):
                verdict = possible_loss.Verdict.ASK
                found[instance] = possible_loss.Answer(verdict, reason=waits["reason"], unblock=waits["unblock"])
        return found
