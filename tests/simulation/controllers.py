"""A machine that carries a controller: its folder and disk, its boots, and the daemon that runs there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Statement
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.simulation.disk import Disk

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

    from tests.simulation.clock import Loop
    from tests.simulation.invariants import Watch
    from tests.simulation.world import World

_RENAME = os.rename


class Controller:
    """`memory` is what the process of the daemon knows of its disk, `known` the configuration that it has.

    `took_over` is when it began to lead in place of the other one, and the number of its epoch, 0 for never. Where it
    `restarts`, systemd starts the daemon again that has ended.
    """

    def __init__(self, world: World, root: Path, *, name: str = "", booted: float) -> None:
        self.world = world
        self.root = root
        self.name = name
        self.disk = Disk(world, root, concern=self.concern("power loss"))
        self.memory = durable_files.Disk()
        self.watch: Watch | None = None
        self.loop: Loop | None = None
        self.life: asyncio.Task[bool] | None = None
        self.statement = Statement()
        self.is_dead = True
        self.is_suspended = False
        self.leads = False
        self.epoch: epochs.Epoch | None = None
        self.took_over = 0.0, 0
        self.restarts = True
        self.has_lost_power = False
        self.known: clusters.Cluster | None = None
        self.on_spooled: Callable[[], object] = lambda: None
        self.lines: dict[Path, bytes] = {}
        self.said: dict[Path, dict[tuple[str, str], str]] = {}
        self.recorded: dict[tuple[str, str], str] = {}
        self.boots, self.booted = 1, booted

    def concern(self, name: str) -> str:
        """The name of chances that each controller has of its own."""
        return f"{name} of the {self.name}" if self.name else name

    @property
    def is_running(self) -> bool:
        return self.loop is not None and not self.is_suspended

    @property
    def number(self) -> int:
        """That of the epoch in which it led last."""
        return self.epoch.number if self.epoch is not None else 0

    @property
    def boot_id(self) -> str:
        return f"boot {self.boots} {self.name}".strip()

    @property
    def _aside(self) -> Path:
        return self.root.with_name(self.root.name + ".of-the-dead")

    def die(self) -> None:
        """Its daemon is killed: what it does while its stack unwinds reaches no file, for its folder is away."""
        self.is_dead = True
        _RENAME(self.root, self._aside)

    def bury(self) -> None:
        """Nothing of the killed daemon is left: its folder is back in its place, without what its end made anew."""
        if self._aside.exists():
            shutil.rmtree(self.root, ignore_errors=True)
            _RENAME(self._aside, self.root)
        if self.has_lost_power:
            self.has_lost_power = False
            self.end_processes("is gone with the machine")
            self.disk.lose_power()
            self.boots, self.booted = self.boots + 1, self.world.now
            self.boot()

    def end_processes(self, how: str) -> None:
        """All that has been started on this machine ends, with it."""
        for process in (*self.world.processes.values(), *self.world.plays.values()):
            if process.controller is self:
                process.end(how)

    def boot(self) -> None:
        """What a boot makes anew: the folders that are memory."""
        where = tree.Tree(self.root)
        shutil.rmtree(where.run, ignore_errors=True)
        where.run.mkdir(parents=True)
