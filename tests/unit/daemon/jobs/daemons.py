"""A daemon for tests of the queue, and the opcodes that they submit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import process, values

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    import pytest
    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

SUCCESS, ERROR, CANCELED = values.Status.SUCCESS, values.Status.ERROR, values.Status.CANCELED


class Daemon:
    """Starts services on one lab, each in an event loop of its own."""

    def __init__(self, lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = lab
        self.monkeypatch = monkeypatch

    def run(
        self,
        act: Callable[[service.Service, twins.Processes], Coroutine[None, None, None]],
        *,
        limit: int = 8,
        outcomes: dict[str, str] | None = None,
    ) -> None:
        async def scenario() -> None:
            running, twin = twins.assemble(self.lab, self.monkeypatch, limit=limit, outcomes=outcomes)
            self.monkeypatch.setattr(process, "end_run", lambda run: kill(twin, run))
            await act(running, twin)
            await running.queue.stop()

        asyncio.run(scenario())


async def kill(twin: twins.Processes, run: Path) -> None:
    if run in twin.held():
        twin.finish(run, "lost")


async def cancel(running: service.Service, number: int) -> values.Job:
    """Cancel a job and wait for its end, which a running one reaches after it was looked at."""
    await running.queue.cancel(number, kill=True)
    await running.queue.wait(number, seconds=twins.LIMIT)
    job = running.queue.find(number)
    assert job.is_final
    return job


def move(running: service.Service, number: int = 1) -> values.Opcode:
    """Migrate an instance from node1 to its secondary."""
    cluster = running.configuration.current
    one = cluster.instance(f"instance{number}")
    params = {"instance": one.uuid, "source": cluster.node("node1").uuid, "target": one.secondary_nodes[0]}
    return values.Opcode("migrate", params)


def power(running: service.Service, command: str = "status", *, node: str = "node2") -> values.Opcode:
    return values.Opcode("power", {"node": running.configuration.current.node(node).uuid, "command": command})


def health(running: service.Service) -> values.Opcode:
    """One that takes a common slot, at no other node than `power`."""
    return values.Opcode("health", {"node": running.configuration.current.node("node2").uuid})


def drain(running: service.Service, name: str = "node4") -> values.Opcode:
    return values.Opcode("node_role", {"node": running.configuration.current.node(name).uuid, "drained": True})


def depends(on: int, *accepted: values.Status) -> tuple[values.Dependency, ...]:
    return (values.Dependency(on, accepted) if accepted else values.Dependency(on),)


def reads(running: service.Service, job: int) -> list[str]:
    return [one.status.value for one in running.queue.jobs[job].opcodes]


def primary(running: service.Service, number: int = 1) -> str:
    cluster = running.configuration.current
    return cluster.node_name(cluster.instance(f"instance{number}").primary_node)


def on_disk(running: service.Service) -> dict[int, values.Job]:
    return running.queue._ports.store.load()


async def until(running: service.Service, condition: Callable[[], bool]) -> None:
    """Wait for what some change of state makes true."""
    async with asyncio.timeout(twins.LIMIT):
        while not condition():
            await running.news.after(running.news.number, seconds=twins.LIMIT)


async def later(seconds: float) -> None:
    """Move the clock of the event loop, by which timers go; nobody waits so long."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
    for _ in range(5):
        await asyncio.sleep(0)


def delay(duration: float = 0, priority: int = 0, **locks: str) -> values.Opcode:
    """An opcode that waits, under locks such as `x="exclusive"` of node x."""
    params = {"duration": duration, "locks": {f"node/{name}": mode for name, mode in locks.items()}}
    return values.Opcode("test_delay", params, priority)
