"""Nodes of a lab that vote: one server on loopback for all, behind which each has the real answers of its agent."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.module_utils import leader_record, node_settings
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import votes
from ansible_collections.roundsman.cluster.plugins.module_utils.monitoring import following
from ansible_collections.roundsman.cluster.plugins.plugin_utils import voting as asking
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Kept
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

ELSEWHERE = "0c1d2e3f-0000-4000-8000-0000000000ee"
"""The master (UUID) of another controller, which no node of the lab is."""


@dataclass
class Voters:
    """The nodes by name; those that are `silent` accept and say nothing, those `old` do not know the question,
    those `deaf` take none from this machine.

    What is offered to those that are `busy` is lost. `forged` makes of a node's true answer what is sent instead. The
    questions are counted, and those over SSH (`reached`).
    """

    followers: dict[str, following.Follower]
    silent: set[str] = field(default_factory=set)
    old: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    busy: set[str] = field(default_factory=set)
    forged: dict[str, Callable[[bytes, bytes], bytes]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    settings: dict[str, node_settings.Settings] = field(default_factory=dict)

    def follows(self, name: str) -> Kept | None:
        return leader_record.load(self.settings[name].root)

    def follow(self, name: str, kept: Kept) -> None:
        leader_record.keep(self.settings[name].root, kept)

    def restart_agent(self, name: str) -> None:
        self.followers[name] = following.Follower(self.settings[name])

    async def answer(self, name: str, data: bytes) -> tuple[int, bytes]:
        self.asked[name] += 1
        is_lost = name in self.busy and b'offer\\": null' not in data
        if name in self.silent or is_lost:
            await asyncio.sleep(3600)
        if name in self.deaf:
            return 403, b""
        if name in self.old:
            return 405, b"Method Not Allowed"
        given = await asyncio.to_thread(self.followers[name].answer, data)
        return (200, self.forged[name](data, given) if name in self.forged else given) if given else (403, b"")

    async def over_ssh(
        self, _: object, nodes: Sequence[clusters.Node], question: Callable[[str], votes.Question]
    ) -> asking.Poll:
        """As `SshVotes`: the same answers by another way, on which nobody remembers when the leader asked last."""
        poll = asking.Poll()
        for node in nodes:
            self.reached[node.name] += 1
            if node.name not in self.silent:
                asked, key = question(node.uuid), self.key(node.name)
                given = self.followers[node.name].answer(votes.sealed_question(asked, key=key, now=0))
                poll.answers[node.uuid] = replace(votes.answer(given, key=key, asked=asked), heard=None)
        return poll

    def key(self, name: str) -> bytes:
        return node_settings.key(self.settings[name])

    def claims(self, name: str, kept: Kept, *, heard: float | None = None) -> None:
        """Have a node say, signed with its own key, that it follows something else than it does."""

        def forge(data: bytes, _: bytes) -> bytes:
            asked = votes.question(data, key=self.key(name), node=self.settings[name].node)
            claim = votes.Answer(asked.node, asked.nonce, "0c1d2e3f-0000-4000-8000-00000000000a", kept, heard)
            return votes.sealed_answer(claim, key=self.key(name), now=0)

        self.forged[name] = forge


@contextlib.asynccontextmanager
async def voting(running: service.Service) -> AsyncIterator[Voters]:
    """Have all nodes of a lab vote, and a controller that knows that."""
    settings = node_settings_of(running)
    voters = Voters({name: following.Follower(found) for name, found in settings.items()}, settings=settings)

    async def answer(name: str, data: bytes) -> tuple[int, bytes]:
        # Tests give nodes another answer later.
        return await voters.answer(name, data)

    async with answering(running, answer):
        yield voters


def node_settings_of(running: service.Service) -> dict[str, node_settings.Settings]:
    """The settings of the nodes of a lab, by name."""
    nodes = twins.lab_of(running).nodes()
    return {node.name: node_settings.load({"ROUNDSMAN_ROOT": str(node.root)}) for node in nodes}


@contextlib.asynccontextmanager
async def answering(
    running: service.Service, answer: Callable[[str, bytes], Awaitable[tuple[int, bytes]]], *, path: str = ""
) -> AsyncIterator[None]:
    """Have the agents of all nodes of a lab at 127.88.0.0/24, and a controller that knows that.

    `answer` gives the status and the body for the name of a node and the body of a request, which is for `path`.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = "node" + writer.get_extra_info("sockname")[0].rpartition(".")[2]
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert head.startswith(f"POST {path}")
            length = int(head.partition("Content-Length: ")[2].partition("\r\n")[0])
            status, body = await answer(name, await reader.readexactly(length))
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    head = running.configuration.current
    told = [
        membership.NodeStands(replace(node, primary_ip=f"127.88.0.{node.name.removeprefix('node')}"))
        for node in head.nodes.values()
    ]
    port = server.sockets[0].getsockname()[1]
    stands = changes.SettingsStand(replace(head.maintenance.settings, agent_port=port))
    await running.configuration.commit(lambda _: [*told, stands])
    try:
        yield
    finally:
        server.close()
