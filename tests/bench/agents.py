"""What asking 1,000 node agents costs: CPU and wall of one poll and of taking its reports in, and with 5 % dead nodes.

And what it costs to wait for early answers of all of them at rest, and to get them all at once.

Meanwhile somebody wants a turn of the event loop every 10 ms, as any request does: the longest wait is told.
Run by `make bench`. The agents are one process at 1,000 addresses of loopback; each answer is signed when it is asked
for, as no report may come twice. A dead node takes a connection and never answers, which is the dearest way to be dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.maintenance import agents, early_answers
from ansible_collections.roundsman.cluster.daemon.maintenance.reports import Intake
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import reports, signing, tree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from multiprocessing.connection import Connection

NODES = 1000
DEAD = NODES // 20
INTERVAL = clusters.Settings().diagnose_interval
TURN = 0.01
SETTLE = 10.0
"""Seconds until all long questions are asked."""
SHARE, MB = 0.05, 200
"""What waiting for early answers may cost of a core, and the memory of the process."""
CHANGED = '{"status": "Ok", "details": "something else"}'
KEY = b"0123456789abcdef0123456789abcdef01234567\n"


@dataclass
class Known:
    """As much of the configuration as a poll reads."""

    current: clusters.Cluster


def main() -> int:
    """Measure, and print what it cost."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_answer_all, args=(theirs,), daemon=True)
    process.start()
    try:
        with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
            port = ours.recv()
            wrong = asyncio.run(_measure(Path(folder), port=port))
            change = partial(os.kill, process.pid or 0, signal.SIGUSR1)
            wrong += asyncio.run(_measure_waiting(Path(folder), port=port, change=change))
    finally:
        process.kill()
    print(*(wrong or [f"every poll is done within its interval of {INTERVAL:g} s"]), sep="\n")
    return 1 if wrong else 0


async def _measure(folder: Path, *, port: int) -> list[str]:
    where = tree.Tree(folder)
    for path in (where.lib, where.spool):
        path.mkdir(parents=True, exist_ok=True)
    where.hmac_key.write_bytes(KEY)
    wrong: list[str] = []
    for title, cluster, dead in (
        (f"{NODES} agents", _cluster(port), 0),
        ("and their loads", _cluster(port, loads=True), 0),
        (f"{DEAD} of them dead", _cluster(port, dead=DEAD), DEAD),
    ):
        known = Known(cluster)
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
    known = Known(_cluster(port))
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


def _address(number: int, *, is_dead: bool) -> str:
    return f"127.{90 if is_dead else 89}.{number // 250}.{number % 250 + 1}"


def _cluster(port: int, *, dead: int = 0, loads: bool = False) -> clusters.Cluster:
    nodes = {
        f"uuid-{number}": clusters.Node(
            f"uuid-{number}", f"node{number}", "group", primary_ip=_address(number, is_dead=number < dead)
        )
        for number in range(NODES)
    }
    chosen = replace(clusters.Settings(), agent_port=port, balance=loads, balance_dynamic_load=loads)
    return clusters.Cluster(
        clusters.Parameters("bench", "cluster", "uuid-0"),
        nodegroups={"group": clusters.Group("group", "default")},
        nodes=nodes,
        maintenance=clusters.Maintenance(settings=chosen),
    )


def _answer_all(told: Connection) -> None:
    asyncio.run(_serve(told))


async def _serve(told: Connection) -> None:
    keys = {number: signing.node_key(KEY, f"uuid-{number}") for number in range(NODES)}
    changed = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, changed.set)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, kind, high, low = (int(part) for part in writer.get_extra_info("sockname")[0].split("."))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if waits := re.search(rb"\?after=.*&seconds=([0-9]+) ", head):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), float(waits[1]))
            if kind == 90:
                await reader.read()
            else:
                number, now = 250 * high + low - 1, time.time_ns()
                text = reports.message(
                    node_uuid=f"uuid-{number}",
                    timestamp_ns=now,
                    data='{"status": "Ok"}' if not changed.is_set() else CHANGED,
                    problem=None,
                )
                body = signing.sign(text, key=keys[number], now=now // 10**9).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(one, "0.0.0.0", 0, backlog=1024)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
