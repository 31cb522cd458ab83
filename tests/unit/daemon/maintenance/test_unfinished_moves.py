"""Instances of which a migration has not ended, in a service whose opcodes are a twin's: when they are looked for."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import app
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance.agents import Seen
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

OK = '{"status":"Ok"}'
LIMIT = 20.0
BOOT = "00000000-0000-4000-8000-00000000000{}"


class Moving:
    """A service whose instance1 a migration from node2 to node3 may have moved; its nodes report."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, instances: int = 1) -> None:
        self.lab = twins.lab(folder, instances=instances, pairs=[("node2", "node3")] * instances)
        self.service, self.twin = twins.assemble(self.lab, monkeypatch)
        self.now = 1000.0
        monkeypatch.setattr(self.service.unfinished_moves, "_monotonic", lambda: self.now)

    async def commit(self, *stated: changes.Change) -> None:
        await self.service.configuration.commit(lambda _: list(stated))

    async def move(self, name: str = "instance1") -> None:
        cluster = self.service.configuration.current
        await self.commit(changes.InstanceMoving(cluster.instance(name).uuid, cluster.node("node3").uuid))

    async def hear(self, *names: str, boot: str = "") -> None:
        for name in names:
            facts = twins.replica_facts(
                self.service.configuration.current, self.service.configuration.current.node(name)
            )
            twins.report(self.lab, self.service, name, OK, facts=dataclasses.replace(facts, boot_id=boot))
        await self.service.intake.take_all()

    async def step(self, *, later: float = 0.0) -> int:
        """Look again so many seconds later; how many jobs there were by now."""
        self.now += later
        await self.service.unfinished_moves.step()
        await twins.jobs_end(self.service)
        await self.service.unfinished_moves.step()
        return len(self.service.queue.jobs)


@pytest.fixture(name="play")
def fixture_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def play(scenario: Callable[[Moving], Coroutine[Any, Any, None]], **options: int) -> None:
        async def whole() -> None:
            one = Moving(tmp_path, monkeypatch, **options)
            await scenario(one)
            await one.service.queue.stop()

        asyncio.run(whole())

    return play


def test_an_instance_is_looked_for_once_both_nodes_have_answered_since_its_migration_began(
    play: Callable[..., None],
) -> None:
    async def scenario(one: Moving) -> None:
        await one.hear("node2", "node3")
        await one.move()
        assert await one.step() == 0, "what they said before is no news"
        await one.hear("node2")
        assert await one.step() == 0
        await one.hear("node3")
        assert await one.step() == 1
        (job,) = one.service.queue.jobs.values()
        cluster = one.service.configuration.current
        nodes = [cluster.node(name).uuid for name in ("node2", "node3")]
        assert [(step.kind, step.params) for step in job.opcodes] == [
            ("find_instance", {"instance": cluster.instance("instance1").uuid, "nodes": nodes})
        ]
        assert [await one.step(later=later) for later in (299, 2, 300, 301)] == [1, 2, 2, 3], "not found: less often"
        await one.commit(changes.InstanceNodes(cluster.instance("instance1").uuid, nodes[1], (nodes[0],)))
        assert await one.step(later=9999) == 3, "it was found"

    play(scenario)


def test_a_node_that_polls_have_not_missed_yet_and_that_has_not_answered_since_is_not_waited_for_in_a_job(
    play: Callable[..., None],
) -> None:
    async def scenario(one: Moving) -> None:
        await one.hear("node1", "node2", "node3")
        await one.move()
        await one.hear("node1", "node2")
        nodes = one.service.configuration.current.nodes
        one.service.intake.seen.update({uuid: Seen(answered=1.0) for uuid in nodes})
        assert await one.step() == 0, "node3 may have died right after the hand-over"
        one.service.intake.seen[one.service.configuration.current.node("node3").uuid] = Seen(answered=time.time() + 1)
        assert await one.step() == 1

    play(scenario)


def test_a_clock_that_is_set_back_after_the_migration_keeps_nobody_from_looking(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(one: Moving) -> None:
        await one.move()
        monkeypatch.setattr(one.service.unfinished_moves, "_clock", lambda: time.time() - 2190)
        nodes = one.service.configuration.current.nodes
        one.service.intake.seen.update({uuid: Seen(answered=time.time() - 2180) for uuid in nodes})
        assert await one.step() == 1

    play(scenario)


def test_the_pause_between_looks_grows_to_an_hour(play: Callable[..., None]) -> None:
    async def scenario(one: Moving) -> None:
        await one.move()
        await one.hear("node2", "node3")
        looks = [await one.step(later=later) for later in (0, 300, 600, 1200, 2400)]
        assert looks == [1, 2, 3, 4, 5]
        assert [await one.step(later=later) for later in (3599, 1, 3599, 1)] == [5, 6, 6, 7]

    play(scenario)


def test_a_node_that_was_silent_meanwhile_is_soon_looked_at_again(play: Callable[..., None]) -> None:
    async def scenario(one: Moving) -> None:
        await one.move()
        await one.hear("node2", "node3")
        assert [await one.step(later=later) for later in (0, 300, 600, 1200)] == [1, 2, 3, 4]
        one.service.intake._heard.unreachable["node3"] = {"time": 1.0, "text": "no route to host"}
        assert await one.step(later=301) == 4
        await one.hear("node3")
        assert await one.step() == 5, "its answer is news: nobody waits for the hour"
        assert [await one.step(later=later) for later in (599, 1)] == [5, 6]

    play(scenario)


def test_a_node_that_booted_unseen_is_a_reason_to_look_soon_and_no_more_often_than_that(
    play: Callable[..., None],
) -> None:
    async def scenario(one: Moving) -> None:
        await one.move()
        await one.hear("node2", "node3", boot=BOOT.format(1))
        assert [await one.step(later=later) for later in (0, 300, 600, 1200)] == [1, 2, 3, 4]
        await one.hear("node3", boot=BOOT.format(2))
        assert await one.step(later=29) == 4
        assert await one.step(later=1) == 5, "what it answered before it booted says nothing: nobody waits for the hour"
        assert [await one.step(later=later) for later in (299, 1)] == [5, 6], "the pauses begin anew"
        await one.hear("node3")
        assert await one.step(later=60) == 6, "it has not booted again"

    play(scenario)


def test_the_least_recently_tried_are_next(play: Callable[..., None]) -> None:
    async def scenario(one: Moving) -> None:
        cluster = one.service.configuration.current
        names = {cluster.instance(f"instance{number}").uuid: number for number in (1, 2, 3)}
        await one.move("instance2")
        await one.move("instance3")
        await one.hear("node2", "node3")
        assert await one.step() == 2
        await one.move("instance1")
        await one.hear("node2", "node3")
        one.now += 10
        assert await one.step() == 3, "one that was never looked for is first"
        assert await one.step(later=1000) >= 5
        jobs = sorted(one.service.queue.jobs.values(), key=lambda job: job.id)
        tried = [names[str(job.opcodes[0].params["instance"])] for job in jobs]
        assert tried[:5] == [2, 3, 1, 2, 3]

    play(scenario, instances=3)


@pytest.mark.parametrize("held", ["paused", "offline", "silent", "emergency", "drained"])
def test_nobody_looks_while_maintenance_is_paused_or_a_node_does_not_answer(
    play: Callable[..., None], held: str
) -> None:
    async def scenario(one: Moving) -> None:
        await one.move()
        await one.hear("node2", "node3")
        cluster = one.service.configuration.current
        node, settings = cluster.node("node3"), cluster.maintenance.settings
        if held == "paused":
            await one.commit(changes.SettingsStand(dataclasses.replace(settings, paused="the switch is replaced")))
        elif held == "offline":
            await one.commit(membership.NodeStands(dataclasses.replace(node, offline=True)))
        elif held == "emergency":
            await one.commit(changes.EpoStands((), (), by="me", returning=False))
        elif held == "drained":
            one.service.queue.set_drained(True)
        else:
            one.service.intake._heard.unreachable["node3"] = {"time": 1.0, "text": "no route to host"}
        assert await one.step() == 0

    play(scenario)


def test_an_instance_on_which_a_job_is_at_work_is_not_looked_for(play: Callable[..., None]) -> None:
    async def scenario(one: Moving) -> None:
        one.twin.outcomes["migrate"] = "held"
        cluster = one.service.configuration.current
        instance = cluster.instance("instance1")
        source, target = instance.nodes
        migrate = values.Opcode("migrate", {"instance": instance.uuid, "source": source, "target": target})
        await one.service.queue.submit([twins.job(0, migrate)])
        (run,) = await twins.until_held(one.twin)
        await one.move()
        await one.hear("node2", "node3")
        await one.service.unfinished_moves.step()
        assert len(one.service.queue.jobs) == 1
        one.twin.finish(run)

    play(scenario)


def test_few_are_looked_for_at_the_same_time(play: Callable[..., None]) -> None:
    async def scenario(one: Moving) -> None:
        one.twin.outcomes["find_instance"] = "held"
        for number in (1, 2, 3):
            await one.move(f"instance{number}")
        await one.hear("node2", "node3")
        for _ in range(2):
            await one.service.unfinished_moves.step()
            assert len(one.service.queue.jobs) == 2
        for run in await twins.until_held(one.twin, 2):
            one.twin.finish(run)
        one.twin.outcomes["find_instance"] = "success"
        assert await one.step() == 3

    play(scenario, instances=3)


@pytest.mark.parametrize("event", ["change", "report", "poll", "job"])
def test_each_event_that_may_say_where_an_instance_is_has_it_looked_for(play: Callable[..., None], event: str) -> None:
    async def scenario(one: Moving) -> None:
        awake = one.service.unfinished_moves._awake
        awake.clear()
        if event == "change":
            await one.move()
        elif event == "report":
            await one.hear("node2")
        elif event == "poll":
            one.service.agents._on_poll()
        else:
            await one.service.queue.submit([twins.job(0, values.Opcode("cluster_verify", {}))])
            await twins.jobs_end(one.service)
        assert awake.is_set()

    play(scenario)


def test_the_daemon_looks_for_instances_whose_migration_has_not_ended(play: Callable[..., None]) -> None:
    async def scenario(one: Moving) -> None:
        work = asyncio.create_task(app._work(one.service))
        await one.move()
        await one.hear("node2", "node3")

        async def looked_for() -> None:
            while not any(run.startswith("find_instance ") for run in one.twin.ran):
                one.twin.started.clear()
                await one.twin.started.wait()

        await asyncio.wait_for(looked_for(), LIMIT)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    play(scenario)
