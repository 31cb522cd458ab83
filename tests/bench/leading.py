"""What the vote costs with which the daemon starts: 1,000 nodes, none or 5 % silent, and a round while it serves.

Run by `make bench`. The nodes are one process at 1,000 addresses of loopback, which remembers what they promise and
writes nothing. A silent node takes a connection and never answers, which is the dearest way to be silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import epochs, votes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree

from tests.bench import loopback_nodes
from tests.bench.loopback_nodes import NODES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection

SILENT = NODES // 20
MOST = 1.0
"""Seconds that a start may take longer for the vote."""
STARTS = 5
BOOT = "0c1d2e3f-0000-4000-8000-00000000000a"


def main() -> int:
    """Measure, and print what it cost."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with loopback_nodes.at_work(_answer_all) as (folder, port, _):
        where, wrong = tree.Tree(folder), []
        where.lib.mkdir(parents=True)
        where.hmac_key.write_bytes(loopback_nodes.KEY)
        for silent in (0, SILENT):
            wrong += asyncio.run(_measure(where, port=port, silent=silent))
    print(*(wrong or [f"the vote of {NODES} nodes takes less than {MOST:g} s"]), sep="\n")
    return 1 if wrong else 0


async def _measure(where: tree.Tree, *, port: int, silent: int) -> list[str]:
    known = loopback_nodes.Known(loopback_nodes.cluster(port, silent=silent))
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


def _answer_all(told: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    asyncio.run(_serve(told))


async def _serve(told: Connection) -> None:
    keys = loopback_nodes.keys()
    kept: dict[int, epochs.Kept] = {}

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, is_silent = loopback_nodes.place(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
            data = await reader.readexactly(length)
            if is_silent:
                await reader.read()
            else:
                asked = votes.question(data, key=keys[number], node=loopback_nodes.uuid(number))
                if asked.offer is not None:
                    kept[number] = asked.offer
                answer = votes.Answer(asked.node, asked.nonce, BOOT, kept.get(number), heard=1.0)
                body = votes.sealed_answer(answer, key=keys[number], now=int(time.time()))
                writer.write(loopback_nodes.answer(body))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(one, "0.0.0.0", 0, backlog=1024)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
