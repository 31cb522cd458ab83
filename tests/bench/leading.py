"""What the vote costs with which the daemon starts: 1,000 nodes, none or 5 % silent, and a round while it serves.

Run by `make bench`. The nodes are one process at 1,000 addresses of loopback, which remembers what they promise and
writes nothing. A silent node takes a connection and never answers, which is the dearest way to be silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import epochs, signing, tree, votes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection

NODES = 1000
SILENT = NODES // 20
MOST = 1.0
"""Seconds that a start may take longer for the vote."""
STARTS = 5
BOOT = "0c1d2e3f-0000-4000-8000-00000000000a"
KEY = b"0123456789abcdef0123456789abcdef01234567\n"


@dataclass
class Known:
    """As much of the configuration as a vote reads."""

    current: clusters.Cluster


def main() -> int:
    """Measure, and print what it cost."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_answer_all, args=(theirs,), daemon=True)
    process.start()
    try:
        with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
            port, wrong = ours.recv(), []
            where = tree.Tree(Path(folder))
            where.lib.mkdir(parents=True)
            where.hmac_key.write_bytes(KEY)
            for silent in (0, SILENT):
                wrong += asyncio.run(_measure(where, port=port, silent=silent))
    finally:
        process.kill()
    print(*(wrong or [f"the vote of {NODES} nodes takes less than {MOST:g} s"]), sep="\n")
    return 1 if wrong else 0


async def _measure(where: tree.Tree, *, port: int, silent: int) -> list[str]:
    known = Known(_cluster(port, silent=silent))
    walls = []
    for _ in range(STARTS):
        leader = leadership.Leadership(where, known, is_at_work=lambda: False)  # type: ignore[arg-type]
        begin = partial(leader.begin, leadership.Statement(), on_wait=print)
        wall, cpu = await _cost(begin)
        walls.append(wall)
        print(f"{NODES} nodes, {silent} silent: {leader.epoch} begun in {wall:.2f} s, {cpu:.2f} s of CPU")
    wall, cpu = await _cost(leader.step)
    print(f"a round while it serves: {wall:.2f} s, {cpu:.2f} s of CPU")
    return [f"with {silent} silent nodes a start took {max(walls):.2f} s"] if max(walls) > MOST else []


async def _cost(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _address(number: int, *, is_silent: bool) -> str:
    return f"127.{90 if is_silent else 89}.{number // 250}.{number % 250 + 1}"


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _cluster(port: int, *, silent: int) -> clusters.Cluster:
    nodes = {
        _uuid(number): clusters.Node(
            _uuid(number), f"node{number}", "group", primary_ip=_address(number, is_silent=number < silent)
        )
        for number in range(NODES)
    }
    return clusters.Cluster(
        clusters.Parameters("bench", "cluster", _uuid(0)),
        nodegroups={"group": clusters.Group("group", "default")},
        nodes=nodes,
        maintenance=clusters.Maintenance(settings=replace(clusters.Settings(), agent_port=port)),
    )


def _answer_all(told: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    asyncio.run(_serve(told))


async def _serve(told: Connection) -> None:
    keys = {number: signing.node_key(KEY, _uuid(number)) for number in range(NODES)}
    kept: dict[int, epochs.Kept] = {}

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, kind, high, low = (int(part) for part in writer.get_extra_info("sockname")[0].split("."))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            data = await reader.readexactly(length)
            if kind == 90:
                await reader.read()
            else:
                number = 250 * high + low - 1
                asked = votes.question(data, key=keys[number], node=_uuid(number))
                if asked.offer is not None:
                    kept[number] = asked.offer
                answer = votes.Answer(asked.node, asked.nonce, BOOT, kept.get(number), heard=1.0)
                body = votes.sealed_answer(answer, key=keys[number], now=int(time.time()))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(one, "0.0.0.0", 0, backlog=1024)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
