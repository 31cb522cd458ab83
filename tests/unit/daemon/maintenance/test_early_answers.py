"""Long questions to agents: what changes is known at once, and what fails is no sign of anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import early_answers
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import front, listening, requests

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import node_agents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

EVACUATE = '{"status": "evacuate", "details": {"disk": "sdb"}}'
LIMIT = 60.0


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path), monkeypatch)[0]


class Agent:
    """What faces the network of a real agent, and the folder of its reports."""

    def __init__(self, running: service.Service, folder: Path) -> None:
        self._running = running
        self._folder = folder
        self.front = front.Front(folder, look_seconds=0.01)
        self.waits = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.waits.set()
        await self.front.serve(reader, writer)

    def publish(self, said: str = '{"status": "Ok"}') -> None:
        (self._folder / "node").mkdir(parents=True, exist_ok=True)
        (self._folder / "new").write_bytes(node_agents.ok(twins.lab_of(self._running), self._running, "node1", said))
        (self._folder / "new").replace(self._folder / "node/diagnose")


@contextlib.asynccontextmanager
async def agent_of_node1(running: service.Service, folder: Path) -> AsyncIterator[Agent]:
    """The agent of node1, which has said Ok and was asked once; the other nodes have none."""
    agent = Agent(running, folder)
    agent.publish()
    ((_, listener),) = listening.sockets(["127.88.0.1"], 0, known={}).items()
    server = await asyncio.start_server(agent.serve, sock=listener, limit=requests.HEAD_LIMIT)
    async with server:
        await node_agents.poll_agents(running, listener.getsockname()[1])
        await running.agents.ask()
        await running.intake.take_all()
        agent.waits.clear()
        yield agent


def node1(running: service.Service) -> clusters.Node:
    return running.configuration.current.node("node1")


def spooled(running: service.Service) -> list[str]:
    return [path.name for path in running.where.spool.iterdir()]


def test_what_changes_on_a_node_is_in_the_spool_before_the_next_poll(running: service.Service, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with agent_of_node1(running, tmp_path / "reports") as agent:
            work = asyncio.create_task(running.early_answers.run())
            async with asyncio.timeout(LIMIT):
                await agent.waits.wait()
                assert spooled(running) == []
                agent.publish(EVACUATE)
                while not spooled(running):  # noqa: ASYNC110 - a folder
                    await asyncio.sleep(0.01)
            await running.intake.take_all()
            assert running.intake.observed()[node1(running).uuid].status.value == "evacuate"
            work.cancel()
            await asyncio.wait([work])

    asyncio.run(scenario())


def test_what_has_not_changed_is_no_news_and_is_not_asked_for_in_vain(
    running: service.Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with agent_of_node1(running, tmp_path / "reports") as agent:
            agent.publish()
            monkeypatch.setattr(early_answers, "WAIT_SECONDS", 0.0)
            assert await running.early_answers._ask(node1(running)) == early_answers.LEAST
            assert spooled(running) == []

    asyncio.run(scenario())


def test_an_agent_that_has_news_again_and_again_is_asked_less_and_less_often(
    running: service.Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node with a valid key kept the daemon busy by a different report of a mebibyte every second."""

    async def scenario() -> None:
        async with agent_of_node1(running, tmp_path / "reports") as agent:
            pauses = []
            for number in range(7):
                agent.publish(json.dumps({"status": "evacuate", "details": {"number": number}}))
                pauses.append(await running.early_answers._ask(node1(running)))
            assert pauses[0] == early_answers.LEAST
            assert pauses == sorted(pauses)
            assert pauses[3] > 4 * early_answers.LEAST
            assert pauses[-1] == early_answers.MOST
            monkeypatch.setattr(early_answers, "WAIT_SECONDS", 0.0)
            assert await running.early_answers._ask(node1(running)) == early_answers.LEAST, "a calm one is asked again"
            agent.publish(EVACUATE)
            assert await running.early_answers._ask(node1(running)) == early_answers.LEAST

    asyncio.run(scenario())


def test_an_agent_that_does_not_wait_or_lies_is_asked_seldom_and_nothing_of_it_is_kept(
    running: service.Service,
) -> None:
    async def scenario() -> None:
        lab = twins.lab_of(running)
        async with node_agents.answering(running) as answers:
            said = node_agents.ok(lab, running, "node1")
            answers.diagnose("node1", said)
            await running.agents.ask()
            await running.intake.take_all()
            digest = collected.content_digest(said)
            path = collected.waiting_path(collected.DIAGNOSE, known=digest, seconds=early_answers.WAIT_SECONDS)
            for body in (said, node_agents.ok(lab, running, "node2", EVACUATE), b"garbage"):
                answers.said[path, "node1"] = (200, body)
                assert await running.early_answers._ask(node1(running)) == early_answers.UNFIT
            answers.said[path, "node1"] = (404, b"")
            assert await running.early_answers._ask(node1(running)) == early_answers.UNFIT
            assert answers.asked[f"node1 {path}"] == 4
        assert spooled(running) == []

    asyncio.run(scenario())


def test_a_question_that_fails_is_no_suspicion(running: service.Service, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with agent_of_node1(running, tmp_path / "reports"):
            pass
        before, began = running.agents.seen[node1(running).uuid], time.monotonic()
        assert await running.early_answers._ask(node1(running)) >= early_answers.RETRY
        assert time.monotonic() - began < LIMIT
        assert running.agents.seen[node1(running).uuid] == before
        assert spooled(running) == []

    asyncio.run(scenario())


def test_suspects_and_nodes_of_which_nothing_is_known_are_left_to_the_other_questions(
    running: service.Service, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with agent_of_node1(running, tmp_path / "reports") as agent:
            running.agents.suspects.add(node1(running).uuid)
            assert await running.early_answers._ask(node1(running)) == early_answers.RETRY
            unknown = running.configuration.current.node("node2")
            assert await running.early_answers._ask(unknown) == early_answers.RETRY
            assert not agent.waits.is_set()

    asyncio.run(scenario())


def test_a_disk_that_is_full_is_reported_and_ends_nothing(
    running: service.Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with agent_of_node1(running, tmp_path / "reports") as agent:
            agent.publish(EVACUATE)

            async def fail(*_: object) -> None:
                raise OSError(28, "No space left on device")

            with monkeypatch.context() as patched:
                patched.setattr(running.agents, "take", fail)
                assert await running.early_answers._ask(node1(running)) == early_answers.RETRY
            assert early_answers.PART in str(running.failures.listed())
            assert await running.early_answers._ask(node1(running)) == early_answers.LEAST
            assert early_answers.PART not in str(running.failures.listed())

    asyncio.run(scenario())
