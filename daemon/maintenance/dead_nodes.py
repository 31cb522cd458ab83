"""Silent nodes: their BMCs are read, or told by jobs to power them off; a node known to be off is an incident."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.power import power, power_record
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import peer_reports
from ...plugins.plugin_utils.cluster import changes, incidents, known_off
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.silent_nodes import dead_nodes, witnesses
from ..failures import Failures
from ..jobs import settling, submission, values
from . import booting, parts
from .power_readings import Target

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from ...plugins.module_utils.domain.agent import diagnosis
    from ..configuration import Configuration
    from ..jobs.queue import Queue
    from .agents import Agents
    from .power_readings import PowerReadings
    from .reports import Intake

LOG = logging.getLogger(__name__)
COMMANDED_AGAIN = 300.0
"""Seconds after which a BMC that was commanded off, and was not read back off, is commanded again."""
JUDGED_TOGETHER = 20
"""So many silent nodes are judged without a pause for the rest of the daemon."""


@dataclass(frozen=True)
class Read:
    """What a power command said, when by the monotonic clock, and the start of the silence in which it was given.

    `alive_at` is the node's last sign of life on record when it was submitted, or its own: after a later one this says
    nothing any more.
    """

    told: dead_nodes.Reading
    at: float
    silent_since: float
    alive_at: float


NEVER = dead_nodes.Silence(0, 0.0)
"""Of a node that has missed no question."""


class DeadNodes(parts.Part):
    """What is known of silent nodes, and the jobs about them; `step` is called after every poll and every job's end.

    `intake.deaf` is written here. `silences` gives the nodes (UUIDs) whose agents do not answer, and how many nodes
    answer; the BMCs of these, and of the suspects among the agents, are read. `isolation` says why none of them may be
    commanded, '' where they may; it is given the nodes whose BMCs read off.
    """

    name = "silent nodes"
    retried = "after the next poll or job"

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        intake: Intake,
        agents: Agents,
        silences: Callable[[], tuple[Mapping[str, dead_nodes.Silence], int]],
        *,
        readings: PowerReadings,
        isolation: Callable[[Collection[str]], Awaitable[str]],
        clock: Callable[[], float],
        on_change: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        failures: Failures | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._queue = queue
        self._intake = intake
        self._agents = agents
        self._silences = silences
        self._readings = readings
        self._isolation = isolation
        self._clock = clock
        self._monotonic = monotonic
        self._on_change = on_change
        self._kept: dict[str, dead_nodes.Silence] = {}
        self._mute = peer_reports.Mute()
        self._off: set[str] = set()
        self._reads: dict[str, Read] = {}
        self._commands = self._given_before()
        self._powered: dict[str, float] = {}
        self._asked_in: dict[str, tuple[float, float]] = {}
        self._fenced: dict[str, float] = {}
        self._incidents: dict[str, str] = {}
        self._power_jobs: dict[str, list[int]] = {}
        self.verdicts: dict[str, dead_nodes.Verdict] = {}

    async def step(self) -> None:
        """Judge every silent node, and do the next thing about each."""
        cluster = self._configuration.current
        self._read_jobs()
        silent, answering = self._silent(cluster)
        self._powered = booting.powered_on(self._queue.jobs.values(), now=self._clock()) if silent else {}
        self._forget(cluster, silent)
        self._readings.watch(self._to_read(cluster, silent))
        peers, verdicts = await self._peers(cluster, silent), {}
        for number, node in enumerate(silent):
            if number % JUDGED_TOGETHER == 0:
                await asyncio.sleep(0)
            verdicts[node] = self._judged(cluster, node, silent, answering, peers.get(node, []))
        self.verdicts = await self._unless_isolated(cluster, verdicts)
        for node, verdict in self.verdicts.items():
            # Asked each time: while a job was submitted, a person may have paused, or imported a configuration.
            is_held = self._configuration.current.maintenance.is_held
            if is_held or verdict.step not in dead_nodes.COMMANDING:
                await self._take_back_command(node)
            if is_held:
                continue
            if verdict.step is dead_nodes.Step.CONFIRM:
                await self._confirm(cluster.nodes[node])
            elif verdict.step is dead_nodes.Step.FENCE:
                await self._fence(cluster.nodes[node])
            elif verdict.step is dead_nodes.Step.FAIL_OVER:
                await self._fail_over(cluster.nodes[node])

    async def _unless_isolated(
        self, cluster: clusters.Cluster, verdicts: dict[str, dead_nodes.Verdict]
    ) -> dict[str, dead_nodes.Verdict]:
        """The verdicts as they are where this controller reaches too few nodes to command any power."""
        if all(verdict.step not in dead_nodes.COMMANDING for verdict in verdicts.values()):
            return verdicts
        off = {node for node in verdicts if self._readings.state(node) is power.State.OFF}
        isolation = await self._isolation(off)
        return {
            node: dead_nodes.unless_isolated(cluster.nodes[node], verdict, isolation=isolation)
            for node, verdict in verdicts.items()
        }

    def _given_before(self) -> dict[str, int]:
        """The jobs of the daemon before this one that command silent nodes (UUIDs), and have not ended."""
        found: dict[str, int] = {}
        for number in self._queue.unfinished(self._queue.jobs):
            job = self._queue.jobs[number]
            opcode, is_own = job.opcodes[0], any(entry.source == submission.ROUNDS for entry in job.reason)
            if is_own and opcode.kind == "power" and power.Command(opcode.params["command"]).fences:
                found[str(opcode.params["node"])] = number
        return found

    def _forget(self, cluster: clusters.Cluster, silent: Mapping[str, dead_nodes.Silence]) -> None:
        for node in self._incidents.keys() - silent.keys():
            del self._incidents[node]
            self._power_jobs.pop(node, None)
        for node in (self._reads.keys() | self._fenced.keys()) - cluster.nodes.keys():
            self._reads.pop(node, None)
            self._fenced.pop(node, None)

    async def _peers(
        self, cluster: clusters.Cluster, silent: Mapping[str, dead_nodes.Silence]
    ) -> dict[str, list[witnesses.Peer]]:
        """The DRBD peers of silent nodes, with their words of them; many of both take their time beside the loop."""
        if not silent:
            self._intake.deaf, self._mute = {}, peer_reports.Mute()
            return {}
        alive = {uuid for uuid in self.alive() if clusters.reachable(cluster, cluster.nodes[uuid])}
        tracks, moving = dict(self._intake.tracks), self._queue.instances_at_work()
        # One that signs nothing may live with a wrong clock: it is a peer, and has no word.
        current = {uuid for uuid in alive if uuid not in silent and self._intake.is_current(uuid)}
        mute = self._mute.among(silent, alive, current, now=self._monotonic())
        peers = await asyncio.to_thread(
            peer_reports.words, cluster, tracks, silent, answering=alive, current=current, moving=moving, mute=mute
        )
        said = {node: witnesses.judge(found) for node, found in peers.items()}
        deaf = witnesses.Finding.DEAF
        self._intake.deaf = {node: told.text for node, told in said.items() if told.finding is deaf}
        return peers

    def observed(self, cluster: clusters.Cluster) -> Mapping[str, diagnosis.Diagnosis]:
        """The diagnoses that stand for those of dead nodes."""
        silent, _ = self._silent(cluster)
        return dead_nodes.observed(cluster, silent)

    def alive(self) -> set[str]:
        """The nodes (UUIDs) at which anything answered the last question; none while the fault may be here."""
        cluster = self._configuration.current
        self._end_silences()
        silences, answering = self._silences()
        known = (uuid for uuid in self._agents.answering() if answering and uuid in cluster.nodes)
        missing = {uuid for uuid, silence in silences.items() if silence.misses}
        return {uuid for uuid in known if uuid not in missing and not known_off.is_off(cluster.nodes[uuid])}

    def _end_silences(self) -> None:
        """Forget what is known of nodes that are not recorded as off any more: it is of the time before.

        The record as it is now says that: others are asked about that are older, or were never kept.
        """
        off = {node.uuid for node in self._configuration.current.nodes.values() if known_off.is_off(node)}
        for node in self._off - off:
            self._agents.forget_node(node)
            self._kept.pop(node, None)
            self._reads.pop(node, None)
        self._off = off

    def _silent(self, cluster: clusters.Cluster) -> tuple[dict[str, dead_nodes.Silence], int]:
        """The silent nodes; one that is off by a BMC or a person is not polled any more, and is silent all the same."""
        self._end_silences()
        (silences, answering), nodes = self._silences(), cluster.nodes
        kept = {**self._dead_before(cluster), **self._kept}
        off = {node: told for node, told in kept.items() if node in nodes and known_off.is_off(nodes[node])}
        least = cluster.maintenance.settings.dead_after
        stated = {
            uuid: dead_nodes.Silence(least, node.off_confirmed)
            for uuid, node in nodes.items()
            if known_off.is_stated_off(node) and kept.get(uuid, silences.get(uuid, NEVER)).questions < least
        }
        self._kept = {
            node: told
            for node, told in {**off, **silences, **stated}.items()
            if node in nodes and not nodes[node].offline
        }
        return dict(self._kept), answering

    @staticmethod
    def _dead_before(cluster: clusters.Cluster) -> dict[str, dead_nodes.Silence]:
        """Nodes that an earlier daemon noted as dead and whose off is not known: they are commanded off again."""
        least = cluster.maintenance.settings.dead_after
        return {
            incident.node: dead_nodes.Silence(least, incident.ctime)
            for incident in cluster.maintenance.incidents
            if incident.is_open and not incident.returned_at and incident.is_of_a_dead_node
            if incident.node in cluster.nodes and not known_off.is_known_off(cluster.nodes[incident.node])
        }

    def is_left_alone(self, node: str) -> bool:
        """Whether the power of a node (UUID) is not to be read: it is known to be off, or a job commands it now."""
        known = self._configuration.current.nodes.get(node)
        job = self._queue.jobs.get(self._commands.get(node, 0))
        is_commanded = job is not None and job.opcodes[0].status is values.Status.RUNNING
        return is_commanded or known is None or known_off.is_known_off(known)

    def _to_read(self, cluster: clusters.Cluster, silent: Mapping[str, dead_nodes.Silence]) -> dict[str, Target]:
        """The suspects and silent nodes whose BMCs may be read; none while nothing is to be done."""
        maintenance = cluster.maintenance
        if maintenance.is_held or not maintenance.settings.dead_after:
            return {}
        found = {}
        for suspect in sorted({*silent, *self._agents.suspects} & cluster.nodes.keys()):
            node = cluster.nodes[suspect]
            driver = clusters.parameter(cluster, node, "oob_program")
            if driver is not None and suspect != cluster.cluster.master_node:
                since = silent[suspect].since if suspect in silent else 0.0
                found[suspect] = Target(node.name, driver, since, node.alive_at)
        return found

    def _judged(
        self,
        cluster: clusters.Cluster,
        node: str,
        silent: Mapping[str, dead_nodes.Silence],
        answering: int,
        peers: Sequence[witnesses.Peer],
    ) -> dead_nodes.Verdict:
        read, known = self._reads.get(node), cluster.nodes[node]
        if read is not None and (read.silent_since != silent[node].since or self._is_old(read, known)):
            read = None
        told = read.told if read is not None else None
        if told is None and (state := self._readings.state(node)) is not None:
            told = dead_nodes.Reading(state)
        return dead_nodes.judge(
            cluster,
            known,
            silence=silent[node],
            silences=silent,
            answering=answering,
            reads=told,
            peers=peers,
            booting=self._booting(known, silent[node]),
        )

    def _booting(self, node: clusters.Node, silence: dead_nodes.Silence) -> str:
        """Why a silent node may be booting, by its record or by a job; '' where it may not."""
        dates = (node.powered_on_at, self._powered.get(node.uuid, 0.0))
        return next(filter(None, (booting.reason(began, silence, now=self._clock()) for began in dates)), "")

    def _is_old(self, read: Read, node: clusters.Node) -> bool:
        if node.alive_at != read.alive_at:
            return True
        stands = read.told.is_fenced and not known_off.has_lived(node)
        return not stands and self._monotonic() - read.at > COMMANDED_AGAIN

    async def _confirm(self, node: clusters.Node) -> None:
        if node.uuid not in self._commands:
            # Noted first, as for a fence: once it is recorded as off nobody asks it any more.
            await self._note(node, is_off=False)
        await self._command(node, power.Command.CONFIRM_OFF, f"{node.name} does not answer and reads off: is it?")

    async def _fence(self, node: clusters.Node) -> None:
        now = self._monotonic()
        if node.uuid in self._commands or now - self._fenced.get(node.uuid, -COMMANDED_AGAIN) < COMMANDED_AGAIN:
            return
        self._fenced[node.uuid] = now
        # Noted first: should this process end now, the node that is off is known to be dead.
        await self._note(node, is_off=False)
        await self._command(node, power.Command.FENCE, f"{node.name} does not answer: it is fenced")

    async def _take_back_command(self, node: str) -> None:
        """Cancel a command that has not begun, to the BMC of a node (UUID) that is not to get any now."""
        job = self._queue.jobs.get(self._commands.get(node, 0))
        if job is not None and job.status in {values.Status.QUEUED, values.Status.WAITING}:
            # It may begin or end while this waits for what is being written of it.
            with contextlib.suppress(errors.Refused, errors.NotFound):
                if (await self._queue.cancel(job.id, kill=False)).is_final:
                    self._fenced.pop(node, None)

    async def _command(self, node: clusters.Node, command: power.Command, text: str) -> None:
        """Have a job command the power of a silent node, one at a time for each; none if it has answered meanwhile."""
        silence = self._kept.get(node.uuid)
        if node.uuid not in self._commands and silence is not None:
            self._asked_in[node.uuid] = (silence.since, node.alive_at)
            opcode = values.Opcode("power", {"node": node.uuid, "command": command.value}, submission.URGENT)
            await self._submit(node, opcode, text)

    async def _fail_over(self, node: clusters.Node) -> None:
        before = self._configuration.current
        await self._note(node, is_off=True)
        if self._configuration.current is not before:
            self._on_change()

    async def _note(self, judged: clusters.Node, *, is_off: bool) -> None:
        """Note the incident of a node as it was judged, and that it is off where that is not on record yet.

        A sign of life since then ends what it was judged by; only a new confirmation gives the off a new date.
        """
        node, now = judged.uuid, self._clock()

        def noted(cluster: clusters.Cluster) -> list[changes.Change]:
            current = cluster.nodes.get(node)
            if current is None or (is_off and current.alive_at != judged.alive_at):
                return []
            report = dead_nodes.report(current)
            known = (entry for entry in cluster.maintenance.incidents if entry.node == node)
            stated: list[changes.Change] = []
            if not any(incidents.holds(entry, report) for entry in known):
                stands = incidents.note(report, node=node, uuid=self._incident_of(cluster, current), now=now)
                listed = dataclasses.replace(stands, power_jobs=tuple(self._power_jobs.get(node, ())))
                stated.append(changes.IncidentStands(listed))
                LOG.warning("node %s is dead: %s", current.name, self.verdicts[node].reason)
            if is_off and current.powered and clusters.parameter(cluster, current, "oob_program") is not None:
                by_bmc = not known_off.is_stated_off(current)
                stated.append(changes.NodePowered(node, powered=False, commanded=by_bmc))
            return stated

        await self._configuration.commit(noted)

    def _incident_of(self, cluster: clusters.Cluster, node: clusters.Node) -> str:
        """The UUID of the incident that a silent node has, or will have when it is known to be off or is fenced."""
        report = dead_nodes.report(node)
        found = [
            incident
            for incident in cluster.maintenance.incidents
            if incident.node == node.uuid and incidents.holds(incident, report)
        ]
        return found[0].uuid if found else self._incidents.setdefault(node.uuid, str(uuid.uuid4()))

    async def _list(self, incident: str, node: str, job: int) -> None:
        """List a job in its incident: now, or when the incident is noted."""
        self._power_jobs[node] = [*self._power_jobs.get(node, ()), job][-incidents.MOST_POWER_JOBS :]

        def listed(cluster: clusters.Cluster) -> list[changes.Change]:
            known = [entry for entry in cluster.maintenance.incidents if entry.uuid == incident]
            return [
                changes.IncidentStands(incidents.add_power_jobs(entry, [job], now=self._clock())) for entry in known
            ]

        await self._configuration.commit(listed)

    async def _submit(self, node: clusters.Node, opcode: values.Opcode, text: str) -> None:
        """Submit the job that commands a node's power; its trail names the incident, which lists it."""
        now = self._clock()
        incident = self._incident_of(self._configuration.current, node)
        job = values.Job(
            id=0,
            opcodes=(opcode,),
            reason=tuple(values.Reason(submission.ROUNDS, told, int(now * 1e9)) for told in (text, incident)),
            received=now,
            names={node.uuid: node.name},
        )
        (submitted,) = await self._queue.submit([job])
        # It is in the queue, whether the incident can be written or not.
        self._commands[node.uuid] = submitted.id
        await self._list(incident, node.uuid, submitted.id)

    def _read_jobs(self) -> None:
        for node, number in list(self._commands.items()):
            job = self._queue.jobs.get(number)
            if job is not None and not job.is_final:
                continue
            del self._commands[node]
            if job is not None and job.status is values.Status.CANCELED and not job.opcodes[0].started:
                # It was taken back before it began: nothing was read, and nothing commanded.
                self._asked_in.pop(node, None)
                continue
            outcome = self._outcome(job) if job is not None else None
            known = self._configuration.current.nodes.get(node)
            silent_since, alive_at = self._asked_in.pop(node, (-1.0, -1.0))
            if known is not None and outcome is not None and power_record.lived(outcome):
                # It recorded this sign of life itself.
                alive_at = known.alive_at
            told = _told(job, outcome)
            if outcome is not None:
                self._readings.commanded(node, outcome)
            self._reads[node] = Read(told, self._monotonic(), silent_since, alive_at)

    def _outcome(self, job: values.Job) -> power.Outcome | None:
        """What a job's play left of the power; None if it left nothing."""
        result = settling.value(self._queue.folder_of(job) / job.opcodes[0].run)
        return power.parse_outcome(result[0]) if isinstance(result, list) and len(result) == 1 else None


def _told(job: values.Job | None, outcome: power.Outcome | None) -> dead_nodes.Reading:
    """The power that a job has read; of a job that left nothing it is unknown, as of a BMC that does not answer."""
    if outcome is not None:
        return dead_nodes.reading(outcome)
    is_commanded = job is not None and power.Command(job.opcodes[0].params["command"]).fences
    return dead_nodes.Reading(power.State.UNKNOWN, is_commanded=is_commanded)
