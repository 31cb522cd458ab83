"""What people do beside the queue: plays by hand with livelocks of their own, and imports of the configuration.

Their requests reach the handlers of the daemon's HTTP doors; a daemon that is killed breaks the connection.
"""

from __future__ import annotations

import asyncio
import dataclasses
import types
from functools import partial
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.api import by_hand, config
from ansible_collections.roundsman.cluster.daemon.failures import Defect
from ansible_collections.roundsman.cluster.daemon.lab.simulator.simulated_replica import Rejected
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import document

from tests.simulation import acts, moves, processes

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Generator

    from ansible_collections.roundsman.cluster.daemon.service import Service

    from tests.simulation.invariants import Watch
    from tests.simulation.world import World

STARTING, LOOK, MOVE, RECORD, POLL = 2.0, 2.0, 30.0, 0.5, 0.5
"""Seconds that a part of a play takes at the most, and from one look for an answer to the next."""
TIME_LIMIT, PATIENCE = 60.0, 60.0
"""For how long a play waits for its locks, and tries again to record."""
OUTDATED, TRIES, PAUSE = 20.0, 12, 10.0
"""How old an imported document is at the most; how often an import is tried while jobs are at work."""


class Routes:
    """Takes handlers as FastAPI's routes do, and keeps them as they are."""

    def __init__(self, add: Callable[[Any, Service], None], service: Service) -> None:
        self.handlers: dict[str, Callable[..., Any]] = {}
        add(self, service)

    def get(self, path: str, **_options: Any) -> Callable[[Any], Any]:
        return self._keep(f"GET {path}")

    def post(self, path: str, **_options: Any) -> Callable[[Any], Any]:
        return self._keep(f"POST {path}")

    def put(self, path: str, **_options: Any) -> Callable[[Any], Any]:
        return self._keep(f"PUT {path}")

    def _keep(self, name: str) -> Callable[[Any], Any]:
        def keep(handler: Any) -> Any:
            self.handlers[name] = handler
            return handler

        return keep


class Play(processes.Living):
    """A play by hand that migrates an instance: it holds its lock, moves it, and records where it is."""

    def __init__(self, world: World, watch: Watch, instance: str) -> None:
        super().__init__(world, f"play-{len(world.plays) + 1}-1")
        self.watch = watch
        self.uuid = instance
        self.livelock = world.root / "run/roundsman/livelocks" / self.name
        self.is_holding = False
        self._is_unrecorded = False
        self._task: asyncio.Task[None] | None = None
        self._life = self._lived()
        world.plays[self.livelock] = self
        self._next(STARTING)

    def end(self, how: str) -> None:
        if self._is_unrecorded and not self.is_over:
            self.world.misplaced.add(self.uuid)
        super().end(how)

    def _next(self, most: float) -> None:
        self.world.at(self.world.rng("by hand").random() * most, self._step)

    def _step(self) -> None:
        if self.is_over:
            return
        if self.world.happens("process-killed"):
            self.end("is killed")
            return
        try:
            most = next(self._life)
        except StopIteration:
            self.end("ends")
        except (errors.RoundsmanError, Defect) as error:
            self.end(f"fails: {type(error).__name__}")
        else:
            self._next(most)

    def _lived(self) -> Generator[float, None, None]:
        world, wants = self.world, {f"instance/{self.uuid}": Mode.EXCLUSIVE}
        body = by_hand.Hold(owner=self.name, livelock=self.name, wants=wants, time_limit=TIME_LIMIT)
        yield from self._ask("hold", body)
        self.is_holding, self.instance = True, self.uuid
        world.tell(self.name, "holds", world.names[self.uuid])
        processes.check_alone(world, self)
        yield LOOK
        assert world.known is not None
        known = world.known.instances[self.uuid]
        source, target = known.primary_node, known.secondary_nodes[0]
        yield MOVE
        guests, replicas = world.guests[self.uuid], acts.replicas(world, self.uuid)
        if guests != {source} or not (world.nodes[source].answers and world.nodes[target].answers):
            return
        try:
            for node in (source, target):
                yield from acts.work(world, self.uuid, node, partial(replicas.shared, node))
            acts.check_linked(world, self.uuid, source)
            self._is_unrecorded = True
            move = partial(acts.hand_over, world, self.uuid, source, target)
            yield from acts.work(world, self.uuid, source, move)
        except (acts.PlayFailed, Rejected) as error:
            self._is_unrecorded = False
            world.tell(self.name, "may not move it:", error)
            return
        yield RECORD
        yield from self._record(changes.InstanceNodes(self.uuid, target, (source,)))
        yield from moves.only(world, self.uuid, target, (source,))

    def _record(self, change: changes.InstanceNodes) -> Generator[float, None, None]:
        """Record a change; a daemon that is restarted meanwhile is asked again."""
        key, until = (change.instance, "primary_node"), self.world.now + PATIENCE
        self.world.recorded.pop(key, None)
        body = by_hand.Record(owner=self.name, livelock=self.name, changes=[recording.encode(change)])
        while True:
            try:
                yield from self._ask("record", body)
            except (errors.StoreFailed, errors.StateUnknown, Defect):
                if self.world.now > until:
                    raise
                yield POLL
            else:
                break
        self._is_unrecorded = False
        self.world.recorded[key] = change.primary
        self.world.tell(self.name, "has recorded where", self.world.names[self.uuid], "runs")

    def _ask(self, path: str, body: Any) -> Generator[float, None, None]:
        """Send a request and wait for its answer.

        Raises:
            StoreFailed: there is no daemon, or it ended before it had answered. RoundsmanError, Defect: it refused.
        """
        service, loop = self.watch.service, self.world.loop
        if service is None or loop is None or (service.read_only.reason and path == "hold"):
            raise errors.StoreFailed("the daemon does not answer")
        handler = Routes(by_hand.add, service).handlers[f"POST /{path}"]
        answers: list[Exception | None] = []

        async def request() -> None:
            try:
                await handler(body)
            except (errors.RoundsmanError, Defect) as error:
                answers.append(error)
            else:
                answers.append(None)

        self._task = loop.create_task(request())
        while not answers:
            if self.world.loop is not loop:
                raise errors.StoreFailed("the connection broke")
            yield POLL
        if answers[0] is not None:
            raise answers[0]


async def import_configuration(world: World, watch: Watch, service: Service, chances: random.Random) -> None:
    """Export the configuration, edit it, and import it a moment later, once no job is at work."""
    mark = f"imported-{chances.randrange(10**9)}"
    cluster = service.configuration.current
    edited = dataclasses.replace(cluster.cluster, tags=(*cluster.cluster.tags, mark))
    data = document.seal(dataclasses.replace(cluster, cluster=edited))
    await asyncio.sleep(chances.choice((0.0, chances.random() * OUTDATED)))
    routes = Routes(config.add, service)
    watch.expect_import(mark)
    for _ in range(TRIES):
        try:
            await routes.handlers["PUT /config"](types.SimpleNamespace(body=_answering(data)), None, force=False)
        except errors.Refused:
            await asyncio.sleep(PAUSE)
        else:
            watch.acknowledge_import(mark)
            return


def _answering(data: bytes) -> Callable[[], Any]:
    async def body() -> bytes:
        return data

    return body
