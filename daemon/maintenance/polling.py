"""Asking the nodes: the daemon runs `diagnose.yml` at an interval; the reports arrive through the spool."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain import cluster as clusters
from ...plugins.module_utils.domain import errors
from ...plugins.plugin_utils import ansible_runs
from ...plugins.plugin_utils.config import hosts
from ..jobs import process, settling

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ..configuration import Configuration

LOG = logging.getLogger(__name__)


class Poll:
    """One run of `diagnose.yml` over all reachable nodes after the other; `problem` says how the last one failed."""

    def __init__(
        self,
        configuration: Configuration,
        processes: process.Processes,
        *,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._configuration = configuration
        self._processes = processes
        self._folder = folder
        self._environment = environment
        self.problem = ""

    async def run(self) -> None:
        """Poll for ever at `diagnose_interval`; an interval of 0 turns polling off."""
        while True:
            interval = self._configuration.current.maintenance.settings.diagnose_interval
            if interval:
                try:
                    await self.once()
                except (errors.RoundsmanError, OSError) as error:
                    self.problem = str(error)
                    LOG.exception("the nodes could not be asked")
            await asyncio.sleep(interval or 60)

    async def once(self) -> None:
        """Ask all reachable nodes once."""
        cluster = self._configuration.current
        nodes = [one.uuid for one in cluster.nodes.values() if clusters.reachable(cluster, one)]
        run = self._folder / "poll"
        if process.standing(run) is process.Standing.RUNNING:
            await self._processes.ended(run)
        shutil.rmtree(run, ignore_errors=True)
        spec = process.Spec(
            playbook=ansible_runs.PLAYBOOKS / "diagnose.yml",
            variables={"diagnose_command": cluster.maintenance.settings.diagnose_command},
            environment=self._environment,
            inventory=hosts.run_inventory(cluster, nodes, root=self._environment["ROUNDSMAN_ROOT"]),
            granted={},
            time_limit=600,
        )
        self._processes.start(run, spec)
        await self._processes.ended(run)
        ended = settling.settle(run)
        self.problem = "" if ended.succeeded else ended.text
        if self.problem:
            LOG.warning("the poll of the nodes failed: %s", self.problem)
