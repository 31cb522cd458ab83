"""Suspects: nodes that missed a question, or that a peer has lost, are asked at once and then every few seconds.

They are asked beside the polls, so that a slow poll does not delay them. While any is asked, so is a node that is known
to answer: where that one does not answer either, the fault may be on the controller's side, and nothing is counted.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import replica_evidence
from ...plugins.plugin_utils.cluster import cluster as clusters
from ..failures import Failures
from . import parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...plugins.module_utils.domain.disks import replicas
    from ...plugins.plugin_utils.silent_nodes import dead_nodes
    from ..configuration import Configuration
    from .agents import Agents

LOG = logging.getLogger(__name__)
PART = "questions to suspects"
EVERY = 5.0
"""Seconds from one question to a suspect to the next."""
AT_ONCE = 100
"""Suspects that are asked at the same time."""
OTHERS = 10
"""Nodes that are asked, too, where the first that is known to answer does not."""

Loss = tuple[str, str, str]
"""A node that reports that it lost its peer, the peer, and the instance whose disks they share (UUIDs)."""


class Suspects(parts.Part):
    """Asks suspects until they answer; `wake` after each missed question and each report.

    `on_change` is called when a node has become a suspect, is none any more, or has missed questions.
    """

    name = "suspects"
    retried = "after the next poll or report"

    def __init__(
        self,
        configuration: Configuration,
        agents: Agents,
        *,
        tracks: Callable[[], Mapping[str, replicas.NodeTrack]],
        on_change: Callable[[], None],
        failures: Failures | None = None,
    ) -> None:
        super().__init__(failures or Failures())
        self._configuration = configuration
        self._agents = agents
        self._tracks = tracks
        self._on_change = on_change
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._group: asyncio.TaskGroup | None = None
        self._judged: dict[str, replicas.NodeTrack] = {}
        self._lost: set[Loss] = set()
        self._greeting: set[str] = set()
        self._is_controlling = False
        self._is_heard = True

    async def run(self) -> None:
        """Work for ever."""
        try:
            async with asyncio.TaskGroup() as self._group:
                await super().run()
        finally:
            self._agents.suspects.clear()
            self._greeting.clear()

    def silences(self) -> tuple[Mapping[str, dead_nodes.Silence], int]:
        """As `Agents.silences`; nothing answers while the nodes that are known to answer do not."""
        silent, answering = self._agents.silences()
        return silent, answering if self._is_heard else 0

    async def step(self) -> None:
        """Begin to ask each new suspect."""
        lost = self._new_losses()
        settings = self._configuration.current.maintenance.settings
        if self._group is None or not (settings.dead_after and settings.agent_port):
            return
        silent, _ = self._agents.silences()
        found = {uuid for uuid in {*silent, *lost} - self._agents.suspects if self._suspect(uuid) is not None}
        self._agents.suspects |= found
        for uuid in sorted(self._agents.suspects - self._greeting) if self._agents.asks_ssh else ():
            self._greeting.add(uuid)
            self._group.create_task(self._greet(uuid))
        if not found:
            return
        for uuid in sorted(found):
            self._group.create_task(self._pursue(uuid))
        if not self._is_controlling:
            self._is_controlling = True
            self._group.create_task(self._control())
        self._on_change()

    def _suspect(self, uuid: str) -> clusters.Node | None:
        """A node that may be asked, as it is on record now."""
        cluster = self._configuration.current
        node, settings = cluster.nodes.get(uuid), cluster.maintenance.settings
        is_asked = settings.dead_after and settings.agent_port and settings.diagnose_interval
        return node if is_asked and node is not None and clusters.reachable(cluster, node) else None

    async def _pursue(self, uuid: str) -> None:
        """Ask a suspect until it answers, or is not to be asked any more."""
        loop = asyncio.get_running_loop()
        try:
            while (node := self._suspect(uuid)) is not None:
                began = loop.time()
                async with self._turns:
                    answers = await self._answers(node)
                seen, least = self._agents.seen.get(uuid), self._configuration.current.maintenance.settings.dead_after
                if answers and seen is not None and not seen.is_silent:
                    LOG.info("%s answers", node.name)
                    return
                if seen is not None and seen.questions in {1, least}:
                    self._on_change()
                await asyncio.sleep(max(0.0, began + EVERY - loop.time()))
        finally:
            self._agents.suspects.discard(uuid)
            self._on_change()

    async def _greet(self, uuid: str) -> None:
        """Ask the SSH server of a suspect beside its agent: where packets are dropped each question takes 10 s."""
        loop = asyncio.get_running_loop()
        try:
            while self._agents.asks_ssh and uuid in self._agents.suspects and (node := self._suspect(uuid)) is not None:
                began = loop.time()
                await self._agents.ask_ssh(node)
                self._on_change()
                await asyncio.sleep(max(0.0, began + EVERY - loop.time()))
        finally:
            self._greeting.discard(uuid)
            self._agents.forget_ssh(uuid)

    async def _control(self) -> None:
        """Ask a node that is known to answer, as long as there are suspects."""
        loop = asyncio.get_running_loop()
        while self._agents.suspects:
            began = loop.time()
            self._is_heard = await self._hears()
            if not self._is_heard:
                self._agents.count_anew()
            self._on_change()
            await asyncio.sleep(max(0.0, began + EVERY - loop.time()))
        self._is_controlling, self._is_heard = False, True

    async def _hears(self) -> bool:
        """Whether any of the nodes answers that did so last; more are asked where the first does not."""
        known = self._known_to_answer()
        if known and await self._answers(known[0]):
            return True
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._answers(node)) for node in known[1 : 1 + OTHERS]]
        return any(task.result() for task in asked)

    async def _answers(self, node: clusters.Node) -> bool:
        try:
            answers = await self._agents.answers(node)
        except (errors.RoundsmanError, OSError, ValueError) as error:
            # Its answer could not be kept: it is asked again.
            self._failures.failed(PART, error, remedy="see the error; it is retried with the next question")
            return False
        self._failures.recovered(PART)
        return answers

    def _known_to_answer(self) -> list[clusters.Node]:
        """The nodes that answered when they were last asked, the latest first; the master, which is here, last."""
        cluster, seen = self._configuration.current, self._agents.seen
        answered = {uuid for uuid, how in seen.items() if not how.misses}
        lost = {uuid for uuid in self._agents.suspects & answered if not seen[uuid].unsigned}
        nodes = [cluster.nodes[uuid] for uuid in sorted((answered - lost) & cluster.nodes.keys())]
        known = [node for node in nodes if clusters.reachable(cluster, node)]
        return sorted(known, key=lambda node: (node.uuid == cluster.cluster.master_node, -seen[node.uuid].answered))

    def _new_losses(self) -> set[str]:
        """The nodes (UUIDs) that a peer has lost, by a report that is new, and had not lost by the one before."""
        tracks = dict(self._tracks())
        heard = {uuid for uuid, track in tracks.items() if self._judged.get(uuid) is not track}
        if not heard:
            return set()
        names = {uuid: _lost_resources(tracks[uuid]) for uuid in heard}
        lost = {
            (reporter, peer, instance.uuid)
            for instance in (self._configuration.current.instances.values() if any(names.values()) else ())
            for reporter, peer in _pairs(instance)
            if names.get(reporter) and not names[reporter].isdisjoint(replica_evidence.resources(instance))
        }
        new = {peer for _, peer, _ in lost - self._lost}
        self._lost = {loss for loss in self._lost if loss[0] not in heard} | lost
        self._judged = tracks
        return new


def _pairs(instance: clusters.Instance) -> list[tuple[str, str]]:
    """Each node of an instance (UUIDs) with each peer that it may lose."""
    primary = instance.primary_node
    return [pair for other in instance.secondary_nodes for pair in ((primary, other), (other, primary))]


def _lost_resources(track: replicas.NodeTrack) -> set[str]:
    """The resources whose peer is not connected, as a node reports."""
    facts = (volume.fact for volume in track.volumes.values())
    return {fact.resource for fact in facts if fact is not None and not fact.is_connected}
