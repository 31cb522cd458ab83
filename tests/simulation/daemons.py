"""A daemon of the simulation: it starts, works, serves users, and ends as the real one does."""

from __future__ import annotations

import asyncio
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon import abnormal_ends, app, disk_proofs, failures, service
from ansible_collections.roundsman.cluster.daemon.maintenance import rewriting
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, unsynced

from tests.simulation.invariants import Watch
from tests.simulation.world import EPOCH, Stuck

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.takeovers import Takeover
    from tests.simulation.users import Users
    from tests.simulation.world import World

SETTLES_WITHIN = 12 * 3600.0
"""Virtual seconds after the last fault within which all has settled; only a run that replaces disks may take longer."""
CALM = 400.0
"""Seconds without a job after which none comes any more: longer than from one look of the rounds to the next."""
DECIDED = 60.0
"""Seconds after the end of a job within which rounds have drawn their conclusions."""
PATIENCE = 1800.0
"""Within how many seconds a person has silent nodes answer for which a daemon waits that starts."""
MOST_LOOKS = 60
LOOK = 10.0
"""Seconds from one look for the end of a takeover to the next."""


class Daemon:
    """What `__main__` and `app.serve` do, without its servers; users call what their requests would.

    Its `live` returns whether all has settled.
    """

    def __init__(self, world: World, controller: Controller, users: Users, takeover: Takeover) -> None:
        self._world = world
        self._controller = controller
        self._watch = Watch(world) if controller.watch is None else controller.watch
        self._users = users
        self._takeover = takeover
        controller.watch = self._watch

    async def live(self) -> bool:
        world, where = self._world, tree.Tree(self._controller.root)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unheard)
        ends = abnormal_ends.AbnormalEnds(where.abnormal_ends)
        durable_files.on_unknown(lambda error: unsynced.note(where, error))
        world.tell("a daemon starts")
        try:
            made = service.assemble(where, limit=8)
            await made.leadership.begin(self._controller.statement, on_wait=self._waits)
            self._takeover.leads(self._controller, made)
            durable_files.on_unknown(lambda error: app.end_later(loop, made, error))
            await rewriting.at_start(where, configuration=made.configuration, desk=made.desk, read_only=made.read_only)
            world.refuse_the_dead()
            self._watch.begin(made)
            is_settled = await self._work(made)
        except errors.StateUnknown as error:
            ends.record(str(error))
            world.tell("the daemon ends:", type(error).__name__)
            return False
        except errors.NotLeading as error:
            world.tell("the daemon ends with 11:", error)
            self._takeover.refused(self._controller, str(error))
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

    def _waits(self, reason: str) -> None:
        """Too few nodes answer: a person sees to that after a while."""
        world, loop = self._world, self._controller.loop
        world.tell("the daemon waits:", reason)

        def help_nodes() -> None:
            if self._controller.loop is loop and self._watch.service is None and not self._controller.is_suspended:
                self._takeover.helps(self._controller)

        world.at(world.rng("waits").random() * PATIENCE, help_nodes)
        world.at(LOOK, partial(self._look_at_wait, loop, 0))

    def _look_at_wait(self, loop: asyncio.AbstractEventLoop | None, count: int) -> None:
        """No daemon waits for minutes while most of the nodes that vote answer, and follow nobody else."""
        world, known = self._world, self._controller.known
        is_waiting = self._controller.loop is loop and self._watch.service is None
        if not is_waiting or known is None or len(world.controllers) > 1:
            return
        voters = [uuid for uuid, node in known.nodes.items() if node.powered and not node.offline]
        answering = [uuid for uuid in voters if world.nodes[uuid].answers]
        count = count + 1 if 2 * len(answering) > len(voters) else 0
        if count > MOST_LOOKS:
            world.violated("a daemon waits though most of the nodes that vote answer")
        world.at(LOOK, partial(self._look_at_wait, loop, count))

    def _unheard(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if (error := context.get("exception")) and not self._controller.is_dead:
            where = "".join(traceback.format_tb(error.__traceback__)[-4:]).replace(str(self._controller.root), "")
            self._world.violated(f"nobody heard of {error!r} ({context.get('message')}) {where}")

    async def _work(self, made: service.Service) -> bool:
        loop = asyncio.get_running_loop()
        parts: list[asyncio.Task[Any]] = [loop.create_task(app._work(made))]
        parts.append(loop.create_task(made.failures.until_defect()))
        parts.append(loop.create_task(made.leadership.run()))
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
        await made.leadership.end()
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
        while not self._takeover.is_over:  # noqa: ASYNC110 - what ends it is no part of this daemon
            await asyncio.sleep(LOOK)
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
        limit = world.now + SETTLES_WITHIN
        while unfinished := made.queue.unfinished(made.queue.jobs):
            _look_at_time(world, limit, made, unfinished)
            await made.queue.wait(unfinished[0], seconds=600)

    async def _settled(self, made: service.Service) -> None:
        world = self._world
        limit = world.now + SETTLES_WITHIN
        await asyncio.sleep(CALM)
        while (unfinished := made.queue.unfinished(made.queue.jobs)) or world.now - self._watch.last_end < DECIDED:
            _look_at_time(world, limit, made, unfinished)
            if unfinished:
                await made.queue.wait(unfinished[0], seconds=600)
            if not made.queue.unfinished(made.queue.jobs):
                await asyncio.sleep(CALM)


def _look_at_time(world: World, limit: float, made: service.Service, unfinished: list[int]) -> None:
    """Jobs end before this moment, or never.

    Raises:
        Stuck: it is past.
    """
    if world.now > limit:
        at_work = [(job, made.queue.jobs[job].status.value) for job in unfinished]
        raise Stuck(f"not settled within {SETTLES_WITHIN:g} s: jobs {at_work[:5]}")
