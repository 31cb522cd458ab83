"""What the daemon makes durable for a migration: how often, which files, and what of it while its event loop waits."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from ansible_collections.roundsman.cluster.daemon import service

NAMED = re.compile(r"/\.(.+?)\.\d+\.new$")


class Syncs:
    """Counts fsyncs by path, those of the thread of the event loop apart."""

    def __init__(self, root: Path) -> None:
        self.on_loop: collections.Counter[str] = collections.Counter()
        self.in_threads: collections.Counter[str] = collections.Counter()
        self._root = root
        self._sync = os.fsync
        self._loop = threading.get_ident()
        self._is_twin = False

    def sync(self, descriptor: int) -> None:
        path = NAMED.sub(r"/\1", str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        if not self._is_twin:
            counted = self.on_loop if threading.get_ident() == self._loop else self.in_threads
            counted[str(Path(path).relative_to(self._root))] += 1
        self._sync(descriptor)

    @contextlib.contextmanager
    def of_twin(self) -> Iterator[None]:
        """As long as this lasts it is the process of an opcode that writes."""
        self._is_twin = True
        yield
        self._is_twin = False


@pytest.fixture
def counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[service.Service], Coroutine[None, None, None]]], Syncs]:
    """A daemon that does something; returns the fsyncs of that."""

    def play(act: Callable[[service.Service], Coroutine[None, None, None]]) -> Syncs:
        daemon = daemons.Daemon(twins.lab(tmp_path), monkeypatch)
        syncs = Syncs(daemon.lab.controller / "var/lib/roundsman")
        finish = twins.Processes.finish

        def finished(*words: Any, **options: Any) -> None:
            with syncs.of_twin():
                finish(*words, **options)

        async def scenario(running: service.Service, _twin: twins.Processes) -> None:
            with monkeypatch.context() as patched:
                patched.setattr(twins.Processes, "finish", finished)
                patched.setattr(os, "fsync", syncs.sync)
                await act(running)
                await running.desk.landed()

        daemon.run(scenario)
        return syncs

    return play


def test_a_migration_waits_for_the_disk(
    counted: Callable[[Callable[[service.Service], Coroutine[None, None, None]]], Syncs],
) -> None:
    async def migrate(running: service.Service) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await asyncio.wait_for(running.queue.wait(1, seconds=twins.LIMIT), twins.LIMIT)
        assert running.queue.jobs[1].status is daemons.SUCCESS

    syncs = counted(migrate)
    assert syncs.on_loop == {}
    assert syncs.in_threads == {
        ".": 4,
        "config.data": 1,
        "config.history": 1,
        "locks.data": 2,
        "queue": 1,
        "queue/1": 3,
        "queue/1/job.json": 3,
    }
