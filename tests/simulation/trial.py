"""One case played: daemons one after the other in one world, until all has settled."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.lab import population
from ansible_collections.roundsman.cluster.daemon.lab import world as labs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.simulation import disks, nodes, patches
from tests.simulation.clock import Loop
from tests.simulation.daemons import Daemon
from tests.simulation.takeovers import Takeover
from tests.simulation.users import Users
from tests.simulation.world import EPOCH, Killed, Stuck, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.case import Case
    from tests.simulation.controllers import Controller

MEMORY = Path("/dev/shm")
NODES, INSTANCES = 4, 8
MOST_LOSSES = (None, None, 0, 60, 300)
"""Seconds of writes that an unattended failover may lose, one of them in each world; None: nothing is set."""
DOWN = 20.0
"""Seconds that a daemon is down at the most."""
MOST_DAEMONS = 200


@dataclass(frozen=True)
class Outcome:
    """What a case came to: the digest of its trace and its last lines, what was violated, and how much was done."""

    trace: str
    lines: tuple[str, ...]
    violations: tuple[str, ...]
    settled: int
    daemons: int
    seconds: float


def play(case: Case) -> Outcome:
    """Play a case from its start until all has settled, or an invariant does not hold."""
    folder = Path(tempfile.mkdtemp(prefix="simulation-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        return _play(case, folder / "root")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _play(case: Case, root: Path) -> Outcome:
    world = World(case, root)
    with patches.installed(world), _silence():
        patches.new_process()
        _build(world)
        stage = Stage(world)
        stage.play()
    lines, violations = tuple(world.trace.lines), tuple(world.violations)
    settled = sum(each.watch.settled for each in world.controllers if each.watch is not None)
    return Outcome(world.trace.digest, lines, violations, settled, stage.daemons, world.now - EPOCH)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What the daemon logs, and what Python says of coroutines that were killed, is no news here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _build(world: World) -> None:
    """Make the controller's folder: a cluster whose instances run where they are on record."""
    names = [f"node{number}" for number in range(1, NODES + 1)]
    cluster = population.make_cluster(labs.Lab(world.root), names, settings=_settings(world))
    cluster = population.with_addresses(cluster)
    cluster = population.with_instances(cluster, population.spread(cluster, INSTANCES))
    limit = world.rng("settings").choice(MOST_LOSSES)
    cluster = dataclasses.replace(cluster, cluster=dataclasses.replace(cluster.cluster, failover_max_loss=limit))
    where = tree.Tree(world.root)
    for path in (where.etc, where.lib, where.run, where.log, where.spool, where.host_vars):
        path.mkdir(parents=True, exist_ok=True)
    where.hmac_key.write_text("of the simulation\n")
    world.here.boot()
    world.is_dead, world.is_calm = False, True
    store.write(where.config, cluster)
    world.is_calm = False
    world.disk.settle()
    world.nodes, world.known = _nodes(world, cluster), cluster
    world.guests = {uuid: {instance.primary_node} for uuid, instance in cluster.instances.items()}
    world.names = {uuid: instance.name for uuid, instance in cluster.instances.items()}
    world.names |= {uuid: node.name for uuid, node in cluster.nodes.items()}
    world.disks = disks.Disks(world, cluster)
    world.modules_take_time = world.happens("modules-take-time")


def _settings(world: World) -> clusters.Settings:
    if not world.happens("agents"):
        return clusters.Settings(diagnose_interval=0)
    policy = world.rng("settings").choice(("none", "failover", "fence"))
    policy = "fence" if world.happens("fences") else policy
    return clusters.Settings(agent_port=nodes.AGENT_PORT, dead_after=3, dead_node_policy=policy)


def _nodes(world: World, cluster: clusters.Cluster) -> dict[str, nodes.Node]:
    key = tree.Tree(world.root).hmac_key.read_bytes()
    return {
        uuid: nodes.Node(world, uuid, node.name, node.primary_ip, signing.node_key(key, uuid))
        for uuid, node in cluster.nodes.items()
    }


def _forget(loop: Loop) -> None:
    """Close what the daemon was at; nothing of it has an effect any more."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine: Any = task.get_coro()
        with contextlib.suppress(BaseException):
            coroutine.close()
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.close()


class Stage:
    """The machines of a world: each gets as far as it can at a moment, and time goes on when none gets further."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.users = Users(world)
        self.daemons = 0
        self._is_over = False
        self._takeover = Takeover(world, start=self.start)

    def play(self) -> None:
        """Play until all has settled, or an invariant does not hold."""
        self.start(self.world.here)
        while not self.world.violations and not self._is_over:
            try:
                self._turn()
            except Stuck as error:
                self.world.violated(str(error))
        for each in self.world.controllers:
            if each.loop is not None:
                if not each.is_dead:
                    each.die()
                self._end(each)

    def start(self, controller: Controller) -> None:
        """Start the daemon of a machine on which none runs."""
        if controller.loop is not None or not controller.restarts:
            return
        self.daemons += 1
        with self.world.being(controller):
            patches.new_process()
            controller.disk.write_back()
            loop = controller.loop = Loop(lambda: self.world.now)
            controller.is_dead = False
            controller.life = loop.create_task(Daemon(self.world, controller, self.users, self._takeover).live())

    def _turn(self) -> None:
        waits = [self._advance(each) for each in self.world.controllers if each.is_running]
        if 0.0 not in waits and not self.world.violations:
            self.world.leap(min((seconds for seconds in waits if seconds is not None), default=None))
            for each in self.world.controllers:
                if each.is_dead and each.loop is not None:
                    self._end(each)
                elif each.has_lost_power and each.loop is None:
                    with self.world.being(each):
                        each.bury()

    def _advance(self, controller: Controller) -> float | None:
        """Let a daemon do what it has to do; returns for how many seconds it waits then, None for ever.

        One that is alone does all of it; of two each does a bit in turn.
        """
        loop, life, is_alone = controller.loop, controller.life, len(self.world.controllers) == 1
        assert loop is not None
        assert life is not None
        with self.world.being(controller):
            seconds: float | None = 0.0
            with contextlib.suppress(Killed):
                seconds = loop.turn()
                while is_alone and seconds == 0.0 and not (controller.is_dead or life.done() or self.world.violations):
                    seconds = loop.turn()
            if controller.is_dead or life.done():
                self._end(controller)
                return 0.0
            if seconds and controller.watch is not None:
                controller.watch.look()
        return seconds

    def _end(self, controller: Controller) -> None:
        """The daemon of a machine is no more; systemd starts it again."""
        loop, life = controller.loop, controller.life
        assert loop is not None
        assert life is not None
        with self.world.being(controller):
            try:
                is_settled = not controller.is_dead and life.result()
            finally:
                if controller.watch is not None:
                    controller.watch.end()
                controller.is_dead, controller.loop, controller.leads = True, None, False
                _forget(loop)
                controller.bury()
            self._is_over = is_settled or self.daemons > MOST_DAEMONS
            pause = self.world.rng(controller.concern("down")).random() * DOWN
            self.world.at(pause, lambda: self.start(controller))
