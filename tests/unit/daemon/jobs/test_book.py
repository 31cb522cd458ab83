"""What becomes of a job while a change of it is on its way to a slow disk."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.daemon.maintenance import leadership
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import node_power

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.daemon import service

RUNNING = values.Status.RUNNING
PAUSE = job_filters.Filter("f1", 0, 0, (("jobid", [">", "id", 0]),), job_filters.Action.PAUSE)


class SlowDisk:
    """Writes the values of jobs at once, but one kind of them not before `disk` is set."""

    def __init__(self, running: service.Service, is_slow: Callable[[values.Job], bool]) -> None:
        self.reached = asyncio.Event()
        self.disk = threading.Event()
        loop, store = asyncio.get_running_loop(), running.queue._ports.store
        save = store.save

        def saving(job: values.Job) -> None:
            if is_slow(job):
                loop.call_soon_threadsafe(self.reached.set)
                assert self.disk.wait(twins.LIMIT)
            save(job)

        store.save = saving  # type: ignore[method-assign]

    async def is_reached(self) -> None:
        await asyncio.wait_for(self.reached.wait(), twins.LIMIT)


def begins(job: values.Job) -> bool:
    return job.opcodes[0].status is RUNNING and not job.canceling


def ends(job: values.Job) -> bool:
    return job.is_final


async def migrating(running: service.Service, is_slow: Callable[[values.Job], bool]) -> SlowDisk:
    """Job 1, a migration, once a value of it of this kind is on its way to the disk."""
    slow = SlowDisk(running, is_slow)
    await running.queue.submit([twins.job(1, daemons.move(running))])
    await slow.is_reached()
    return slow


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def paused_while_it_begins(running: service.Service) -> None:
    """A migration whose begin is written while a filter comes that lets it wait."""
    slow = await migrating(running, begins)
    await running.configuration.commit(lambda _: [changes.FilterStands(PAUSE)])
    running.queue.look()
    await turns()
    slow.disk.set()


def test_a_job_that_is_canceled_while_its_begin_is_written_is_one_that_ran(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        slow = await migrating(running, begins)
        canceling = asyncio.create_task(running.queue.cancel(1, kill=True))
        await turns()
        assert (twins.statuses(running)[1], canceling.done(), twin.ran) == ("waiting", False, [])
        slow.disk.set()
        assert (await canceling).status is values.Status.CANCELING
        assert len(twin.ran) == 1, "what it did is looked for"
        await twins.jobs_end(running)
        assert daemons.on_disk(running)[1] == running.queue.jobs[1]
        assert running.queue.jobs[1].status is daemons.CANCELED

    daemon.run(act, outcomes={"migrate": "held"})


def test_a_filter_that_comes_while_a_begin_is_written_leaves_no_job_that_runs_without_anybody_at_work(
    daemon: daemons.Daemon,
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await paused_while_it_begins(running)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success"}

    daemon.run(act)


@pytest.mark.parametrize("is_canceled", [False, True])
def test_an_emergency_that_comes_while_a_begin_is_written_holds_no_job_that_has_locks(
    daemon: daemons.Daemon, *, is_canceled: bool
) -> None:
    """The emergency power off waits for these locks, so it would wait for its own end."""

    async def act(running: service.Service, twin: twins.Processes) -> None:
        slow = SlowDisk(running, begins)
        reason = (values.Reason(submission.ROUNDS, "a repair", 0),)
        await running.queue.submit([dataclasses.replace(twins.job(1, daemons.move(running)), reason=reason)])
        await slow.is_reached()
        await running.configuration.commit(lambda _: [changes.EpoStands((), (), by="me", returning=False)])
        running.queue.look()
        await turns()
        canceling = asyncio.create_task(running.queue.cancel(1, kill=True)) if is_canceled else None
        await turns()
        slow.disk.set()
        await twins.jobs_end(running)
        if canceling is not None:
            await canceling
        assert twins.statuses(running) == {1: "canceled" if is_canceled else "success"}
        assert not running.desk.table.locks_of(values.lock_owner(1))

    daemon.run(act, outcomes={"migrate": "held"} if is_canceled else {})


def test_a_job_that_is_canceled_before_its_process_starts_starts_none(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, goes_on = asyncio.Event(), asyncio.Event()
    times: list[None] = []

    async def clear(*_: object) -> None:
        times.append(None)
        if len(times) > 1:
            waits.set()
            await goes_on.wait()

    monkeypatch.setattr(leadership.Leadership, "clear", clear)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        await paused_while_it_begins(running)
        await asyncio.wait_for(waits.wait(), twins.LIMIT)
        await running.queue.cancel(1, kill=True)
        goes_on.set()
        await twins.jobs_end(running)
        assert (twin.ran, twins.statuses(running)) == ([], {1: "canceled"})

    daemon.run(act)


def test_a_fact_that_comes_while_a_begin_is_written_counts(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: list[str] = []

    def check(*_: object) -> None:
        if facts:
            raise errors.Refused(facts[0])

    monkeypatch.setattr(node_power.Power, "check_facts", check)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        slow = SlowDisk(running, begins)
        await running.queue.submit([twins.job(1, daemons.power(running))])
        await slow.is_reached()
        facts.append("node2 answers again")
        slow.disk.set()
        await twins.jobs_end(running)
        assert twin.ran == []
        job = running.queue.jobs[1]
        assert (job.status, job.opcodes[0].text) == (values.Status.ERROR, "node2 answers again")

    daemon.run(act)


def test_a_job_that_ends_while_somebody_cancels_it_has_ended(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        slow = await migrating(running, ends)
        canceling = asyncio.create_task(running.queue.cancel(1, kill=True))
        await turns()
        slow.disk.set()
        with pytest.raises(errors.Refused, match="job 1 has ended: success"):
            await canceling
        assert daemons.on_disk(running)[1] == running.queue.jobs[1]

    daemon.run(act)


def test_a_job_that_is_archived_the_moment_it_is_canceled_harms_no_decision(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running, 2)), twins.job(2, daemons.move(running))])
        turns_of = running.queue._scheduler
        await daemons.until(running, lambda: turns_of.waiting == [2] and twins.statuses(running)[1] == "running")
        write = running.queue._ports.store.write

        def look() -> None:
            turns_of._limit = lambda: 2
            turns_of._look()

        async def written(job: values.Job) -> None:
            await write(job)
            loop = asyncio.get_running_loop()
            loop.call_soon(running.queue.archive, 2)
            loop.call_soon(look)

        running.queue._ports.store.write = written  # type: ignore[method-assign]
        await running.queue.cancel(2, kill=True)
        running.queue._ports.store.write = write  # type: ignore[method-assign]
        (run,) = twin.held()
        twin.finish(run)
        await twins.jobs_end(running)
        assert running.failures._defect is None
        assert (twins.statuses(running), running.queue.find(2).status) == ({1: "success"}, daemons.CANCELED)

    daemon.run(act, limit=1, outcomes={"migrate": "held"})


def test_who_is_canceled_while_a_change_is_written_has_changed_it(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running)), twins.job(2, daemons.move(running))])
        await daemons.until(running, lambda: twins.statuses(running) == {1: "running", 2: "waiting"})
        slow = SlowDisk(running, ends)
        canceling = asyncio.create_task(running.queue.cancel(2, kill=True))
        await slow.is_reached()
        canceling.cancel()
        await turns()
        canceling.cancel()
        await turns()
        assert not canceling.done()
        slow.disk.set()
        with pytest.raises(asyncio.CancelledError):
            await canceling
        assert running.queue.jobs[2].status is daemons.CANCELED
        assert daemons.on_disk(running)[2] == running.queue.jobs[2]
        (run,) = twin.held()
        twin.finish(run)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "canceled"}

    daemon.run(act, outcomes={"migrate": "held"})
