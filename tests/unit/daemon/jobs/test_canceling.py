from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import opcodes, settling, values
from ansible_collections.roundsman.cluster.daemon.locks import holders
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import instance_moves

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


def test_a_job_that_waits_for_locks_is_canceled_and_leaves_the_table(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running)), twins.job(2, daemons.power(running, "off"))])
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
        await running.queue.submit([twins.job(1, daemons.move(running, 1)), twins.job(2, daemons.move(running, 2))])
        (run,) = await twins.until_held(twin)
        second = holders.Owner("job 2")
        await daemons.until(running, lambda: twins.statuses(running)[2] == "waiting")
        assert len(running.desk.table.locks_of(second)) == 4
        await running.queue.cancel(2, kill=False)
        assert running.desk.table.locks_of(second) == {}
        twin.finish(run)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "canceled"}

    daemon.run(act, limit=1, outcomes={"migrate": "held"})


def test_a_job_is_canceled_before_its_first_step(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        assert (await running.queue.cancel(1, kill=False)).status is daemons.CANCELED
        assert twin.ran == []
        with pytest.raises(errors.Refused, match="has ended"):
            await daemons.cancel(running, 1)
        with pytest.raises(errors.NotFound):
            await daemons.cancel(running, 99)

    daemon.run(act)


def test_canceling_without_killing_lets_the_opcode_finish_and_starts_no_other(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running), daemons.drain(running))])
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
        await running.queue.submit([twins.job(1, daemons.power(running)), twins.job(2, daemons.power(running, "off"))])
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
        canceled = await daemons.cancel(running, 2)
        assert canceled.status is daemons.CANCELED
        assert daemons.on_disk(running)[2].status is daemons.CANCELED

    daemon.run(act, outcomes={"power": "held"})


def told_of_defects(daemon: daemons.Daemon) -> asyncio.Event:
    """Set when the log says that a job stands still."""
    told = asyncio.Event()
    daemon.monkeypatch.setattr(opcodes.LOG, "critical", lambda *_, **__: told.set())
    return told


def test_a_job_that_a_defect_stopped_before_it_began_is_canceled_and_lets_others_go_on(
    daemon: daemons.Daemon,
) -> None:
    def defect(*_: object) -> str:
        raise ZeroDivisionError

    async def act(running: service.Service, twin: twins.Processes) -> None:
        still = told_of_defects(daemon)
        daemon.monkeypatch.setattr(instance_moves.Migrate, "moot", defect)
        depends = daemons.depends(1, *values.FINAL)
        await running.queue.submit(
            [twins.job(1, daemons.move(running)), twins.job(2, daemons.drain(running), depends=depends)]
        )
        await asyncio.wait_for(still.wait(), twins.LIMIT)
        assert running.desk.table.held != {}
        waiting = asyncio.create_task(running.queue.wait(1, seconds=twins.LIMIT))
        await asyncio.sleep(0)
        canceled = await daemons.cancel(running, 1)
        assert canceled.status is daemons.CANCELED
        await asyncio.wait_for(waiting, twins.LIMIT)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "canceled", 2: "success"}
        assert running.desk.table.held == {}

    daemon.run(act, limit=1)


@pytest.mark.parametrize("is_lasting", [False, True])
def test_a_job_that_a_defect_stopped_while_it_ran_ends_when_it_is_canceled(
    daemon: daemons.Daemon, *, is_lasting: bool
) -> None:
    real, count = settling.settle, 0

    async def defect(run: Path) -> settling.Settlement:
        nonlocal count
        count += 1
        if run.parent.name == "1" and (is_lasting or count == 1):
            raise ZeroDivisionError("of all things")
        return await real(run)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        still = told_of_defects(daemon)
        daemon.monkeypatch.setattr(settling, "settle", defect)
        await running.queue.submit([twins.job(1, daemons.move(running)), twins.job(2, daemons.health(running))])
        await asyncio.wait_for(still.wait(), twins.LIMIT)
        assert twins.statuses(running)[1] == "running"
        canceled = await daemons.cancel(running, 1)
        if is_lasting:
            assert canceled.status is daemons.CANCELED
            told = f"what {running.where.queue}/1/0 records may be unknown: ZeroDivisionError('of all things')"
            assert canceled.opcodes[0].text.endswith(told)
        else:
            assert canceled.status is daemons.SUCCESS, "it had done its work, and that is settled now"
            assert daemons.primary(running) == "node2"
        assert running.desk.table.locks_of(holders.Owner("job 1")) == {}
        await twins.jobs_end(running)
        assert twins.statuses(running)[2] == "success"

    daemon.run(act, limit=1)


def test_a_job_that_cannot_be_settled_nor_written_now_ends_when_there_is_room(
    daemon: daemons.Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    async def defect(_run: Path) -> settling.Settlement:
        raise ZeroDivisionError

    async def act(running: service.Service, twin: twins.Processes) -> None:
        still = told_of_defects(daemon)
        daemon.monkeypatch.setattr(settling, "settle", defect)
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await asyncio.wait_for(still.wait(), twins.LIMIT)
        store = running.queue._ports.store
        save = store.save

        def full(job: values.Job) -> None:
            if job.is_final and daemons.on_disk(running)[1].canceling and "cannot end" not in caplog.text:
                raise errors.StoreFailed("the disk is full")
            save(job)

        daemon.monkeypatch.setattr(store, "save", full)
        canceled = await daemons.cancel(running, 1)
        assert canceled.status is daemons.CANCELED
        assert daemons.on_disk(running)[1].status is daemons.CANCELED

    daemon.run(act)


def test_canceling_a_running_job_answers_before_what_it_left_is_known(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await twins.until_held(twin)
        canceled = await asyncio.wait_for(running.queue.cancel(1, kill=True), twins.LIMIT)
        assert canceled.status is values.Status.CANCELING
        (look,) = await twins.until_held(twin)
        assert look.name == "lookup"
        assert running.queue.jobs[1].status is values.Status.CANCELING
        twin.finish(look)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "canceled"}

    daemon.run(act, outcomes={"migrate": "held", "find_instance": "held"})
