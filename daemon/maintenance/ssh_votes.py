"""Asking nodes without agents which controller they follow: one run of `leader.yml` for all of them.

Their host keys prove who answers. It is done only where something shows that another controller may have led.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain.agent import votes
from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import ansible_runs, run_records, voting
from ...plugins.plugin_utils.config import hosts
from ...plugins.plugin_utils.opcodes import time_limits
from ..jobs import process, settling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...plugins.plugin_utils.cluster import cluster as clusters

LOG = logging.getLogger(__name__)
AT_ONCE = 50
"""Nodes that are asked at the same time."""
SECONDS = 60
"""How long a run may take for each turn of so many nodes."""


class SshVotes:
    """Asks nodes over SSH; the folder of the run is `folder`/leader while it lasts."""

    def __init__(self, processes: process.Processes, *, folder: Path, environment: Mapping[str, str]) -> None:
        self._processes = processes
        self._run = folder / "leader"
        self._environment = environment
        self._running = asyncio.Lock()

    async def __call__(
        self, cluster: clusters.Cluster, nodes: Sequence[clusters.Node], question: Callable[[str], votes.Question]
    ) -> voting.Poll:
        """Ask all these nodes, and return what came; one that gives no answer has none.

        Raises:
            StoreFailed: the run could not be started. OSError.
        """
        root = self._environment["ROUNDSMAN_ROOT"]
        problems = {node.uuid: hosts.problem(node, root=Path(root)) for node in nodes}
        for text in filter(None, problems.values()):
            LOG.warning("a node is not asked which controller it follows: %s", text)
        asked = {uuid: question(uuid) for uuid, text in problems.items() if not text}
        if not asked:
            return voting.Poll()
        async with self._running:
            ended, found = await self._play(self._spec(cluster, asked, root=root))
        if not ended.succeeded:
            missing = len(asked.keys() - found.keys())
            LOG.warning("%d of %d nodes did not say which controller they follow: %s", missing, len(asked), ended.text)
        return _poll(asked, found)

    async def _play(self, spec: process.Spec) -> tuple[settling.Settlement, dict[str, Any]]:
        if process.traces(self._run).is_alive:
            await self._processes.ended(self._run)
        shutil.rmtree(self._run, ignore_errors=True)
        try:
            self._processes.start(self._run, spec)
            await self._processes.ended(self._run)
            return await settling.settle(self._run), run_records.answers(self._run)
        except asyncio.CancelledError:
            # What it offers to nodes is offered no more once a person has stopped this daemon.
            process.end_all_of(self._run)
            raise
        finally:
            shutil.rmtree(self._run, ignore_errors=True)

    def _spec(self, cluster: clusters.Cluster, asked: Mapping[str, votes.Question], *, root: str) -> process.Spec:
        offered = {uuid: each for uuid, each in asked.items() if each.offer is not None}
        offer = next((votes.document(each.offer) for each in offered.values()), None)
        forks = min(AT_ONCE, len(asked))
        return process.Spec(
            kind="leader",
            playbook=ansible_runs.PLAYBOOKS / "leader.yml",
            variables={
                "leader_offer": offer or {},
                "leader_boots": {uuid: each.boot for uuid, each in offered.items()},
            },
            environment={**self._environment, "ANSIBLE_FORKS": str(forks)},
            inventory=hosts.run_inventory(cluster, list(asked), root=root),
            granted={},
            time_limit=SECONDS * (1 + time_limits.turns(len(asked), at_once=forks)),
        )


def _poll(asked: Mapping[str, votes.Question], found: Mapping[str, Any]) -> voting.Poll:
    poll = voting.Poll()
    for uuid in asked.keys() & found.keys():
        try:
            poll.answers[uuid] = votes.shown_answer(found[uuid], asked=asked[uuid])
        except errors.InvalidInput as error:
            LOG.warning("what a node (%s) answered about who leads does not count: %s", uuid, error)
    return poll
