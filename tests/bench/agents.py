"""What asking 1,000 node agents costs: CPU and wall of one poll and of taking its reports in, and with 5 % dead nodes.

And what it costs to wait for early answers of all of them at rest, and to get them all at once.

Meanwhile somebody wants a turn of the event loop every 10 ms, as any request does: the longest wait is told.
Run by `make bench`. The agents are one process at 1,000 addresses of loopback; each answer is signed when it is asked
for, as no report may come twice. A dead node takes a connection and never answers, which is the dearest way to be dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.maintenance import agents, early_answers
from ansible_collections.roundsman.cluster.daemon.maintenance.reports import Intake
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import reports, signing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.bench import loopback_nodes
from tests.bench.loopback_nodes import NODES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

DEAD = NODES // 20
INTERVAL = clusters.Settings().diagnose_interval
TURN = 0.01
SETTLE = 10.0
"""Seconds until all long questions are asked."""
SHARE, MB = 0.05, 200
"""What waiting for early answers may cost of a core, and the memory of the process."""
CHANGED = '{"status": "Ok", "details": "something else"}'


def main() -> int:
    """Measure, and print what it cost."""
    with loopback_nodes.at_work(_answer_all) as (folder, port, pid):
        wrong = asyncio.run(_measure(folder, port=port))
        wrong += asyncio.run(_measure_waiting(folder, port=port, change=partial(os.kill, pid, signal.SIGUSR1)))
    print(*(wrong or [f"every poll is done within its interval of {INTERVAL:g} s"]), sep="\n")
    return 1 if wrong else 0


async def _measure(folder: Path, *, port: int) -> list[str]:
    where = tree.Tree(folder)
    for path in (where.lib, where.spool):
        path.mkdir(parents=True, exist_ok=True)
    where.hmac_key.write_bytes(loopback_nodes.KEY)
    wrong: list[str] = []
    for title, cluster, dead in (
        (f"{NODES} agents", loopback_nodes.cluster(port), 0),
        ("and their loads", loopback_nodes.cluster(port, balance=True, balance_dynamic_load=True), 0),
        (f"{DEAD} of them dead", loopback_nodes.cluster(port, silent=DEAD), DEAD),
    ):
        known = loopback_nodes.Known(cluster)
        asking = agents.Agents(known, spool=where.spool, key=where.hmac_key, clock=time.time)  # type: ignore[arg-type]
        asked = await _cost(asking.ask)
        intake = Intake(where, clock=time.time, cluster=partial(getattr, known, "current"))
        print(f"{title}: asked {asked}; taken in {await _cost(intake.take_all)}")
        silent, answering = asking.silences()
        if (len(silent), answering) != (dead, NODES - dead) or len(intake.observed()) < NODES - dead:
            wrong.append(f"{title}: {len(silent)} silent, {answering} answered, {dict(intake.rejections)}")
        if asked.wall > INTERVAL:
            wrong.append(f"{title}: the poll took longer than its interval")
    return wrong


async def _measure_waiting(folder: Path, *, port: int, change: Callable[[], None]) -> list[str]:
    where = tree.Tree(folder)
    known = loopback_nodes.Known(loopback_nodes.cluster(port))
    asking = agents.Agents(known, spool=where.spool, key=where.hmac_key, clock=time.time)  # type: ignore[arg-type]
    early = early_answers.EarlyAnswers(known, asking, key=where.hmac_key)  # type: ignore[arg-type]
    await asking.ask()
    intake = Intake(where, clock=time.time, cluster=partial(getattr, known, "current"))
    await intake.take_all()
    work = asyncio.create_task(early.run())
    await asyncio.sleep(SETTLE)
    rest = await _cost(partial(asyncio.sleep, early_answers.WAIT_SECONDS))
    share, memory = rest.cpu / rest.wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{NODES} early answers waited for: {100 * share:.1f} % of a core, {memory:.0f} MB at most")
    change()

    async def all_are_there() -> None:
        async with asyncio.timeout(INTERVAL):
            while len(list(where.spool.iterdir())) < NODES:  # noqa: ASYNC110 - a folder
                await asyncio.sleep(0.1)

    changed = await _cost(all_are_there)
    print(f"all of them at once: {changed}")
    work.cancel()
    await asyncio.wait([work])
    return (
        [f"at rest they cost {100 * share:.1f} % of a core and {memory:.0f} MB"] if share > SHARE or memory > MB else []
    )


@dataclass(frozen=True)
class Cost:
    """Seconds; `waited` is how long somebody else waited for a turn at most."""

    wall: float
    cpu: float
    waited: float

    def __str__(self) -> str:
        return (
            f"in {self.wall:.1f} s, {self.cpu:.2f} s of CPU ({1000 * self.cpu / NODES:.2f} ms each), "
            f"others wait {1000 * self.waited:.0f} ms at most"
        )


async def _cost(work: Callable[[], Awaitable[object]]) -> Cost:
    waits = [0.0]
    other = asyncio.create_task(_want_turns(waits))
    await asyncio.sleep(0)
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    await asyncio.sleep(2 * TURN)
    other.cancel()
    return Cost(wall, cpu, max(waits))


async def _want_turns(waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(TURN)
        waits.append(time.perf_counter() - began - TURN)


def _answer_all(told: Connection) -> None:
    asyncio.run(_serve(told))


async def _serve(told: Connection) -> None:
    keys = loopback_nodes.keys()
    changed = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, changed.set)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, is_dead = loopback_nodes.place(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if waits := re.search(rb"\?after=.*&seconds=([0-9]+) ", head):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), float(waits[1]))
            if is_dead:
                await reader.read()
            else:
                now = time.time_ns()
                text = reports.message(
                    node_uuid=loopback_nodes.uuid(number),
                    timestamp_ns=now,
                    data='{"status": "Ok"}' if not changed.is_set() else CHANGED,
                    problem=None,
                )
                body = signing.sign(text, key=keys[number], now=now // 10**9).encode()
                writer.write(loopback_nodes.answer(body))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(one, "0.0.0.0", 0, backlog=1024)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
