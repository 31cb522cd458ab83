from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.locks import table
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.daemon import service


def test_a_job_that_waits_for_locks_is_canceled_and_leaves_the_table(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, daemons.power(running)), twins.job(2, daemons.power(running, "off"))])
        await twins.until_held(twin)
        assert twins.statuses(running)[2] == "waiting"
        canceled = await running.queue.cancel(2, kill=False)
        assert canceled.status is daemons.CANCELED
        assert running.desk.table.waiting == []
        assert daemons.on_disk(running)[2].status is daemons.CANCELED
        assert twin.ran == ["power 1/0"]

    daemon.run(act, outcomes={"power": "held"})


def test_a_job_that_waits_for_a_slot_is_canceled_and_gives_its_locks_back(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, daemons.move(running, 1)), twins.job(2, daemons.move(running, 2))])
        (run,) = await twins.until_held(twin)
        second = table.Owner("job 2")
        await daemons.until(running, lambda: twins.statuses(running)[2] == "waiting")
        assert len(running.desk.table.locks_of(second)) == 3
        await running.queue.cancel(2, kill=False)
        assert running.desk.table.locks_of(second) == {}
        twin.finish(run)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "canceled"}

    daemon.run(act, limit=1, outcomes={"migrate": "held"})


def test_a_job_is_canceled_before_its_first_step(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, daemons.move(running))])
        assert (await running.queue.cancel(1, kill=False)).status is daemons.CANCELED
        assert twin.ran == []
        with pytest.raises(errors.Refused, match="has ended"):
            await running.queue.cancel(1, kill=True)
        with pytest.raises(errors.NotFound):
            await running.queue.cancel(99, kill=True)

    daemon.run(act)


def test_canceling_without_killing_lets_the_opcode_finish_and_starts_no_other(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, daemons.move(running), daemons.drain(running))])
        (run,) = await twins.until_held(twin)
        assert (await running.queue.cancel(1, kill=False)).status is values.Status.CANCELING
        twin.finish(run)
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success", "canceled"]
        assert daemons.primary(running) == "node2"
        assert not running.configuration.current.node("node4").drained

    daemon.run(act, outcomes={"migrate": "held"})


def test_a_cancelation_that_cannot_be_written_now_is_tried_again(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, daemons.power(running)), twins.job(2, daemons.power(running, "off"))])
        await twins.until_held(twin)
        store, count = running.queue._ports.store, 0
        save = store.save

        def full(job: values.Job) -> None:
            nonlocal count
            count += 1
            if 1 < count < 4:
                raise errors.StoreFailed("the disk is full")
            save(job)

        daemon.monkeypatch.setattr(store, "save", full)
        canceled = await asyncio.wait_for(running.queue.cancel(2, kill=True), twins.LIMIT)
        assert canceled.status is daemons.CANCELED
        assert daemons.on_disk(running)[2].status is daemons.CANCELED

    daemon.run(act, outcomes={"power": "held"})
