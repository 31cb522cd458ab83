from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import process, values
from ansible_collections.roundsman.cluster.daemon.locks import table
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.locks import Mode
from ansible_collections.roundsman.cluster.plugins.plugin_utils import run_records

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

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
            self.monkeypatch.setattr(process, "end_all_of", lambda run: kill(twin, run))
            await act(running, twin)
            await running.queue.stop()

        asyncio.run(scenario())


def kill(twin: twins.Processes, run: Path) -> int:
    if run not in twin.held():
        return 0
    twin.finish(run, "lost")
    return 1


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    pairs = [("node1", "node2"), ("node1", "node3"), ("node1", "node4")]
    return Daemon(twins.lab(tmp_path, pairs=pairs), monkeypatch)


def move(running: service.Service, number: int = 1) -> values.Opcode:
    """Migrate an instance from node1 to its secondary."""
    cluster = running.configuration.current
    one = cluster.instance(f"instance{number}")
    params = {"instance": one.uuid, "source": cluster.node("node1").uuid, "target": one.secondary_nodes[0]}
    return values.Opcode("migrate", params)


def power(running: service.Service, command: str = "status") -> values.Opcode:
    return values.Opcode("power", {"node": running.configuration.current.node("node2").uuid, "command": command})


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


def test_opcodes_run_in_order_each_with_its_locks_and_its_changes(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, drain(running), move(running), power(running))])
        await twins.jobs_end(running)
        assert reads(running, 1) == ["success"] * 3
        assert twin.ran == ["migrate 1/1", "power 1/2"]
        moved, _ = twin.specs.values()
        assert set(moved.granted.values()) == {"shared", "exclusive"}
        assert len(moved.granted) == 3
        assert primary(running) == "node2"
        assert running.configuration.current.node("node4").drained
        assert running.desk.table.held == {}
        assert on_disk(running) == running.queue.jobs
        assert json.loads(running.where.locks.read_bytes())["held"] == []

    daemon.run(act)


def test_an_opcode_that_fails_cancels_those_after_it(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, power(running), move(running), drain(running))])
        await twins.jobs_end(running)
        assert reads(running, 1) == ["error", "canceled", "canceled"]
        assert running.queue.jobs[1].status is ERROR
        assert running.queue.jobs[1].text == "the twin was told to fail"
        assert running.queue.jobs[1].opcodes[2].text == "opcode 1 ended in error"
        assert twin.ran == ["power 1/0"]

    daemon.run(act, outcomes={"power": "error"})


def test_an_opcode_that_does_not_fit_any_more_fails_without_a_run(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        misfit = move(running)
        misfit = dataclasses.replace(misfit, params={**misfit.params, "target": misfit.params["source"]})
        gone = values.Opcode("diagnose", {"node": "a node that has left"})
        running.queue.add([twins.job(1, misfit), twins.job(2, gone), twins.job(3, power(running, "off"))])
        await twins.jobs_end(running)
        assert "no copy on node1" in running.queue.jobs[1].text
        assert "there is no node" in running.queue.jobs[2].text
        assert twins.statuses(running) == {1: "error", 2: "error", 3: "success"}
        assert running.desk.table.held == {}
        assert twin.ran == ["power 3/0"]

    daemon.run(act)


def test_what_has_been_done_already_succeeds_without_a_run(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running), move(running), drain(running), drain(running))])
        await twins.jobs_end(running)
        assert reads(running, 1) == ["success"] * 4
        assert "has left node1 already" in running.queue.jobs[1].opcodes[1].text
        assert running.queue.jobs[1].opcodes[3].text == "node4 is so already"
        assert twin.ran == ["migrate 1/0"]

    daemon.run(act)


@pytest.mark.parametrize(
    ("outcome", "accepted", "expected", "text"),
    [
        ("success", (), "success", ""),
        ("error", (), "error", "it depends on job 1, which ended in error"),
        ("error", tuple(values.FINAL), "success", ""),
        ("error", (ERROR,), "success", ""),
        ("success", (ERROR,), "error", "it depends on job 1, which ended in success"),
    ],
)
def test_a_job_starts_only_when_its_dependency_ended_as_it_accepts(
    daemon: Daemon, outcome: str, accepted: tuple[values.Status, ...], expected: str, text: str
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        first, second = twins.job(1, power(running)), twins.job(2, drain(running), depends=depends(1, *accepted))
        running.queue.add([first, second])
        (run,) = await twins.until_held(twin)
        assert twins.statuses(running)[2] == "queued"
        assert not running.configuration.current.node("node4").drained
        twin.finish(run, outcome)
        await twins.jobs_end(running)
        assert twins.statuses(running)[2] == expected
        assert running.queue.jobs[2].text == text

    daemon.run(act, outcomes={"power": "held"})


@pytest.mark.parametrize(("accepted", "expected"), [((), "canceled"), (tuple(values.FINAL), "success")])
def test_a_canceled_dependency_cancels_unless_that_is_accepted(
    daemon: Daemon, accepted: tuple[values.Status, ...], expected: str
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add(
            [
                twins.job(1, power(running)),
                twins.job(2, drain(running, "node3"), depends=depends(1)),
                twins.job(3, drain(running), depends=depends(2, *accepted)),
            ]
        )
        await twins.until_held(twin)
        await running.queue.cancel(2, kill=True)
        await running.queue.wait(3, seconds=twins.LIMIT)
        assert twins.statuses(running) == {1: "running", 2: "canceled", 3: expected}

    daemon.run(act, outcomes={"power": "held"})


def test_a_dependency_that_is_not_there_is_an_error(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(2, drain(running), depends=depends(1))])
        await twins.jobs_end(running)
        assert running.queue.jobs[2].text == "it depends on job 1, which is not there"

    daemon.run(act)


def test_a_job_that_waits_for_locks_is_canceled_and_leaves_the_table(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, power(running)), twins.job(2, power(running, "off"))])
        await twins.until_held(twin)
        assert twins.statuses(running)[2] == "waiting"
        canceled = await running.queue.cancel(2, kill=False)
        assert canceled.status is CANCELED
        assert running.desk.table.waiting == []
        assert on_disk(running)[2].status is CANCELED
        assert twin.ran == ["power 1/0"]

    daemon.run(act, outcomes={"power": "held"})


def test_a_job_that_waits_for_a_slot_is_canceled_and_gives_its_locks_back(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running, 1)), twins.job(2, move(running, 2))])
        (run,) = await twins.until_held(twin)
        second = table.Owner("job 2")
        assert len(running.desk.table.locks_of(second)) == 3
        await running.queue.cancel(2, kill=False)
        assert running.desk.table.locks_of(second) == {}
        twin.finish(run)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "canceled"}

    daemon.run(act, limit=1, outcomes={"migrate": "held"})


def test_a_job_is_canceled_before_its_first_step(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running))])
        assert (await running.queue.cancel(1, kill=False)).status is CANCELED
        assert twin.ran == []
        with pytest.raises(errors.Refused, match="has ended"):
            await running.queue.cancel(1, kill=True)
        with pytest.raises(errors.NotFound):
            await running.queue.cancel(99, kill=True)

    daemon.run(act)


def test_what_runs_is_killed_settled_like_a_lost_one_and_its_instance_looked_for(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running), drain(running))])
        await twins.until_held(twin)
        canceled = await asyncio.wait_for(running.queue.cancel(1, kill=True), twins.LIMIT)
        assert reads(running, 1) == ["canceled", "canceled"]
        assert canceled.opcodes[0].text.startswith("canceled while it ran: ")
        assert canceled.opcodes[0].text.endswith("instance1 runs on node1")
        assert twin.ran == ["migrate 1/0", "find_instance 0/lookup"]
        assert running.desk.table.held == {}

    daemon.run(act, outcomes={"migrate": "held"})


def test_canceling_without_killing_lets_the_opcode_finish_and_starts_no_other(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running), drain(running))])
        (run,) = await twins.until_held(twin)
        assert (await running.queue.cancel(1, kill=False)).status is values.Status.CANCELING
        twin.finish(run)
        await twins.jobs_end(running)
        assert reads(running, 1) == ["success", "canceled"]
        assert primary(running) == "node2"
        assert not running.configuration.current.node("node4").drained

    daemon.run(act, outcomes={"migrate": "held"})


def test_no_more_opcodes_run_at_once_than_there_are_slots(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(number, move(running, number)) for number in (1, 2, 3)])
        first, second = await twins.until_held(twin, 2)
        twin.finish(first)
        _, third = await twins.until_held(twin, 2)
        for run in (second, third):
            twin.finish(run)
        await twins.jobs_end(running)
        assert len(twin.ran) == 3
        assert twin.most_at_once == 2

    daemon.run(act, limit=2, outcomes={"migrate": "held"})


@pytest.mark.parametrize("fails_at", range(1, 6))
def test_state_that_cannot_be_written_now_is_tried_again_and_nothing_runs_twice(daemon: Daemon, fails_at: int) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running), drain(running))])
        store, count = running.queue._ports.store, 0
        save = store.save

        def full(job: values.Job) -> None:
            nonlocal count
            count += 1
            if count == fails_at:
                raise errors.StoreFailed("the disk is full")
            save(job)

        daemon.monkeypatch.setattr(store, "save", full)
        await twins.jobs_end(running)
        assert count > fails_at
        assert reads(running, 1) == ["success", "success"]
        assert twin.ran == ["migrate 1/0"]
        assert on_disk(running) == running.queue.jobs

    daemon.run(act)


def test_a_cancelation_that_cannot_be_written_now_is_tried_again(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, power(running)), twins.job(2, power(running, "off"))])
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
        assert canceled.status is CANCELED
        assert on_disk(running)[2].status is CANCELED

    daemon.run(act, outcomes={"power": "held"})


def test_a_job_that_cannot_be_written_is_not_submitted_nor_is_any_beside_it(daemon: Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        store = running.queue._ports.store
        save = store.save

        def full(job: values.Job) -> None:
            if job.id == 2:
                raise errors.StoreFailed("the disk is full")
            save(job)

        daemon.monkeypatch.setattr(store, "save", full)
        with pytest.raises(errors.StoreFailed):
            running.queue.add([twins.job(1, drain(running)), twins.job(2, drain(running))])
        assert running.queue.jobs == {}
        daemon.monkeypatch.setattr(store, "save", save)
        running.queue.add([twins.job(1, drain(running)), twins.job(2, drain(running))])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "success"}

    daemon.run(act)


@pytest.mark.parametrize(
    "opcode",
    [values.Opcode("explode", {}), values.Opcode("power", {"node": "n"}), values.Opcode("diagnose", {"node": 5})],
)
def test_an_opcode_that_makes_no_sense_is_refused_with_the_whole_submission(
    daemon: Daemon, opcode: values.Opcode
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        with pytest.raises(errors.InvalidInput):
            running.queue.add([twins.job(1, drain(running)), twins.job(2, opcode)])
        assert running.queue.jobs == on_disk(running) == {}

    daemon.run(act)


def test_numbers_are_never_given_twice_even_after_a_restart(daemon: Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.reserve(2) == [1, 2]
        running.queue.add([twins.job(7, drain(running))])
        assert running.queue.reserve(1) == [8]
        await twins.jobs_end(running)

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.reserve(1) == [8]

    daemon.run(first)
    daemon.run(second)


@contextlib.contextmanager
def alive(run: Path) -> Iterator[Callable[[], None]]:
    """Hold a run's livelock as its process would; the value lets it go."""
    descriptor = os.open(run / "livelock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def started(daemon: Daemon, *, cancel: bool = False) -> Path:
    """A daemon starts a migration and ends; the run's folder."""
    found: list[Path] = []

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, move(running), drain(running))])
        found.extend(await twins.until_held(twin))
        if cancel:
            await running.queue.cancel(1, kill=False)
        await running.queue.stop()
        assert len(json.loads(running.where.locks.read_bytes())["held"]) == 1
        line = {"change": "instance_nodes", "instance": move(running).params["instance"]}
        nodes = {"primary": move(running).params["target"], "secondaries": [move(running).params["source"]]}
        run_records.append(found[0], line | nodes)
        with (found[0] / "changes.jsonl").open("a") as lines:
            lines.write('{"torn')

    daemon.run(act, outcomes={"migrate": "held"})
    assert (found[0] / "began").exists()
    return found[0]


def test_a_run_that_is_still_at_work_is_adopted_with_its_locks(daemon: Daemon) -> None:
    run = started(daemon)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        owner = table.Owner("job 1")
        assert Mode.EXCLUSIVE in running.desk.table.locks_of(owner).values()
        with alive(run) as let_go:
            running.queue.resume()
            for _ in range(5):
                await asyncio.sleep(0)
            assert reads(running, 1) == ["running", "queued"]
            assert len(running.desk.table.locks_of(owner)) == 3
            run_records.conclude(run, {"status": "success"})
            let_go()
            await twins.jobs_end(running)
        assert reads(running, 1) == ["success", "success"]
        assert primary(running) == "node2"
        assert twin.ran == []
        assert running.desk.table.held == {}

    daemon.run(act)


def test_a_run_that_ended_meanwhile_is_settled_and_not_repeated(daemon: Daemon) -> None:
    run = started(daemon)
    run_records.conclude(run, {"status": "error", "text": "too hot"})

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert running.queue.jobs[1].text == "too hot; instance1 runs on node2"
        assert primary(running) == "node2", "what was recorded before the error stands"
        assert twin.ran == ["find_instance 0/lookup"]
        assert running.desk.table.held == {}

    daemon.run(act)


def test_a_run_that_never_began_is_started(daemon: Daemon) -> None:
    run = started(daemon)
    for name in ("began", "changes.jsonl"):
        (run / name).unlink()

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert reads(running, 1) == ["success", "success"]
        assert twin.ran == ["migrate 1/0"]

    daemon.run(act)


def test_a_run_that_never_began_and_was_canceled_is_not_started(daemon: Daemon) -> None:
    run = started(daemon, cancel=True)
    for name in ("began", "changes.jsonl"):
        (run / name).unlink()

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert reads(running, 1) == ["canceled", "canceled"]
        assert twin.ran == []

    daemon.run(act)


def test_a_canceling_job_that_runs_when_the_daemon_stops_is_settled_by_the_next(daemon: Daemon) -> None:
    run = started(daemon, cancel=True)
    run_records.conclude(run, {"status": "success"})

    async def act(running: service.Service, twin: twins.Processes) -> None:
        assert reads(running, 1) == ["running", "queued"]
        running.queue.resume()
        await twins.jobs_end(running)
        assert reads(running, 1) == ["success", "canceled"]
        assert primary(running) == "node2"

    daemon.run(act)


def test_a_lost_run_fails_its_changes_stand_its_instance_is_looked_for_and_its_locks_are_free(daemon: Daemon) -> None:
    started(daemon)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert reads(running, 1) == ["error", "canceled"]
        assert "it is lost, and not repeated; instance1 runs on node2" in running.queue.jobs[1].text
        assert [one.partition(" ")[0] for one in twin.ran] == ["find_instance"]
        assert primary(running) == "node2"
        assert running.desk.table.held == {}
        assert json.loads(running.where.locks.read_bytes())["held"] == []

    daemon.run(act)


def test_locks_of_a_job_that_had_ended_are_freed_at_start(daemon: Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        running.queue.add([twins.job(1, drain(running, "node3"))])
        await twins.jobs_end(running)
        await running.desk.acquire(table.Owner("job 1"), {"node/x": Mode.EXCLUSIVE})

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.desk.table.held
        running.queue.resume()
        assert running.desk.table.held == {}

    daemon.run(first)
    daemon.run(second)


def test_a_canceled_job_does_not_wait_for_its_dependencies_after_a_restart(daemon: Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        jobs = [twins.job(1, power(running)), twins.job(2, drain(running), depends=depends(1, *values.FINAL))]
        running.queue.add(jobs)
        await twins.until_held(twin)
        running.queue._ports.store.save(dataclasses.replace(running.queue.jobs[2], canceling=True))

    async def second(running: service.Service, twin: twins.Processes) -> None:
        with alive(running.where.queue / "1/0") as let_go:
            running.queue.resume()
            await running.queue.wait(2, seconds=twins.LIMIT)
            assert twins.statuses(running) == {1: "running", 2: "canceled"}
            let_go()
            await twins.jobs_end(running)

    daemon.run(first, outcomes={"power": "held"})
    daemon.run(second)
