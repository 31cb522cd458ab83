"""Long questions: each agent answers as soon as something changes; the polls beside them are the heartbeat.

What a long question brings goes the way of every report. That it fails is no sign of anything: an agent may restart,
and the polls and the questions to suspects tell whether a node answers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.agent import collected, reports
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import http_reads
from ...plugins.plugin_utils.cluster import cluster as clusters
from ..failures import Failures
from . import agents

if TYPE_CHECKING:
    from pathlib import Path

    from ..configuration import Configuration

LOG = logging.getLogger(__name__)
PART = "early answers of agents"
WAIT_SECONDS = 50.0
"""How long an agent waits for a change before it answers all the same."""
LEAST, MOST = 1.0, 30.0
"""Seconds from one question to an agent to the next: the first while there is seldom news, up to the second of one that
has news again and again, for all that it says is read, judged and made durable."""
CALM = 20.0
"""For how many seconds without news the pause after the next ones grows by a second less."""
RETRY = 5.0
"""Seconds after which an agent is asked again that did not answer, or of which no report is known yet."""
UNFIT = 60.0
"""The same for one that does not wait, as those of earlier versions, or whose answer cannot be trusted."""
AT_ONCE = 8
"""Answers that are looked at at the same time: a thousand at once keep nobody else from the event loop."""


class EarlyAnswers:
    """One long question to each agent that answers, at connections of their own."""

    def __init__(
        self, configuration: Configuration, known: agents.Agents, *, key: Path, failures: Failures | None = None
    ) -> None:
        self._failures = failures or Failures()
        self._configuration = configuration
        self._agents = known
        self._key = key
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pauses: dict[str, float] = {}

    async def run(self) -> None:
        """Work for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                for uuid in list(self._configuration.current.nodes):
                    if uuid not in self._tasks and self._node(uuid) is not None:
                        self._tasks[uuid] = group.create_task(self._listen(uuid))
                await asyncio.sleep(RETRY)

    def _node(self, uuid: str) -> clusters.Node | None:
        """A node that may be asked, as it is on record now."""
        cluster = self._configuration.current
        node, settings = cluster.nodes.get(uuid), cluster.maintenance.settings
        is_asked = settings.agent_port and settings.diagnose_interval
        return node if is_asked and node is not None and clusters.reachable(cluster, node) else None

    async def _listen(self, uuid: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (node := self._node(uuid)) is not None:
                began = loop.time()
                await asyncio.sleep(max(0.0, began + await self._ask(node) - loop.time()))
        finally:
            del self._tasks[uuid]
            self._pauses.pop(uuid, None)

    async def _ask(self, node: clusters.Node) -> float:
        """Ask once, and take in what is new; returns the seconds from this question to the next."""
        known = self._agents.last_body(node.uuid)
        if known is None or node.uuid in self._agents.suspects:
            return RETRY
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with self._turns:
            digest = await asyncio.to_thread(collected.content_digest, known)
        try:
            status, body = await http_reads.get(
                node.primary_ip or node.name,
                self._configuration.current.maintenance.settings.agent_port,
                collected.waiting_path(collected.DIAGNOSE, known=digest, seconds=WAIT_SECONDS),
                limit=reports.LIMIT,
                connect_seconds=agents.CONNECT_SECONDS,
                seconds=WAIT_SECONDS + agents.ANSWER_SECONDS,
            )
        except (OSError, ValueError, OverflowError, errors.Failed) as error:
            LOG.debug("%s gives no early answer: %s", node.name, error)
            return loop.time() - began + RETRY
        if status != agents.OK or not digest:
            return UNFIT
        async with self._turns:
            is_news = await asyncio.to_thread(self._is_news, node.uuid, body, digest)
        waited = loop.time() - began
        if is_news:
            return await self._take(node, body, waited=waited)
        # One that answers at once and says the same does not wait.
        if is_news is None or waited < WAIT_SECONDS / 2:
            return UNFIT
        self._pauses.pop(node.uuid, None)
        return LEAST

    async def _take(self, node: clusters.Node, body: bytes, *, waited: float) -> float:
        try:
            await self._agents.take(node, body)
        except (errors.RoundsmanError, OSError) as error:
            self._failures.failed(PART, error, remedy="see the error; it is retried with the next answer")
            return RETRY
        self._failures.recovered(PART)
        pause = self._pauses.get(node.uuid, LEAST)
        self._pauses[node.uuid] = min(MOST, max(LEAST, 2 * pause - waited / CALM))
        return pause

    def _is_news(self, uuid: str, body: bytes, known: str) -> bool | None:
        """Whether a node's answer says anything else than what is known; None if it is not that node's."""
        if collected.content_digest(body) == known:
            return False
        accepts = self._configuration.current.maintenance.settings.accept_cluster_key
        try:
            said = reports.read(body, cluster_key=self._key.read_bytes(), accept_cluster_key=accepts)
        except (errors.ReportRejected, OSError) as error:
            LOG.debug("the early answer of %s does not count: %s", uuid, error)
            return None
        return True if said.node == uuid else None
