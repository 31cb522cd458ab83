"""Many nodes at addresses of loopback, whose agents are one process: what benches of questions to nodes share."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import signing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

NODES = 1000
KEY = b"0123456789abcdef0123456789abcdef01234567\n"


@dataclass
class Known:
    """As much of the configuration as a question to all nodes reads."""

    current: clusters.Cluster


def uuid(number: int) -> str:
    """The UUID of a node by its number."""
    return f"00000000-0000-4000-8000-{number:012d}"


def keys() -> dict[int, bytes]:
    """The keys of all nodes by their numbers."""
    return {number: signing.node_key(KEY, uuid(number)) for number in range(NODES)}


def _address(number: int, *, is_silent: bool) -> str:
    return f"127.{90 if is_silent else 89}.{number // 250}.{number % 250 + 1}"


def place(writer: asyncio.StreamWriter) -> tuple[int, bool]:
    """The number of the node at which a connection came in, and whether it is silent."""
    _, kind, high, low = (int(part) for part in writer.get_extra_info("sockname")[0].split("."))
    return 250 * high + low - 1, kind == 90


def cluster(port: int, *, silent: int = 0, **settings: Any) -> clusters.Cluster:
    """The cluster of these nodes, the first of which are silent."""
    nodes = {
        uuid(number): clusters.Node(
            uuid(number), f"node{number}", "group", primary_ip=_address(number, is_silent=number < silent)
        )
        for number in range(NODES)
    }
    return clusters.Cluster(
        clusters.Parameters("bench", "cluster", uuid(0)),
        nodegroups={"group": clusters.Group("group", "default")},
        nodes=nodes,
        maintenance=clusters.Maintenance(settings=replace(clusters.Settings(), agent_port=port, **settings)),
    )


def answer(body: bytes) -> bytes:
    """An answer as agents give it."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


@contextlib.contextmanager
def at_work(answer_all: Callable[[Connection], None]) -> Iterator[tuple[Path, int, int]]:
    """A folder, the port of the agents, and the pid of their process, which sends the port first."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=answer_all, args=(theirs,), daemon=True)
    process.start()
    try:
        with tempfile.TemporaryDirectory(prefix="roundsman-bench-") as folder:
            yield Path(folder), ours.recv(), process.pid or 0
    finally:
        process.kill()
