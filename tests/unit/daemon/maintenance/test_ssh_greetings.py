"""Whether SSH servers greet, and how often in a row they did not beside an agent that is silent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import building
from ansible_collections.roundsman.cluster.daemon.maintenance import ssh_greetings

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import node_agents

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    return twins.assemble(twins.lab(tmp_path), monkeypatch)[0]


async def greets(running: service.Service, said: bytes | None, *, seconds: float = 60.0, **variables: object) -> bool:
    """Whether a server that says this greets; None says nothing, and keeps the connection."""
    over = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said is None:
            await over.wait()
        else:
            writer.write(said)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        known = {"ansible_host": "127.0.0.1", "ansible_port": port, "ansible_connection": "ssh", **variables}
        building.write_host_variables(running.where, "node1", known)
        node = running.configuration.current.node("node1")
        try:
            return await ssh_greetings.greets(node, root=running.where.root, seconds=seconds)
        finally:
            over.set()


@pytest.mark.parametrize(
    ("said", "is_greeting"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", True),
        (b"Welcome\r\nSSH-2.0-OpenSSH_9.2\r\n", True),
        (b"", False),
        (b"HTTP/1.0 400 Bad Request\r\n", False),
        (b"x" * 5000, False),
        (b"\n" * 100 + b"SSH-2.0-x\r\n", False),
    ],
)
def test_a_server_that_says_who_it_is_has_greeted(running: service.Service, said: bytes, *, is_greeting: bool) -> None:
    assert asyncio.run(greets(running, said)) is is_greeting


def test_an_open_port_alone_is_no_greeting(running: service.Service) -> None:
    assert not asyncio.run(greets(running, None, seconds=0.05))


def test_a_node_that_is_not_reached_by_ssh_or_whose_variables_are_refused_does_not_greet(
    running: service.Service,
) -> None:
    said = b"SSH-2.0-OpenSSH_9.2\r\n"
    assert asyncio.run(greets(running, said, ansible_connection="ansible.builtin.ssh"))
    assert not asyncio.run(greets(running, said, ansible_connection="roundsman.cluster.lab_node"))
    assert not asyncio.run(greets(running, said, ansible_port="no port"))
    assert not asyncio.run(greets(running, said, ansible_host="127.0.0.1\0"))


def test_the_misses_of_agent_and_ssh_server_are_counted_together_and_a_greeting_ends_the_second(
    running: service.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        has_greeted = False
        released = asyncio.Event()

        async def answer(_node: clusters.Node) -> bool:
            await released.wait()
            return has_greeted

        monkeypatch.setattr(running.agents, "_greets", answer)
        async with node_agents.answering(running, dead_node_policy="fence", dead_after=3):
            node = running.configuration.current.node("node1")

            async def misses(*, times: int = 1) -> tuple[int, int]:
                async def ask() -> None:
                    for _ in range(times):
                        await running.agents.answers(node)

                asked = asyncio.create_task(ask())
                released.clear()
                greeting = asyncio.create_task(running.agents.ask_ssh(node))
                await asked
                released.set()
                await greeting
                silence = running.agents.silences()[0][node.uuid]
                return silence.misses, silence.ssh_misses

            await running.agents.answers(node)
            assert await misses() == (2, 0), "one greeting that is missing says nothing"
            assert await misses(times=2) == (4, 3), "it was asked all the while"
            has_greeted = True
            assert await misses() == (5, 0)
            has_greeted = False
            assert await misses() == (6, 0)
            released.set()
            await running.agents.ask_ssh(node)
            assert running.agents.seen[node.uuid].ssh_misses == 1, "the agent has missed no more"
            running.agents.count_anew()
            assert running.agents.seen[node.uuid].ssh_misses == 0
            assert await misses() == (2, 0)
            assert await misses() == (3, 2)

    asyncio.run(scenario())
