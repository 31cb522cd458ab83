"""Agents of nodes that somebody else owns: what they answer is bounded, believed of nobody, and stops no other node."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import agents
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing

from tests.unit.daemon import twins
from tests.unit.daemon.maintenance import node_agents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

PATIENCE = 5.0
OK = '{"status": "Ok"}'
EVACUATE = '{"status": "evacuate"}'
PART = b'{"a": [1, 2]}\n' * 4096
MOST_SENT = 64 * 2**20


@dataclass
class World:
    """A lab, its service, where redirects lead, and how many bytes each kind of agent got rid of."""

    lab: world.Lab
    running: service.Service
    elsewhere: str
    sent: Counter[str] = field(default_factory=Counter)

    def report(self, name: str, said: str = EVACUATE, *, age: float = 0.0) -> bytes:
        return twins.envelope(self.lab, self.running.configuration.current.node(name), said, age=age)

    def forged(self, name: str) -> bytes:
        node = self.running.configuration.current.node(name)
        message = reports.message(node_uuid=node.uuid, timestamp_ns=time.time_ns(), data=EVACUATE, problem=None)
        return signing.sign(message, key=b"another", now=int(time.time())).encode()


def whole(body: bytes, *head: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *head, b"", b""]) + body


def packed(one: World) -> bytes:
    del one
    return whole(gzip.compress(b" " * 2**26), b"Content-Encoding: gzip")


def moved(one: World) -> bytes:
    return whole(b"", f"Location: http://{one.elsewhere}/1/report/node/diagnose".encode(), status=b"302 Found")


ANSWERS: dict[str, Callable[[World], bytes]] = {
    "packed": packed,
    "moved": moved,
    "of another node": lambda one: whole(one.report("node1", OK)),
    "forged": lambda one: whole(one.forged("node1")),
    "old": lambda one: whole(one.report("node1", age=3600)),
    "of the future": lambda one: whole(one.report("node1", age=-86400)),
    "nested": lambda _: whole(b"[" * 500_000),
    "numbers": lambda _: whole(b'{"msg": ' + b"9" * 500_000 + b', "salt": "1", "hmac": "2"}'),
    "surrogates": lambda _: whole(b'{"msg": "\\ud800", "salt": "1", "hmac": "\\udfff"}'),
    "binary": lambda _: whole(bytes(range(256)) * 1000),
    "too long a length": lambda one: whole(one.forged("node1")[:-5], b"Content-Length: 999999999999999999999"),
    "negative length": lambda one: whole(one.forged("node1"), b"Content-Length: -1"),
    "no http": lambda _: b"\x16\x03\x01\x02\x00 * BYE \x1b[2J\r\n\r\n",
    "status": lambda _: b"HTTP/1.1 99999999999 {{ 7 * 7 }}\r\n\r\n",
    "nothing": lambda _: b"",
}
ENDLESS = ("endless", "endless chunks", "endless head", "slow head", "slow body", "open")


async def _last(kind: str, one: World, writer: asyncio.StreamWriter) -> None:
    """Answer without an end."""

    async def send(data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        one.sent[kind] += len(data)

    if kind in {"endless", "endless chunks"}:
        is_chunked = kind == "endless chunks"
        await send(whole(b"", b"Transfer-Encoding: chunked") if is_chunked else whole(b""))
        part = b"%x\r\n%s\r\n" % (len(PART), PART) if is_chunked else PART
    elif kind == "endless head":
        await send(b"HTTP/1.1 200 OK\r\n")
        part = b"X-Filler: " + b"y" * 5000 + b"\r\n"
    else:
        await send(b"HTTP/1.1 200 OK\r\n" if kind == "slow head" else whole(b""))
        part = b""
    while one.sent[kind] < MOST_SENT:
        if part:
            await send(part)
        else:
            if kind != "open":
                await send(b"x")
            await asyncio.sleep(0.1)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> service.Service:
    monkeypatch.setattr(agents, "ANSWER_SECONDS", PATIENCE)
    return twins.assemble(twins.lab(tmp_path, nodes=2 + len(ANSWERS) + len(ENDLESS)), monkeypatch)[0]


NAMES = {f"node{number}": kind for number, kind in enumerate([*ANSWERS, *ENDLESS], start=3)}


async def _serve(one: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    name = "node" + writer.get_extra_info("sockname")[0].rpartition(".")[2]
    kind = NAMES.get(name, "")
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        if b"cpu-avg-load" in await reader.readuntil(b"\r\n\r\n"):
            digits = "9" * 6000 if name == "node2" else 1.5
            writer.write(whole(node_agents.load(one.lab, one.running, name, digits)))
        elif kind in ENDLESS:
            await _last(kind, one, writer)
        else:
            writer.write(ANSWERS[kind](one) if kind else whole(one.report(name, OK)))
        await writer.drain()
    writer.close()


def _judge(one: World, spooled: dict[str, int]) -> None:
    running = one.running
    uuids = {name: running.configuration.current.node(name).uuid for name in [*NAMES, "node1", "node2"]}
    honest = {uuids["node1"], uuids["node2"]}
    assert {path.stem for path in running.where.reports.glob("*.json")} == honest
    assert {uuid: said.status.value for uuid, said in running.intake.observed().items()} == dict.fromkeys(honest, "Ok")
    assert uuids["node1"] in running.agents.busy_cpus()
    assert uuids["node2"] not in running.agents.busy_cpus()
    assert max(spooled.values()) <= reports.LIMIT + 1
    assert max(one.sent.values()) < MOST_SENT / 2, one.sent
    silent = {kind for name, kind in NAMES.items() if running.intake.is_silent(uuids[name])}
    assert silent == set(NAMES.values()), "none of them has signed an answer that counts"
    assert all(len(seen.text) < 300 and seen.text.isprintable() for seen in running.agents.seen.values())


async def _polled(one: World) -> tuple[dict[str, int], int]:
    """Ask all agents once; returns the sizes of what is in the spool, and the most memory that it took."""
    server = await asyncio.start_server(lambda *streams: _serve(one, *streams), "0.0.0.0", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await node_agents.poll_agents(one.running, port, balance=True, balance_dynamic_load=True)
        tracemalloc.start()
        try:
            async with asyncio.timeout(20 * PATIENCE):
                await one.running.agents.ask()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return {path.name: path.stat().st_size for path in one.running.where.spool.iterdir()}, most


def test_agents_that_lie_flood_and_hang_change_nothing_and_hold_nobody_up(running: service.Service) -> None:
    """node1 is honest, node2's key is known to its thief, and every other node is of one kind of evil."""

    async def scenario() -> None:
        followed: list[str] = []

        async def elsewhere(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            followed.append("somebody came")
            writer.close()

        async with await asyncio.start_server(elsewhere, "127.88.1.1", 0) as other:
            address, port = other.sockets[0].getsockname()
            one = World(twins.lab_of(running), running, f"{address}:{port}")
            spooled, most = await _polled(one)
            serial = running.configuration.current.serial_no
            await running.intake.take_all()
        _judge(one, spooled)
        assert most < (len(NAMES) + 4) * 4 * reports.LIMIT
        assert running.configuration.current.serial_no == serial
        assert followed == []

    asyncio.run(scenario())
