"""Unforeseen exceptions in what works for others: nobody waits for ever, and the daemon ends."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon import failures
from ansible_collections.roundsman.cluster.daemon.locks import desk, holders
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import locks

from tests.unit.daemon import twins
from tests.unit.daemon.api import reached
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon import service


def fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("can't start new thread")


def test_submissions_fail_at_once_after_an_unforeseen_exception_and_the_daemon_ends(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(running: service.Service, _: twins.Processes) -> None:
        monkeypatch.setattr(running.queue._ports.store, "save_new", fail)
        async with asyncio.timeout(20):
            waiting = [running.queue.submit([twins.job(0, daemons.drain(running))]) for _ in range(3)]
            found = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in found] == [failures.Defect] * 3
            monkeypatch.undo()
            with pytest.raises(failures.Defect, match="can't start new thread"):
                await running.queue.submit([twins.job(0, daemons.drain(running))])
            with pytest.raises(failures.Defect, match="can't start new thread"):
                await running.failures.until_defect()
        assert running.queue.jobs == {}

    daemon.run(act)


def test_a_lock_owner_that_cannot_be_watched_ends_the_daemon(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(running: service.Service, _: twins.Processes) -> None:
        with reached.livelock(running.where, "play"):
            monkeypatch.setattr(desk, "ended", fail)
            owner = holders.Owner("play", os.fspath(running.where.livelocks / "play"))
            await running.desk.acquire(owner, {"node/x": locks.Mode.EXCLUSIVE})
            async with asyncio.timeout(20):
                with pytest.raises(failures.Defect):
                    await running.failures.until_defect()

    daemon.run(act)


def test_a_job_that_is_stuck_by_a_defect_is_in_the_health_with_what_to_do(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        monkeypatch.setattr(twin, "start", fail)
        await running.queue.submit([twins.job(0, daemons.move(running))])
        await daemons.until(running, lambda: bool(running.failures.listed()))
        (failure,) = running.failures.listed()
        assert failure["part"] == "job 1"
        assert "jobs cancel 1" in failure["remedy"]

    daemon.run(act)
