"""Agents of a lab's nodes on loopback: one server for all, each node at an address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import collected, signing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, membership

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

Status = tuple[int, bytes]


@dataclass
class Answers:
    """What the agents say: `said` by path and node, or for any node; a node without an answer hangs up."""

    said: dict[tuple[str, str], Status] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0
    two_at_once: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event | None = None

    def diagnose(self, node: str, body: bytes, *, status: int = 200) -> None:
        self.said[collected.path(collected.DIAGNOSE), node] = (status, body)

    def load(self, node: str, body: bytes) -> None:
        self.said[collected.path(collected.CPU_LOAD), node] = (200, body)


async def poll_agents(running: service.Service, port: int, **settings: Any) -> None:
    """Let the cluster's nodes be asked at addresses of their own: node1 at 127.88.0.1, and so on."""
    head = running.configuration.current
    told = [
        membership.NodeStands(replace(one, primary_ip=f"127.88.0.{one.name.removeprefix('node')}"))
        for one in head.nodes.values()
    ]
    stands = changes.SettingsStand(replace(head.maintenance.settings, agent_port=port, **settings))
    await running.configuration.commit(lambda _: [*told, stands])


@contextlib.asynccontextmanager
async def answering(running: service.Service, **settings: Any) -> AsyncIterator[Answers]:
    """Have agents, at 127.88.0.0/24, and a daemon that asks them."""
    answers = Answers()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node = "node" + writer.get_extra_info("sockname")[0].rpartition(".")[2]
        answers.at_once += 1
        answers.most_at_once = max(answers.most_at_once, answers.at_once)
        if answers.at_once > 1:
            answers.two_at_once.set()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            answers.asked[f"{node} {path}"] += 1
            if answers.held is not None:
                await answers.held.wait()
            if (path, node) in answers.said:
                status, body = answers.said[path, node]
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
                await writer.drain()
        answers.at_once -= 1
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    async with server:
        await poll_agents(running, server.sockets[0].getsockname()[1], **settings)
        yield answers


def load(one: world.Lab, running: service.Service, name: str, cpus: Any, *, key: bytes | None = None) -> bytes:
    """The report of the load that a node would send."""
    node = running.configuration.current.node(name)
    own = (one.node(name).root / "var/lib/roundsman/node.key").read_bytes()
    data = f'{{"cpu_number": 4, "cpus": [], "cpu_total": {cpus}}}'
    now = time.time()
    text = collected.message(
        collected.CPU_LOAD, node_uuid=node.uuid, timestamp_ns=int(now * 1e9), data=data, problem=None
    )
    return signing.sign(text, key=key or own, now=int(now)).encode()


def ok(one: world.Lab, running: service.Service, name: str, said: str = '{"status": "Ok"}') -> bytes:
    """The diagnosis that a node would send."""
    return twins.envelope(one, running.configuration.current.node(name), said)
