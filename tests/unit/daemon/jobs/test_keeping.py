from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, registry
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import work

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


@dataclasses.dataclass(frozen=True)
class Plan(contract.SubmitOpcode):
    """Submits two jobs, the second after the first."""

    kind: ClassVar[str] = "test_plan"

    def wants(self, _cluster: object) -> dict[str, Any]:
        return {}

    def jobs(self, _cluster: object, _facts: object) -> list[work.Job]:
        step = work.Opcode("test_delay", {})
        return [
            work.Job("a", (step,), after=(), incident=None, reason="first"),
            work.Job("b", (step,), after=("a",), incident=None, reason="second"),
        ]


@dataclasses.dataclass(frozen=True)
class Wait(Plan):
    """Waits, though it has the method of an opcode that submits jobs, and that of one that changes something."""

    kind: ClassVar[str] = "test_wait"
    execution: ClassVar[contract.Delay] = contract.Execution.DELAY  # type: ignore[assignment]

    def seconds(self) -> float:
        return 0

    def changes(self, _cluster: object, _facts: object, *, since: float) -> list[Any]:
        raise AssertionError


@pytest.fixture
def planner(daemon: daemons.Daemon) -> daemons.Daemon:
    daemon.monkeypatch.setitem(registry._KINDS, Plan.kind, Plan)
    return daemon


def test_an_opcode_is_executed_as_its_class_says_whatever_methods_it_has(daemon: daemons.Daemon) -> None:
    daemon.monkeypatch.setitem(registry._KINDS, Wait.kind, Wait)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, values.Opcode("test_wait", {}))])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success"}

    daemon.run(act)


def test_a_drained_queue_takes_the_rest_of_what_a_crash_had_half_submitted(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        both = [twins.job(number, daemons.delay()) for number in (5, 6)]
        await running.queue.submit(both[:1])
        running.queue.set_drained(True)
        await running.queue.submit(both)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {5: "success", 6: "success"}
        with pytest.raises(errors.Refused, match="drained"):
            await running.queue.submit([twins.job(number, daemons.delay()) for number in (7, 8)])

    daemon.run(act)


def test_a_drained_queue_takes_no_jobs_and_goes_on_with_those_it_has(daemon: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running))])
        (run,) = await twins.until_held(twin)
        running.queue.set_drained(True)
        with pytest.raises(errors.Refused, match="drained"):
            await running.queue.submit([twins.job(2, daemons.delay())])
        with pytest.raises(errors.Refused, match="drained"):
            await running.queue.submit([twins.job(0, daemons.delay())])
        twin.finish(run)
        await twins.jobs_end(running)

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.drained
        assert (running.where.queue / "drain").exists()
        running.queue.set_drained(False)
        await running.queue.submit([twins.job(5, daemons.delay())])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 5: "success"}

    daemon.run(first, outcomes={"power": "held"})
    daemon.run(second)


def test_an_archived_job_is_found_and_depended_on_and_its_number_stays_taken(daemon: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running)), twins.job(2, daemons.delay(60))])
        await running.queue.wait(1, seconds=twins.LIMIT)
        with pytest.raises(errors.Refused, match="job 2 has not ended: it is running"):
            running.queue.archive(2)
        running.queue.archive(1)
        assert list(running.queue.jobs) == [2]
        assert running.queue.find(1).status is values.Status.SUCCESS
        await running.queue.submit([twins.job(1, daemons.power(running))])
        assert list(running.queue.jobs) == [2]
        await daemons.cancel(running, 2)
        assert await running.queue.archive_older_than(0) == [2]

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.jobs == {}
        assert running.queue.reserve(1) == [3]
        await running.queue.submit([twins.job(4, daemons.delay(), depends=daemons.depends(1))])
        await running.queue.submit([twins.job(5, daemons.delay(), depends=daemons.depends(2))])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {4: "success", 5: "canceled"}
        assert running.queue.find(2).status is values.Status.CANCELED
        with pytest.raises(errors.NotFound):
            running.queue.find(3)
        assert twin.ran == []

    daemon.run(first)
    daemon.run(second)


def test_jobs_that_maintenance_goes_by_stay_in_the_queue(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.configuration.commit(lambda _: [changes.RoundStands(1, (2,))])
        await running.queue.submit([twins.job(1, daemons.delay()), twins.job(2, daemons.delay())])
        await twins.jobs_end(running)
        assert await running.queue.archive_older_than(3600) == []
        assert await running.queue.archive_older_than(0) == [1]
        with pytest.raises(errors.Refused, match="belongs to a repair"):
            running.queue.archive(2)

    daemon.run(act)


def test_what_a_job_in_the_queue_depends_on_stays_in_the_archive(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(number, daemons.delay()) for number in (1, 2, 3)])
        await twins.jobs_end(running)
        held = {"action": "PAUSE", "predicates": [["jobid", [">", "id", "watermark"]]]}
        pause = changes.FilterStands(job_filters.make(held, uuid="f", watermark=3, reason=()))
        await running.configuration.commit(lambda _: [pause])
        await running.queue.submit([twins.job(4, daemons.delay(), depends=daemons.depends(1))])
        await running.queue.archive_older_than(0)
        assert await running.queue._archivist.remove_older_than(3600) == []
        assert await running.queue._archivist.remove_older_than(-3600) == [2]
        with pytest.raises(errors.NotFound):
            running.queue.find(2)
        await running.configuration.commit(lambda _: [changes.FilterGone("f")])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {4: "success"}

    daemon.run(act)


def test_jobs_that_come_together_are_numbered_in_order_and_all_taken(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        pair = [twins.job(0, daemons.delay()), twins.job(0, daemons.delay(), depends=daemons.depends(-1))]
        found = await asyncio.gather(*(running.queue.submit(pair) for _ in range(20)))
        assert [one.id for some in found for one in some] == list(range(1, 41))
        assert [some[1].depends[0].job for some in found] == list(range(1, 41, 2))
        await twins.jobs_end(running)
        assert set(twins.statuses(running).values()) == {"success"}
        assert daemons.on_disk(running) == running.queue.jobs

    daemon.run(act)


def test_a_dry_run_tells_its_changes_and_makes_none(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        dry = dataclasses.replace(daemons.drain(running), dry_run=True)
        await running.queue.submit([twins.job(1, dry)])
        await twins.jobs_end(running)
        (told,) = running.queue.jobs[1].opcodes[0].result
        assert (told["change"], told["drained"]) == ("NodeRole", True)
        assert not running.configuration.current.node("node4").drained
        assert daemons.on_disk(running) == running.queue.jobs
        with pytest.raises(errors.InvalidInput, match="opcode power touches nodes"):
            await running.queue.submit([twins.job(2, dataclasses.replace(daemons.power(running), dry_run=True))])

    daemon.run(act)


def test_an_opcode_that_submits_leaves_the_numbers_of_its_jobs(planner: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        reason = (values.Reason("me", "because", 1),)
        await running.queue.submit(
            [dataclasses.replace(twins.job(1, values.Opcode("test_plan", {}, -10)), reason=reason)]
        )
        await running.queue.wait(1, seconds=twins.LIMIT)
        assert running.queue.jobs[1].opcodes[0].result == {"jobs": [[True, 2], [True, 3]]}
        await twins.jobs_end(running)
        second = running.queue.jobs[3]
        assert [one.job for one in second.depends] == [2]
        assert [one.source for one in second.reason][:3] == ["me", "gnt:opcode:test_plan", "gnt:opcode:test_plan"]
        assert [one.text for one in second.reason][:3] == ["because", "job=1;index=0", "second"]
        assert second.opcodes[0].priority == -10

    planner.run(act)


def test_a_plan_that_was_written_down_is_submitted_once_after_a_crash(planner: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        submit = running.queue.submit

        async def crash(jobs: list[values.Job]) -> None:
            if jobs[0].id == 1:
                await submit(jobs)
            else:
                await asyncio.Event().wait()

        planner.monkeypatch.setattr(running.queue, "submit", crash)
        await running.queue.submit([twins.job(1, values.Opcode("test_plan", {}))])
        await daemons.until(running, lambda: twins.statuses(running)[1] == "running")

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.reserve(1) == [4]
        running.queue.resume()
        await running.queue.wait(1, seconds=twins.LIMIT)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "success", 3: "success"}

    planner.run(first)
    planner.run(second)


def test_a_job_whose_file_is_damaged_while_it_runs_is_ended_and_what_it_recorded_stands(daemon: daemons.Daemon) -> None:
    found: list[Path] = []

    async def first(running: service.Service, twin: twins.Processes) -> None:
        waits = twins.job(2, daemons.delay(), depends=daemons.depends(1))
        await running.queue.submit([twins.job(1, daemons.move(running), daemons.drain(running)), waits])
        found.extend(await twins.until_held(twin))
        await running.queue.stop()

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.jobs[1].is_unreadable
        running.queue.resume()
        await twins.jobs_end(running)
        told = running.queue.jobs[1].text
        assert re.search(r"queue/1/job\.json was damaged and is not loaded: .*; its last run: ", told)
        assert told.endswith("instance1 runs on node1")
        assert twins.statuses(running) == {1: "error", 2: "error"}
        assert running.desk.table.held == {}
        assert running.queue.summary()["damaged"] == [1]
        assert [one.partition(" ")[0] for one in twin.ran] == ["find_instance"]

    daemon.run(first, outcomes={"migrate": "held"})
    job = found[0].parent / "job.json"
    job.write_bytes(job.read_bytes()[:100])
    daemon.run(second)


def test_a_job_that_no_file_can_hold_is_refused_and_the_others_are_taken(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        bad = dataclasses.replace(twins.job(0, daemons.delay()), names={"a": "\ud800"})
        found = await asyncio.wait_for(
            asyncio.gather(
                running.queue.submit([bad]),
                running.queue.submit([twins.job(0, daemons.delay())]),
                return_exceptions=True,
            ),
            10,
        )
        assert isinstance(found[0], errors.InvalidInput), found
        assert not isinstance(found[1], BaseException)
        await asyncio.wait_for(running.queue.submit([twins.job(0, daemons.delay())]), twins.LIMIT)
        await twins.jobs_end(running)

    daemon.run(act)


def test_a_job_that_is_archived_the_moment_it_ends_frees_its_slot(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        def archive() -> None:
            if 1 in running.queue.jobs and running.queue.jobs[1].is_final:
                running.queue.archive(1)

        def soon() -> None:
            asyncio.get_running_loop().call_soon(archive)
            running.news.tell()

        running.queue._book._on_change = soon
        await running.queue.submit(
            [twins.job(1, daemons.delay()), twins.job(2, daemons.delay(), depends=daemons.depends(1))]
        )
        await daemons.until(running, lambda: 2 in running.queue.jobs and running.queue.jobs[2].is_final)
        assert list(running.queue.jobs) == [2]
        await daemons.until(running, lambda: running.queue.summary()["slots"]["taken"] == 0)
        assert twins.statuses(running) == {2: "success"}

    daemon.run(act, limit=1)
