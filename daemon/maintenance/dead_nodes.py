"""Silent nodes: their BMCs are asked, or told to power them off, by jobs; a node known to be off is an incident."""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import changes, dead_nodes, incidents, known_off, power, power_record
from ...plugins.module_utils.domain import cluster as clusters
from ..failures import Failures
from ..jobs import settling, submission, values
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...plugins.module_utils.domain import diagnosis
    from ..configuration import Configuration
    from ..jobs.queue import Queue

LOG = logging.getLogger(__name__)
ASKED_AGAIN = 300.0
"""Seconds after which a BMC that did not say off is asked again."""
PRIORITY = -10


@dataclass(frozen=True)
class Read:
    """What a power command said, when by the monotonic clock, and the start of the silence in which it was asked.

    `alive_at` is the node's last sign of life on record when it was submitted, or its own: after a later one this says
    nothing any more.
    """

    told: dead_nodes.Reading
    at: float
    silent_since: float
    alive_at: float


class DeadNodes(parts.Part):
    """What is known of silent nodes, and the jobs about them; `step` is called after every poll and every job's end.

    `silences` gives the nodes (UUIDs) whose agents do not answer, and how many nodes answered the last poll.
    """

    name = "silent nodes"
    retried = "after the next poll or job"

    def __init__(
        self,
        configuration: Configuration,
        queue: Queue,
        silences: Callable[[], tuple[Mapping[str, dead_nodes.Silence], int]],
        *,
        clock: Callable[[], float],
        on_change: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        failures: Failures | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._queue = queue
        self._silences = silences
        self._clock = clock
        self._monotonic = monotonic
        self._on_change = on_change
        self._kept: dict[str, dead_nodes.Silence] = {}
        self._reads: dict[str, Read] = {}
        self._commands: dict[str, int] = {}
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
        for node in self._incidents.keys() - silent.keys():
            del self._incidents[node]
            self._power_jobs.pop(node, None)
        for node in (self._reads.keys() | self._fenced.keys()) - cluster.nodes.keys():
            self._reads.pop(node, None)
            self._fenced.pop(node, None)
        self.verdicts = {node: self._judged(cluster, node, silent, answering) for node in silent}
        for node, verdict in self.verdicts.items():
            # Asked each time: while a job was submitted, a person may have paused, or imported a configuration.
            maintenance = self._configuration.current.maintenance
            if maintenance.epo is not None or maintenance.settings.paused:
                return
            if verdict.step is dead_nodes.Step.ASK:
                await self._ask(cluster.nodes[node])
            elif verdict.step is dead_nodes.Step.CONFIRM:
                await self._confirm(cluster.nodes[node])
            elif verdict.step is dead_nodes.Step.FENCE:
                await self._fence(cluster.nodes[node])
            elif verdict.step is dead_nodes.Step.FAIL_OVER:
                await self._fail_over(cluster.nodes[node])

    def observed(self, cluster: clusters.Cluster) -> Mapping[str, diagnosis.Diagnosis]:
        """The diagnoses that stand for those of dead nodes."""
        silent, _ = self._silent(cluster)
        return dead_nodes.observed(cluster, silent)

    def alive(self) -> set[str]:
        """The nodes (UUIDs) that answered the last poll; none before the first one."""
        silences, answering = self._silences()
        nodes = self._configuration.current.nodes
        if not answering:
            return set()
        return {uuid for uuid, node in nodes.items() if uuid not in silences and not known_off.is_off(node)}

    def _silent(self, cluster: clusters.Cluster) -> tuple[dict[str, dead_nodes.Silence], int]:
        """The silent nodes; one that lost its power meanwhile is not polled any more, and is silent all the same."""
        silences, answering = self._silences()
        off = {node: told for node, told in self._kept.items() if node in cluster.nodes and _is_off(cluster, node)}
        self._kept = {
            node: told
            for node, told in {**off, **silences}.items()
            if node in cluster.nodes and not cluster.nodes[node].offline
        }
        return dict(self._kept), answering

    def _judged(
        self, cluster: clusters.Cluster, node: str, silent: Mapping[str, dead_nodes.Silence], answering: int
    ) -> dead_nodes.Verdict:
        read, known = self._reads.get(node), cluster.nodes[node]
        if read is not None and (read.silent_since != silent[node].since or self._is_old(read, known)):
            read = None
        return dead_nodes.judge(
            cluster,
            known,
            silence=silent[node],
            silences=silent,
            answering=answering,
            reads=read.told if read is not None else None,
        )

    def _is_old(self, read: Read, node: clusters.Node) -> bool:
        if node.alive_at != read.alive_at:
            return True
        says_off = read.told.is_fenced or (read.told.state is power.State.OFF and not read.told.is_commanded)
        stands = says_off and not known_off.has_lived(node)
        return not stands and self._monotonic() - read.at > ASKED_AGAIN

    async def _ask(self, node: clusters.Node) -> None:
        await self._command(node, power.Command.STATUS, f"{node.name} does not answer: is it off?")

    async def _confirm(self, node: clusters.Node) -> None:
        await self._command(node, power.Command.CONFIRM_OFF, f"{node.name} does not answer and reads off: is it?")

    async def _fence(self, node: clusters.Node) -> None:
        now = self._monotonic()
        if node.uuid in self._commands or now - self._fenced.get(node.uuid, -ASKED_AGAIN) < ASKED_AGAIN:
            return
        self._fenced[node.uuid] = now
        # Noted first: should this process end now, the node that is off is known to be dead.
        await self._note(node, is_off=False)
        await self._command(node, power.Command.FENCE, f"{node.name} does not answer: it is fenced")

    async def _command(self, node: clusters.Node, command: power.Command, text: str) -> None:
        """Have a job command the power of a silent node, one at a time for each."""
        if node.uuid not in self._commands:
            self._asked_in[node.uuid] = (self._kept[node.uuid].since, node.alive_at)
            opcode = values.Opcode("power", {"node": node.uuid, "command": command.value}, PRIORITY)
            self._commands[node.uuid] = await self._submit(node, opcode, text)

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
                stated.append(changes.NodePowered(node, powered=False))
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

    async def _submit(self, node: clusters.Node, opcode: values.Opcode, text: str) -> int:
        """Submit a job about a node's power; its trail names the incident, which lists it."""
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
        await self._list(incident, node.uuid, submitted.id)
        return submitted.id

    def _read_jobs(self) -> None:
        for node, number in list(self._commands.items()):
            job = self._queue.jobs.get(number)
            if job is not None and not job.is_final:
                continue
            del self._commands[node]
            outcome = self._outcome(job) if job is not None else None
            known = self._configuration.current.nodes.get(node)
            silent_since, alive_at = self._asked_in.pop(node, (-1.0, -1.0))
            if known is not None and outcome is not None and power_record.lived(outcome):
                # It recorded this sign of life itself.
                alive_at = known.alive_at
            told = _told(job, outcome)
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


def _is_off(cluster: clusters.Cluster, node: str) -> bool:
    return known_off.is_off(cluster.nodes[node])
