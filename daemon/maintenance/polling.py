"""Asking the nodes at an interval, their agents or by `diagnose.yml`; the reports arrive through the spool."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import errors
from ...plugins.plugin_utils import ansible_runs
from ...plugins.plugin_utils.cluster import cluster as clusters
from ...plugins.plugin_utils.config import hosts
from ..failures import Failures
from ..jobs import process, settling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..configuration import Configuration
    from .agents import Agents

PART = "poll of the nodes"
_LIMIT_BASE, _LIMIT_PER_NODE, _LONGEST_LIMIT = 60, 15, 600
"""Seconds a run of `diagnose.yml` may take: five nodes at once, each of which has 60 s for its diagnose command."""


class Poll:
    """Asks all reachable nodes, again and again; `problem` says how the last run of `diagnose.yml` failed.

    `has_polled` is set once the first poll has ended.
    """

    def __init__(
        self,
        configuration: Configuration,
        processes: process.Processes,
        agents: Agents,
        *,
        folder: Path,
        environment: Mapping[str, str],
        failures: Failures | None = None,
    ) -> None:
        self._configuration = configuration
        self._processes = processes
        self._agents = agents
        self._folder = folder
        self._environment = environment
        self._failures = Failures() if failures is None else failures
        self.problem = ""
        self.has_polled = asyncio.Event()

    async def run(self) -> None:
        """Poll for ever at `diagnose_interval`; an interval of 0 turns polling off."""
        loop = asyncio.get_running_loop()
        while True:
            settings = self._configuration.current.maintenance.settings
            interval, began = settings.diagnose_interval, loop.time()
            if interval:
                try:
                    await self.once()
                except (errors.RoundsmanError, OSError, ValueError) as error:
                    self._failed(str(error))
            self.has_polled.set()
            # Agents are asked as often as they look; a run of Ansible is given its time.
            spent = loop.time() - began if interval and settings.agent_port else 0.0
            await asyncio.sleep(max(0.0, (interval or 60) - spent))

    async def once(self) -> None:
        """Ask all reachable nodes once."""
        cluster = self._configuration.current
        if cluster.maintenance.settings.agent_port:
            await self._agents.ask()
            self._failed("")
            return
        self._agents.forget()
        nodes, refused = self._usable([node for node in cluster.nodes.values() if clusters.reachable(cluster, node)])
        run = self._folder / "poll"
        if process.traces(run).is_alive:
            await self._processes.ended(run)
        shutil.rmtree(run, ignore_errors=True)
        spec = process.Spec(
            kind="diagnose",
            playbook=ansible_runs.PLAYBOOKS / "diagnose.yml",
            variables={"diagnose_command": cluster.maintenance.settings.diagnose_command},
            environment=self._environment,
            inventory=hosts.run_inventory(cluster, nodes, root=self._environment["ROUNDSMAN_ROOT"]),
            granted={},
            time_limit=min(_LONGEST_LIMIT, _LIMIT_BASE + _LIMIT_PER_NODE * len(nodes)),
        )
        self._processes.start(run, spec)
        await self._processes.ended(run)
        ended = await settling.settle(run)
        self._failed("; ".join([*refused, *([] if ended.succeeded else [ended.text])]))

    def _failed(self, text: str) -> None:
        """Keep why the last poll failed, or '' for one that worked."""
        self.problem = text
        if text:
            self._failures.failed(PART, text, remedy="see the error; it is retried with the next poll")
        else:
            self._failures.recovered(PART)

    def _usable(self, nodes: Sequence[clusters.Node]) -> tuple[list[str], list[str]]:
        """The nodes (UUIDs) whose host variables can be used, and why those of others cannot: these are not polled."""
        root = Path(self._environment["ROUNDSMAN_ROOT"])
        problems = {node.uuid: hosts.problem(node, root=root) for node in nodes}
        return [uuid for uuid, text in problems.items() if not text], [text for text in problems.values() if text]
