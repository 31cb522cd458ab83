from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import rules, scheduler, submission, values
from ansible_collections.roundsman.cluster.daemon.locks import holders
from ansible_collections.roundsman.cluster.daemon.maintenance import agents, replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


def ended(running: service.Service) -> list[int]:
    return sorted(running.queue.jobs, key=lambda one: running.queue.jobs[one].ended)


def rule(uuid: str, action: object, *predicates: object, priority: int = 0, watermark: int = 0) -> changes.FilterStands:
    value = {"priority": priority, "predicates": list(predicates), "action": action}
    return changes.FilterStands(job_filters.make(value, uuid=uuid, watermark=watermark, reason=()))


async def stands(running: service.Service, *stated: changes.Change) -> None:
    await running.configuration.commit(lambda _: list(stated))


def test_jobs_begin_by_priority_then_number(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        priorities = [10, 0, -10, 0, -10, 10, -20, 19]
        await running.queue.submit(
            [twins.job(number, daemons.delay(0, one)) for number, one in enumerate(priorities, 1)]
        )
        await twins.jobs_end(running)
        assert ended(running) == [7, 3, 5, 2, 4, 1, 6, 8]

    daemon.run(act, limit=1)


def test_a_thousand_jobs_of_one_submission_end_in_order_of_priority(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        jobs = [twins.job(0, daemons.delay(0, (-10, 0, 10)[number % 3])) for number in range(1000)]
        submitted = await running.queue.submit(jobs)
        assert [one.id for one in submitted] == list(range(1, 1001))
        await twins.jobs_end(running)
        found = [running.queue.jobs[one].opcodes[0].priority for one in ended(running)]
        assert found == sorted(found)

    daemon.run(act)


def test_a_freed_slot_goes_to_the_most_urgent_job_that_has_its_locks(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.health(running))])
        (first,) = await twins.until_held(twin)
        low = dataclasses.replace(daemons.move(running, 1), priority=10)
        await running.queue.submit([twins.job(2, low)])
        await daemons.until(running, lambda: running.queue.summary()["slots"]["awaited"] == 1)
        await running.queue.submit([twins.job(3, dataclasses.replace(daemons.move(running, 2), priority=-10))])
        await daemons.until(running, lambda: running.queue.summary()["slots"]["awaited"] == 2)
        twin.finish(first)
        await daemons.until(running, lambda: twins.statuses(running)[3] == "running")
        assert twins.statuses(running)[2] == "waiting"
        assert twin.most_at_once == 1

    daemon.run(act, limit=1, outcomes={"health": "held", "migrate": "held"})


def test_a_failover_is_judged_when_it_has_its_slot_which_a_refusal_gives_back(daemon: daemons.Daemon) -> None:
    daemon.monkeypatch.setattr(scheduler, "RESERVED", 1)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running, "fence", node="node3"))])
        (first,) = await twins.until_held(twin)
        await running.queue.submit([twins.job(2, dataclasses.replace(daemons.move(running), kind="failover"))])
        await daemons.until(running, lambda: running.queue.summary()["slots"]["awaited"] == 1)
        # Its target, which could be asked before, falls silent while the failover waits.
        running.intake.seen[running.queue.jobs[2].opcodes[0].params["target"]] = agents.Seen(misses=1)
        twin.finish(first)
        await running.queue.wait(2, seconds=twins.LIMIT)
        assert "did not answer when it was last asked" in running.queue.jobs[2].text
        assert twin.ran == ["power 1/0"]
        await running.queue.submit([twins.job(3, daemons.power(running, "confirm_off", node="node3"))])
        twin.finish((await twins.until_held(twin))[0])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "error", 3: "success"}
        assert running.queue.summary()["slots"] == {"taken": 0, "limit": 1, "awaited": 0}

    daemon.run(act, limit=1, outcomes={"power": "held"})


@pytest.mark.parametrize("command", ["fence", "confirm_off"])
def test_urgent_opcodes_do_not_wait_for_long_ones_and_are_bounded(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert scheduler.RESERVED > replicas.MOST_JOBS, "there is always a place for a fence"
    monkeypatch.setattr(scheduler, "RESERVED", 1)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running)), twins.job(2, daemons.delay())])
        await twins.until_held(twin)
        urgent = [
            twins.job(number, daemons.power(running, command, node=node))
            for number, node in ((3, "node3"), (4, "node4"))
        ]
        await running.queue.submit(urgent)
        _, fence = await twins.until_held(twin, 2)
        await daemons.until(running, lambda: running.queue.summary()["slots"]["awaited"] == 2)
        assert list(twins.statuses(running).values())[2:].count("running") == 1
        twin.finish(fence)
        _, fence = await twins.until_held(twin, 2)
        twin.finish(fence)
        await running.queue.wait(4, seconds=twins.LIMIT)
        assert twins.statuses(running) == {1: "running", 2: "waiting", 3: "success", 4: "success"}

    daemon.run(act, limit=1, outcomes={"power": "held", "migrate": "held"})


def test_who_holds_what_a_more_urgent_job_wants_is_as_urgent(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.health(running))])
        (first,) = await twins.until_held(twin)
        await running.queue.submit([twins.job(2, daemons.delay(0, 10, x="exclusive"))])
        await daemons.until(running, lambda: running.queue.summary()["slots"]["awaited"] == 1)
        urgent = [twins.job(3, daemons.delay(60, 0)), twins.job(4, daemons.delay(0, -10, x="exclusive"))]
        await running.queue.submit(urgent)
        await daemons.until(running, lambda: twins.statuses(running)[4] == "waiting")
        twin.finish(first)
        await asyncio.wait_for(running.queue.wait(4, seconds=twins.LIMIT), twins.LIMIT)
        expected = {1: "success", 2: "success", 3: "running", 4: "success"}
        await daemons.until(running, lambda: twins.statuses(running) == expected)

    daemon.run(act, limit=1, outcomes={"health": "held"})


def test_jobs_that_wait_for_locks_use_up_no_slot(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("a play"), {"node/x": Mode.EXCLUSIVE})
        blocked = [twins.job(number, daemons.delay(0, -10, x="shared")) for number in range(1, 11)]
        await running.queue.submit([*blocked, twins.job(11, daemons.delay())])
        await running.queue.wait(11, seconds=twins.LIMIT)
        assert set(twins.statuses(running).values()) == {"waiting", "success"}
        running.desk.release(holders.Owner("a play"))
        await twins.jobs_end(running)

    daemon.run(act, limit=2)


def test_jobs_that_wait_for_the_disk_with_their_locks_let_no_others_take_locks(daemon: daemons.Daemon) -> None:
    over, real = threading.Event(), durable_files.replace

    def slow(path: Path, data: bytes, **options: Any) -> None:
        if path.name == "locks.data":
            over.wait(twins.LIMIT)
        real(path, data, **options)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        daemon.monkeypatch.setattr(durable_files, "replace", slow)
        jobs = [twins.job(number, daemons.delay(0, 0, **{f"n{number}": "exclusive"})) for number in range(1, 11)]
        try:
            await running.queue.submit(jobs)
            await daemons.until(running, lambda: "waiting" in twins.statuses(running).values())
            for _ in range(50):
                await asyncio.sleep(0)
            # One with the slot, and one that is to have it next.
            assert {owner.name for owner in running.desk.table.owners()} == {"job 1", "job 2"}
        finally:
            over.set()
        await twins.jobs_end(running)

    daemon.run(act, limit=1)


def test_after_each_opcode_a_job_is_back_in_the_queue(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.health(running), daemons.delay(0, 10))])
        (run,) = await twins.until_held(twin)
        await running.queue.submit([twins.job(2, daemons.delay())])
        twin.finish(run)
        await twins.jobs_end(running)
        assert ended(running) == [2, 1]

    daemon.run(act, limit=1, outcomes={"health": "held"})


def test_an_opcode_whose_lock_attempts_are_used_up_is_queued_and_more_urgent_on_disk(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("a play"), {"node/x": Mode.EXCLUSIVE})
        await running.queue.submit([twins.job(1, daemons.delay(0, -18, x="shared"))])
        await daemons.until(running, lambda: twins.statuses(running)[1] == "waiting")
        seen = []

        def is_aged(times: int) -> bool:
            (opcode,) = running.queue.jobs[1].opcodes
            return (opcode.aged, opcode.status) == (times, values.Status.WAITING)

        for times in (1, 2):
            await daemons.later(rules.PATIENCE + 1)
            await daemons.until(running, functools.partial(is_aged, times))
            (opcode,) = daemons.on_disk(running)[1].opcodes
            seen.append((opcode.priority, opcode.aged, opcode.status.value))
        assert seen == [(-19, 1, "queued"), (-20, 2, "queued")]
        assert [one.priority for one in running.desk.table.waiting] == [-20]
        await daemons.later(10 * rules.PATIENCE)
        assert twins.statuses(running)[1] == "waiting"
        running.desk.release(holders.Owner("a play"))
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success"}

    daemon.run(act)


def test_another_priority_counts_in_the_queue_and_among_those_who_wait_for_locks(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("a play"), {"node/x": Mode.EXCLUSIVE})
        await running.queue.submit([twins.job(number, daemons.delay(0, 0, x="exclusive")) for number in (1, 2, 3)])
        await daemons.until(running, lambda: set(twins.statuses(running).values()) == {"waiting"})
        await running.queue.change_priority(3, -7)
        assert [one.owner.name for one in running.desk.table.waiting] == ["job 3", "job 1", "job 2"]
        assert daemons.on_disk(running)[3].priority == -7
        running.desk.release(holders.Owner("a play"))
        await twins.jobs_end(running)
        assert ended(running) == [3, 1, 2]
        with pytest.raises(errors.Refused, match="job 3 keeps its priority: it is success"):
            await running.queue.change_priority(3, 0)
        with pytest.raises(errors.InvalidInput, match="the priority 20"):
            await running.queue.change_priority(3, 20)

    daemon.run(act)


def test_a_filter_holds_jobs_until_it_is_gone_and_lets_others_pass(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        mine = ["reason", ["=", "source", "gnt:daemon:maintd"]]
        await stands(running, rule("b", "ACCEPT", mine), rule("c", "PAUSE", ["jobid", [">", "id", "watermark"]]))
        reason = (values.Reason("gnt:daemon:maintd", "why", 1),)
        released = dataclasses.replace(twins.job(2, daemons.delay()), reason=reason)
        await running.queue.submit([twins.job(1, daemons.delay()), released])
        await running.queue.wait(2, seconds=twins.LIMIT)
        assert twins.statuses(running) == {1: "queued", 2: "success"}
        assert running.queue.summary()["held"] == 1
        await stands(running, changes.FilterGone("c"))
        await twins.jobs_end(running)
        assert twins.statuses(running)[1] == "success"

    daemon.run(act)


def test_a_filter_that_rejects_cancels_what_is_queued_and_nothing_that_has_begun(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.health(running), daemons.delay())])
        (run,) = await twins.until_held(twin)
        await running.queue.submit([twins.job(2, daemons.delay())])
        await stands(running, rule("r", "REJECT"))
        await running.queue.submit([twins.job(3, daemons.delay())])
        await running.queue.wait(3, seconds=twins.LIMIT)
        twin.finish(run)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "canceled", 3: "canceled"}
        assert running.queue.jobs[3].opcodes[0].text == "canceled: filter r rejects it"

    daemon.run(act, limit=1, outcomes={"health": "held"})


def test_an_emergency_power_off_holds_the_jobs_of_rounds_even_between_two_opcodes(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        reason = (values.Reason(submission.ROUNDS, "why", 1),)
        works = dataclasses.replace(twins.job(1, daemons.power(running), daemons.delay()), reason=reason)
        await running.queue.submit([works])
        (run,) = await twins.until_held(twin)
        await stands(running, changes.EpoStands((), (), by="me", returning=False))
        await running.queue.submit([dataclasses.replace(twins.job(2, daemons.delay()), reason=reason)])
        await running.queue.submit([twins.job(3, daemons.delay())])
        twin.finish(run)
        await running.queue.wait(3, seconds=twins.LIMIT)
        await daemons.until(running, lambda: running.queue.summary()["held"] == 2)
        assert twins.statuses(running) == {1: "queued", 2: "queued", 3: "success"}
        await stands(running, changes.EpoGone())
        await twins.jobs_end(running)
        assert set(twins.statuses(running).values()) == {"success"}

    daemon.run(act, outcomes={"power": "held"})


@pytest.mark.parametrize("by", ["filter", "reason"])
def test_no_more_jobs_of_a_bucket_are_at_work_than_it_holds(daemon: daemons.Daemon, by: str) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        if by == "filter":
            await stands(running, rule("l", ["RATE_LIMIT", 2], ["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]))
        reason = () if by == "filter" else (values.Reason("me", "rate-limit:2:a", 1),)
        await running.queue.submit(
            [dataclasses.replace(twins.job(number, daemons.delay(60)), reason=reason) for number in range(1, 6)]
        )
        await daemons.until(running, lambda: list(twins.statuses(running).values()).count("running") == 2)
        for _ in range(2):
            assert sorted(twins.statuses(running).values()).count("running") == 2
            first = next(number for number, one in twins.statuses(running).items() if one == "running")
            await daemons.cancel(running, first)
            await daemons.until(running, lambda: list(twins.statuses(running).values()).count("running") == 2)
        assert list(twins.statuses(running).values()).count("queued") == 1

    daemon.run(act)


def test_a_higher_limit_counts_at_once(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        limit = 1
        running.queue._scheduler._limit = lambda: limit
        await running.queue.submit([twins.job(number, daemons.delay(60)) for number in range(1, 5)])
        await daemons.until(running, lambda: list(twins.statuses(running).values()).count("running") == 1)
        limit = 3
        running.queue.look()
        await daemons.until(running, lambda: list(twins.statuses(running).values()).count("running") == 3)

    daemon.run(act)


def test_a_new_rate_limit_counts_the_jobs_that_are_at_work(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(number, daemons.delay(60)) for number in (1, 2)])
        await daemons.until(running, lambda: set(twins.statuses(running).values()) == {"running"})
        await stands(running, rule("l", ["RATE_LIMIT", 1], ["opcode", ["=", "OP_ID", "OP_TEST_DELAY"]]))
        await running.queue.submit([twins.job(3, daemons.delay(60)), twins.job(4, daemons.drain(running))])
        await running.queue.wait(4, seconds=twins.LIMIT)
        assert twins.statuses(running)[3] == "queued"
        await daemons.cancel(running, 1)
        await running.queue.submit([twins.job(0, daemons.drain(running))])
        await running.queue.wait(5, seconds=twins.LIMIT)
        assert twins.statuses(running)[3] == "queued"
        await daemons.cancel(running, 2)
        await daemons.until(running, lambda: twins.statuses(running)[3] == "running")

    daemon.run(act)


def test_whoever_asks_for_another_priority_and_goes_away_has_it_where_the_job_waits_too(
    daemon: daemons.Daemon,
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("a play"), {"node/x": Mode.EXCLUSIVE})
        await running.queue.submit([twins.job(number, daemons.delay(0, 0, x="exclusive")) for number in (1, 2)])
        await daemons.until(running, lambda: set(twins.statuses(running).values()) == {"waiting"})
        asking = asyncio.create_task(running.queue.change_priority(2, -7))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert daemons.on_disk(running)[2].priority == -7
        assert [one.owner.name for one in running.desk.table.waiting] == ["job 2", "job 1"]
        running.desk.release(holders.Owner("a play"))
        await twins.jobs_end(running)

    daemon.run(act)


def test_a_job_that_waits_without_limit_ages_again_when_it_is_made_less_urgent(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("a play"), {"node/x": Mode.EXCLUSIVE})
        await running.queue.submit([twins.job(1, daemons.delay(0, -20, x="shared"))])
        await daemons.until(running, lambda: twins.statuses(running)[1] == "waiting")
        await running.queue.change_priority(1, 10)
        await daemons.later(rules.PATIENCE + 1)
        await daemons.until(running, lambda: running.queue.jobs[1].priority == 9)
        await daemons.until(running, lambda: twins.statuses(running)[1] == "waiting")
        await running.queue.change_priority(1, -20)
        await daemons.later(rules.PATIENCE + 1)
        assert (running.queue.jobs[1].priority, twins.statuses(running)[1]) == (-20, "waiting")
        running.desk.release(holders.Owner("a play"))
        await twins.jobs_end(running)

    daemon.run(act)
