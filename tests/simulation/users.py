"""What users do: each step is a request as a client sends it, whose answer is kept as what was acknowledged."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.failures import Defect
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab.world import OK
from ansible_collections.roundsman.cluster.daemon.maintenance import rewriting
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import unsynced
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, job_filters

from tests.simulation import by_hand, nodes, outages, replica_care
from tests.simulation.case import Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ansible_collections.roundsman.cluster.daemon.service import Service

    from tests.simulation.invariants import Watch
    from tests.simulation.world import World

MOST_MOVES = 6
STANDS_STILL, STOPPED_SECONDS, SHORT_JUMP, LONGEST_JUMP = 0.3, 600.0, 60.0, 3600.0
"""How often of its changes the clock stands still, for how many seconds at most, and how far it jumps at most."""
LONGEST_PAUSE = 300.0
"""Seconds for which a person pauses maintenance at the most."""


class Users:
    """Those who send requests to one daemon after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._left = list(world.case.steps)
        self._tags: list[tuple[str, str]] = []
        self._filters: list[str] = []
        self._unanswered: dict[int, Step] = {}
        self._refused: list[Step] = []

    @property
    def _watch(self) -> Watch:
        """That of the daemon that they talk to."""
        assert self._world.here.watch is not None
        return self._world.here.watch

    async def act(self, service: Service, *, since: float) -> None:
        """Do each step at its time, whether those before are answered or not."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            if service.queue.drained:
                # Who was to take it back did not live to see the daemon before this one end.
                group.create_task(self._step(service, Step(-1, 0.0, "undrain-queue")))
            for step in list(self._unanswered.values()):
                group.create_task(self._step(service, step))
            while self._left:
                await asyncio.sleep(max(0.0, since + self._left[0].at - loop.time()))
                if self._left:
                    group.create_task(self._step(service, self._left.pop(0)))

    async def _step(self, service: Service, step: Step) -> None:
        chances = random.Random(f"{self._world.case.seed}/step/{step.number}")
        self._world.tell("user", step.number, step.do)
        if service.read_only.reason:
            # As `daemon/api/read_only.py` answers before any request reaches the queue.
            self._world.tell("user", step.number, "is refused: read-only")
            self._refused += [step] if step.do in SUBMISSIONS else []
            return
        if step.do in SUBMISSIONS:
            # Its client tries again as soon as there is a daemon, where the one before was killed.
            self._unanswered[step.number] = step
        try:
            await DEEDS[step.do](self, service, chances)
        except (errors.RoundsmanError, Defect) as error:
            self._world.tell("user", step.number, "is refused:", type(error).__name__)
        self._unanswered.pop(step.number, None)

    async def put_in_order(self, service: Service) -> None:
        """Take back what would keep the daemon from its work for ever."""
        self._world.set_clock(0.0)
        if service.read_only.reason:
            if unsynced.pending(service.where):
                await rewriting.write_again(service.where, configuration=service.configuration, desk=service.desk)
            service.read_only.release()
        if service.queue.drained:
            service.queue.set_drained(False)
        # Whoever was refused meanwhile asks again at once, and is heard before any job goes on.
        refused, self._refused = self._refused, []
        for step in refused:
            await self._step(service, step)
        for process in list(self._world.processes.values()):
            # A resync may take days, and where nodes are asked every few seconds nobody waits for any time limit.
            is_awaited = process.kind not in {"", "replace_disks"} and not service.agents.seen
            if process.is_hung and not process.is_over and not is_awaited:
                await self._end(service, int(process.run.parent.name))
        replica_care.heal_links(self._world)
        for node in sorted(self._world.nodes.values(), key=lambda node: node.name):
            await self._service_node(service, node)
        gone: list[changes.Change] = [changes.FilterGone(uuid) for uuid in self._filters]
        await service.configuration.commit(lambda _: gone)
        await service.configuration.commit(
            lambda cluster: [changes.SettingsStand(dataclasses.replace(cluster.maintenance.settings, paused=""))]
        )

    async def power_on(self, service: Service) -> None:
        """As refusals say: what was recorded as off after a person had seen to it, and is on, is powered on."""
        for node in sorted(service.configuration.current.nodes.values(), key=lambda node: node.name):
            if not node.powered:
                await self._ended(service, values.Opcode("power", {"node": node.uuid, "command": "on"}))

    async def put_replicas_in_order(self, service: Service) -> None:
        """A person starts what is down, and has replicas repaired that are not in sync."""
        await replica_care.put_in_order(self._world, service)

    async def _service_node(self, service: Service, node: nodes.Node) -> None:
        """A person repairs a node, and takes it back into service."""
        node.recover()
        node.say(OK)
        nodes.put_report(self._world, node)
        cluster = service.configuration.current
        known = cluster.nodes[node.uuid]
        if not known.powered:
            await self._ended(service, values.Opcode("power", {"node": node.uuid, "command": "on"}))
        if done := [tag for tag in known.tags if tag.startswith("maintd:")]:
            params = {"of": "node", "object": node.uuid, "tags": done}
            await self._ended(service, values.Opcode("tags_del", params))
        if known.offline or known.drained:
            role = {"node": node.uuid, "drained": False, "offline": False, "force": True}
            await self._ended(service, values.Opcode("node_role", role))

    async def _end(self, service: Service, number: int) -> None:
        if service.queue.unfinished([number]):
            await service.queue.cancel(number, kill=True)

    async def _ended(self, service: Service, opcode: values.Opcode) -> None:
        (job,) = await service.queue.submit([_job(opcode)])
        await service.queue.wait(job.id, seconds=3600)

    async def submit(self, service: Service, *jobs: values.Job) -> None:
        """Submit jobs; whoever did was told of them."""
        submitted = await service.queue.submit(jobs)
        self._watch.acknowledge(submitted)

    async def _move(self, service: Service, chances: random.Random, *, count: int = 1, kind: str = "migrate") -> None:
        cluster = service.configuration.current
        jobs: list[values.Job] = []
        for _ in range(count):
            instance = cluster.instances[chances.choice(sorted(cluster.instances))]
            params = {
                "instance": instance.uuid,
                "source": instance.primary_node,
                "target": instance.secondary_nodes[0],
            }
            depends = (values.Dependency(-1, tuple(values.FINAL)),) if jobs and chances.random() < 0.5 else ()
            back = {**params, "source": params["target"], "target": params["source"]}
            opcodes = [values.Opcode(kind, params, _priority(chances))]
            opcodes += [values.Opcode(kind, back, _priority(chances))] if chances.random() < 0.3 else []
            jobs.append(_job(*opcodes, depends=depends))
        await self.submit(service, *jobs)

    async def _move_many(self, service: Service, chances: random.Random) -> None:
        await self._move(service, chances, count=2 + chances.randrange(MOST_MOVES))

    async def _failover(self, service: Service, chances: random.Random) -> None:
        await self._move(service, chances, kind="failover")

    async def _start_or_stop(self, service: Service, chances: random.Random) -> None:
        instance = chances.choice(sorted(service.configuration.current.instances))
        kinds = ["shutdown", "startup"] if chances.random() < 0.7 else ["startup"]
        await self.submit(service, _job(*(values.Opcode(kind, {"instance": instance}) for kind in kinds)))

    async def _delay(self, service: Service, chances: random.Random) -> None:
        cluster = service.configuration.current
        names = [*(f"instance/{uuid}" for uuid in sorted(cluster.instances))]
        names += [f"node/{uuid}" for uuid in sorted(cluster.nodes)]
        held = {name: chances.choice(("shared", "exclusive")) for name in chances.sample(names, chances.randrange(3))}
        params: dict[str, Any] = {"duration": round(chances.random() * 30, 3), "locks": held}
        await self.submit(service, _job(values.Opcode("test_delay", params, _priority(chances))))

    async def _tag(self, service: Service, chances: random.Random) -> None:
        uuid, tag = chances.choice(sorted(service.configuration.current.instances)), f"t{chances.randrange(10**6)}"
        self._tags.append((uuid, tag))
        await self.submit(service, _job(values.Opcode("tags_set", _tag_params(uuid, tag))))

    async def _untag(self, service: Service, chances: random.Random) -> None:
        if self._tags:
            uuid, tag = self._tags.pop(chances.randrange(len(self._tags)))
            await self.submit(service, _job(values.Opcode("tags_del", _tag_params(uuid, tag))))

    async def _evacuate(self, service: Service, chances: random.Random) -> None:
        node = chances.choice(sorted(service.configuration.current.nodes))
        mode = chances.choice(("primary-only", "all"))
        await self.submit(service, _job(values.Opcode("node_evacuate", {"node": node, "mode": mode})))

    async def _drain_node(self, service: Service, chances: random.Random) -> None:
        node = chances.choice(sorted(service.configuration.current.nodes))
        opcodes = (values.Opcode("node_role", {"node": node, "drained": drained}) for drained in (True, False))
        await self.submit(service, _job(*opcodes))

    async def _cancel(self, service: Service, chances: random.Random) -> None:
        if unfinished := sorted(service.queue.unfinished(service.queue.jobs)):
            number, kill = chances.choice(unfinished), chances.random() < 0.5
            canceled = await service.queue.cancel(number, kill=kill)
            self._world.tell("canceled", number, canceled.status.value)
            self._watch.acknowledge_cancel(canceled)

    async def _priority(self, service: Service, chances: random.Random) -> None:
        if unfinished := sorted(service.queue.unfinished(service.queue.jobs)):
            await service.queue.change_priority(chances.choice(unfinished), _priority(chances))

    async def _filter(self, service: Service, chances: random.Random) -> None:
        uuid = f"{chances.getrandbits(128):032x}"
        action = chances.choice((job_filters.Action.PAUSE, job_filters.Action.RATE_LIMIT))
        migrates = (("opcode", ("=", "OP_ID", "OP_INSTANCE_MIGRATE")),)
        made = job_filters.Filter(uuid, service.queue.last_id, 0, migrates, action, limit=2)
        self._filters.append(uuid)
        await service.configuration.commit(lambda _: [changes.FilterStands(made)])
        await asyncio.sleep(chances.random() * 60)
        await service.configuration.commit(lambda _: [changes.FilterGone(uuid)])

    async def _drain_queue(self, service: Service, chances: random.Random) -> None:
        service.queue.set_drained(True)
        await asyncio.sleep(chances.random() * 30)
        service.queue.set_drained(False)

    async def _undrain_queue(self, service: Service, chances: random.Random) -> None:
        await asyncio.sleep(chances.random() * 30)
        service.queue.set_drained(False)

    async def _restart(self, _service: Service, _chances: random.Random) -> None:
        self._watch.stopping.set()

    async def _kill(self, _service: Service, _chances: random.Random) -> None:
        self._world.kill("by a user")


def _job(*opcodes: values.Opcode, depends: tuple[values.Dependency, ...] = ()) -> values.Job:
    return values.Job(id=0, opcodes=opcodes, depends=depends, received=1.0)


def _priority(chances: random.Random) -> int:
    return chances.choice((-10, 0, 0, 10))


def _tag_params(uuid: str, tag: str) -> dict[str, Any]:
    return {"of": "instance", "object": uuid, "tags": [tag]}


async def _pause_rounds(users: Users, service: Service, chances: random.Random) -> None:
    def paused(text: str) -> Callable[[Any], list[changes.Change]]:
        return lambda cluster: [changes.SettingsStand(dataclasses.replace(cluster.maintenance.settings, paused=text))]

    await service.configuration.commit(paused("by a user"))
    await asyncio.sleep(chances.random() * LONGEST_PAUSE)
    await service.configuration.commit(paused(""))


async def _lose_power(users: Users, _service: Service, _chances: random.Random) -> None:
    users._world.lose_power("by a user")


async def _change_clock(users: Users, _service: Service, chances: random.Random) -> None:
    """The controller's clock jumps up to an hour, or stands still for a while and goes on late or right."""
    world = users._world
    if chances.random() < STANDS_STILL:
        stopped = world.stopped_clock = world.wall_clock()
        world.tell("the clock stands still")
        seconds = chances.random() * STOPPED_SECONDS
        is_late = chances.random() < 0.5

        def go_on() -> None:
            if world.stopped_clock == stopped:
                world.set_clock(stopped - world.now if is_late else 0.0)

        world.at(seconds, go_on)
    else:
        longest = chances.choice((SHORT_JUMP, LONGEST_JUMP))
        world.set_clock(chances.choice((-1, 1, 0)) * chances.random() * longest)


async def _import(users: Users, service: Service, chances: random.Random) -> None:
    await by_hand.import_configuration(users._world, users._watch, service, chances)


async def _play_by_hand(users: Users, service: Service, chances: random.Random) -> None:
    instance = chances.choice(sorted(service.configuration.current.instances))
    by_hand.Play(users._world, users._watch, instance)


def _of_replicas(deed: replica_care.Deed) -> Callable[[Users, Service, random.Random], Awaitable[None]]:
    async def done(users: Users, service: Service, chances: random.Random) -> None:
        if opcodes := deed(users._world, service.configuration.current, chances):
            await users.submit(service, _job(*opcodes))

    return done


async def _ask_plan(users: Users, service: Service, _chances: random.Random) -> None:
    users._watch.look_at_plan(service)


SUBMISSIONS = frozenset(
    {"move", "move-many", "failover", "start-or-stop", "delay", "tag", "evacuate"}
    | {*replica_care.SUBMISSIONS, *outages.SUBMISSIONS}
)
DEEDS: dict[str, Callable[[Users, Service, random.Random], Awaitable[None]]] = {
    "move": Users._move,
    "move-many": Users._move_many,
    "failover": Users._failover,
    "start-or-stop": Users._start_or_stop,
    "delay": Users._delay,
    "tag": Users._tag,
    "untag": Users._untag,
    "evacuate": Users._evacuate,
    "drain-node": Users._drain_node,
    "cancel": Users._cancel,
    "priority": Users._priority,
    "filter": Users._filter,
    "drain-queue": Users._drain_queue,
    "undrain-queue": Users._undrain_queue,
    "restart": Users._restart,
    "kill": Users._kill,
    "power-loss": _lose_power,
    "pause-rounds": _pause_rounds,
    **outages.DEEDS,
    **{name: _of_replicas(deed) for name, deed in replica_care.DEEDS.items()},
    "clock": _change_clock,
    "import": _import,
    "play-by-hand": _play_by_hand,
    "ask-plan": _ask_plan,
}
