"""One case played: daemons one after the other in one world, until all has settled."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import shutil
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon import abnormal_ends, app, disk_proofs, failures, service
from ansible_collections.roundsman.cluster.daemon.lab import population
from ansible_collections.roundsman.cluster.daemon.lab import world as labs
from ansible_collections.roundsman.cluster.daemon.maintenance import rewriting
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, unsynced
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.simulation import disks, nodes, patches
from tests.simulation.clock import Loop
from tests.simulation.invariants import Watch
from tests.simulation.users import Users
from tests.simulation.world import EPOCH, Killed, Stuck, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.case import Case

MEMORY = Path("/dev/shm")
NODES, INSTANCES = 4, 8
MOST_LOSSES = (None, None, 0, 60, 300)
"""Seconds of writes that an unattended failover may lose, one of them in each world; None: nothing is set."""
SETTLES_WITHIN = 12 * 3600.0
"""Virtual seconds after the last fault within which all has settled; only a run that replaces disks may take longer."""
DOWN = 20.0
"""Seconds that a daemon is down at the most."""
CALM = 400.0
"""Seconds without a job after which none comes any more: longer than from one look of the rounds to the next."""
DECIDED = 60.0
"""Seconds after the end of a job within which rounds have drawn their conclusions."""
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
        watch = Watch(world)
        users = Users(world, watch)
        world.on_leap = watch.look
        daemons = 0
        while not world.violations:
            daemons += 1
            try:
                if _life(world, watch, users) or daemons > MOST_DAEMONS:
                    break
            except Stuck as error:
                world.violated(str(error))
            world.sleep(world.rng("down").random() * DOWN)
    lines, violations = tuple(world.trace.lines), tuple(world.violations)
    return Outcome(world.trace.digest, lines, violations, watch.settled, daemons, world.now - EPOCH)


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
    world.boot()
    world.is_dead, world.is_calm = False, True
    store.write(where.config, cluster)
    world.is_calm = False
    world.disk.settle()
    world.nodes, world.known = _nodes(world, cluster), cluster
    world.guests = {uuid: {instance.primary_node} for uuid, instance in cluster.instances.items()}
    world.names = {uuid: instance.name for uuid, instance in cluster.instances.items()}
    world.names |= {uuid: node.name for uuid, node in cluster.nodes.items()}
    world.disks = disks.Disks(world, cluster)


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


def _life(world: World, watch: Watch, users: Users) -> bool:
    """The life of one daemon; returns whether all has settled in it."""
    patches.new_process()
    world.disk.write_back()
    loop = world.loop = Loop(lambda: world.now, world.leap)
    world.is_dead = False
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_Daemon(world, watch, users).live())
    except Killed:
        return False
    finally:
        watch.end()
        world.is_dead, world.loop = True, None
        _forget(loop)
        world.bury()


def _forget(loop: Loop) -> None:
    """Close what the daemon was at; nothing of it has an effect any more."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine: Any = task.get_coro()
        with contextlib.suppress(BaseException):
            coroutine.close()
    loop.set_exception_handler(lambda _loop, _context: None)
    loop.close()
    asyncio.set_event_loop(None)


class _Daemon:
    """What `app.serve` does, without its servers; users call what their requests would."""

    def __init__(self, world: World, watch: Watch, users: Users) -> None:
        self._world = world
        self._watch = watch
        self._users = users

    async def live(self) -> bool:
        world, where = self._world, tree.Tree(self._world.root)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unheard)
        ends = abnormal_ends.AbnormalEnds(where.abnormal_ends)
        durable_files.on_unknown(lambda error: unsynced.note(where, error))
        world.tell("a daemon starts")
        try:
            made = service.assemble(where, limit=8)
            durable_files.on_unknown(lambda error: app.end_later(loop, made, error))
            await rewriting.at_start(where, configuration=made.configuration, desk=made.desk, read_only=made.read_only)
            world.refuse_the_dead()
            self._watch.begin(made)
            is_settled = await self._work(made)
        except errors.StateUnknown as error:
            ends.record(str(error))
            world.tell("the daemon ends:", type(error).__name__)
            return False
        except (errors.RoundsmanError, OSError) as error:
            # A full disk ends a start, too; it is tried again.
            world.tell("the daemon ends:", error)
            if world.is_calm or "No space left" not in str(error):
                world.violated(f"the daemon does not start: {error}")
            return False
        except failures.Defect as defect:
            world.violated(f"a defect: {defect!r} {defect.__cause__!r}")
            return False
        ends.clear()
        return is_settled

    def _unheard(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if (error := context.get("exception")) and not self._world.is_dead:
            where = "".join(traceback.format_tb(error.__traceback__)[-4:]).replace(str(self._world.root), "")
            self._world.violated(f"nobody heard of {error!r} ({context.get('message')}) {where}")

    async def _work(self, made: service.Service) -> bool:
        loop = asyncio.get_running_loop()
        parts: list[asyncio.Task[Any]] = [loop.create_task(app._work(made))]
        parts.append(loop.create_task(made.failures.until_defect()))
        parts.append(loop.create_task(disk_proofs.keep_proving(disk_proofs.beside(made.where), made.failures)))
        done = loop.create_task(self._until_settled(made))
        stopping = loop.create_task(self._watch.stopping.wait())
        ended, _ = await asyncio.wait([*parts, done, stopping], return_when=asyncio.FIRST_COMPLETED)
        is_settled = done in ended and done.exception() is None
        if is_settled:
            self._watch.check_settled(made)
        self._world.tell("the daemon stops")
        await asyncio.wait([loop.create_task(made.queue.stop())], timeout=app.STOPPING)
        for task in (*parts, done, stopping):
            task.cancel()
        await asyncio.wait([*parts, done, stopping], timeout=5)
        if done in ended:
            done.result()
        for task in parts:
            if task in ended:
                app._raise_defect(task)
        return is_settled

    async def _until_settled(self, made: service.Service) -> None:
        world = self._world
        await self._users.act(made, since=EPOCH)
        world.is_calm = True
        try:
            await self._users.put_in_order(made)
        except errors.StoreFailed:
            # It shared the last write that a full disk refused.
            await self._users.put_in_order(made)
        await self._settled(made)
        await self._users.power_on(made)
        await self._settled(made)
        await self._users.put_replicas_in_order(made)
        # What that let the daemon do is at work, or in the queue.
        while unfinished := made.queue.unfinished(made.queue.jobs):
            await made.queue.wait(unfinished[0], seconds=600)

    async def _settled(self, made: service.Service) -> None:
        world = self._world
        limit = world.now + SETTLES_WITHIN
        await asyncio.sleep(CALM)
        while (unfinished := made.queue.unfinished(made.queue.jobs)) or world.now - self._watch.last_end < DECIDED:
            if world.now > limit:
                at_work = [(job, made.queue.jobs[job].status.value) for job in unfinished]
                raise Stuck(f"not settled within {SETTLES_WITHIN:g} s: jobs {at_work[:5]}")
            if unfinished:
                await made.queue.wait(unfinished[0], seconds=600)
            if not made.queue.unfinished(made.queue.jobs):
                await asyncio.sleep(CALM)
