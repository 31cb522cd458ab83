from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import json
import os
from itertools import count
from typing import TYPE_CHECKING, Any

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.locks import holders
from ansible_collections.roundsman.cluster.daemon.maintenance import agents
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.jobs import process


@contextlib.contextmanager
def alive(run: Path) -> Iterator[Callable[[], None]]:
    """Hold a run's livelock as its process would; the value lets it go."""
    descriptor = os.open(run / "livelock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def started(daemon: daemons.Daemon, *, cancel: bool = False) -> Path:
    """A daemon starts a migration and ends; the run's folder."""
    found: list[Path] = []

    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running), daemons.drain(running))])
        found.extend(await twins.until_held(twin))
        if cancel:
            await running.queue.cancel(1, kill=False)
        await running.queue.stop()
        assert len(json.loads(running.where.locks.read_bytes())["held"]) == 1
        line = {"change": "instance_nodes", "instance": daemons.move(running).params["instance"]}
        nodes = {
            "primary": daemons.move(running).params["target"],
            "secondaries": [daemons.move(running).params["source"]],
        }
        run_records.append(found[0], line | nodes)
        with (found[0] / "changes.jsonl").open("a") as lines:
            lines.write('{"torn')

    daemon.run(act, outcomes={"migrate": "held"})
    assert (found[0] / "began").exists()
    return found[0]


def test_a_run_that_is_still_at_work_is_adopted_with_its_locks(daemon: daemons.Daemon) -> None:
    run = started(daemon)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        owner = holders.Owner("job 1")
        assert Mode.EXCLUSIVE in running.desk.table.locks_of(owner).values()
        with alive(run) as let_go:
            running.queue.resume()
            for _ in range(5):
                await asyncio.sleep(0)
            assert daemons.reads(running, 1) == ["running", "queued"]
            assert len(running.desk.table.locks_of(owner)) == 4
            run_records.conclude(run, {"status": "success"})
            let_go()
            await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success", "success"]
        assert daemons.primary(running) == "node2"
        assert twin.ran == []
        assert running.desk.table.held == {}

    daemon.run(act)


def test_a_full_disk_ends_no_daemon_that_frees_the_locks_of_an_ended_job(daemon: daemons.Daemon) -> None:
    async def hold(running: service.Service, _twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("job 9"), {"node/x": Mode.SHARED})

    daemon.run(hold)

    async def act(running: service.Service, _twin: twins.Processes) -> None:
        def full(*_: object, **_options: object) -> None:
            raise errors.StoreFailed("the disk is full")

        assert list(running.desk.table.held) == ["node/x"]
        with daemon.monkeypatch.context() as patched:
            patched.setattr(durable_files, "replace", full)
            running.queue.resume()
            assert running.desk.table.held == {}
            await running.desk.landed()
        assert [failing["part"] for failing in running.failures.listed()] == ["lock table"]

    daemon.run(act)


def test_a_run_that_ended_meanwhile_is_settled_and_not_repeated(daemon: daemons.Daemon) -> None:
    run = started(daemon)
    run_records.conclude(run, {"status": "error", "text": "too hot"})

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert running.queue.jobs[1].text == "too hot; instance1 runs on node2"
        assert daemons.primary(running) == "node2", "what was recorded before the error stands"
        assert twin.ran == ["find_instance 0/lookup"]
        assert running.desk.table.held == {}

    daemon.run(act)


def test_a_run_at_work_is_adopted_though_a_full_disk_keeps_the_lock_table_from_being_written(
    daemon: daemons.Daemon,
) -> None:
    run = started(daemon)
    real = durable_files.replace

    def full(path: Path, data: bytes, **options: Any) -> None:
        if path.name == "locks.data":
            raise errors.StoreFailed("the disk is full")
        real(path, data, **options)

    async def hold(running: service.Service, _twin: twins.Processes) -> None:
        await running.desk.acquire(holders.Owner("job 9"), {"node/x": Mode.SHARED})

    daemon.run(hold)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        async def ended(run: Path) -> None:
            awaited.append(run)
            await until_ended(run)

        awaited: list[Path] = []
        until_ended = twin.ended
        daemon.monkeypatch.setattr(twin, "ended", ended)
        with alive(run) as let_go, daemon.monkeypatch.context() as patched:
            patched.setattr(durable_files, "replace", full)
            running.queue.resume()
            await running.desk.landed()
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert awaited == [run], "nobody would end it at its time limit"
            run_records.conclude(run, {"status": "success"})
            let_go()
            await daemons.until(running, lambda: daemons.reads(running, 1)[0] == "success")
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success", "success"]

    daemon.run(act)


def test_a_run_that_never_began_is_started(daemon: daemons.Daemon) -> None:
    run = started(daemon)
    for name in ("began", "changes.jsonl"):
        (run / name).unlink()

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success", "success"]
        assert twin.ran == ["migrate 1/0"]

    daemon.run(act)


def test_a_run_whose_locks_were_lost_is_started_only_once_they_are_on_the_disk_again(daemon: daemons.Daemon) -> None:
    run = started(daemon)
    for path in (run / "began", run / "changes.jsonl", tree.Tree(daemon.lab.controller).locks):
        path.unlink()
    real, writes = durable_files.replace, count()

    def full_at_first(path: Path, data: bytes, **options: Any) -> None:
        if path.name == "locks.data" and next(writes) < 2:
            raise errors.StoreFailed("the disk is full")
        real(path, data, **options)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        def start(run: Path, spec: process.Spec) -> None:
            if spec.kind == "migrate":
                held = json.loads(running.where.locks.read_bytes())["held"] if running.where.locks.exists() else []
                on_disk.append([row["owner"] for row in held])
            begin(run, spec)

        begin, on_disk = twin.start, list[list[str]]()
        daemon.monkeypatch.setattr(twin, "start", start)
        daemon.monkeypatch.setattr(durable_files, "replace", full_at_first)
        running.queue.resume()
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success", "success"]
        assert on_disk == [["job 1"]]

    daemon.run(act)


def test_a_failover_that_never_began_is_judged_again_before_it_is_started(daemon: daemons.Daemon) -> None:
    found: list[Path] = []

    async def begin(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, dataclasses.replace(daemons.move(running), kind="failover"))])
        found.extend(await twins.until_held(twin))
        await running.queue.stop()

    daemon.run(begin, outcomes={"failover": "held"})
    (found[0] / "began").unlink()

    async def act(running: service.Service, twin: twins.Processes) -> None:
        # Its target, which could be asked before, has fallen silent meanwhile.
        running.intake.seen[running.queue.jobs[1].opcodes[0].params["target"]] = agents.Seen(misses=1)
        running.queue.resume()
        await twins.jobs_end(running)
        assert twin.ran == []
        assert "did not answer when it was last asked" in running.queue.jobs[1].text

    daemon.run(act)


def test_a_run_that_never_began_and_was_canceled_is_not_started(daemon: daemons.Daemon) -> None:
    run = started(daemon, cancel=True)
    for name in ("began", "changes.jsonl"):
        (run / name).unlink()

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["canceled", "canceled"]
        assert twin.ran == []

    daemon.run(act)


def test_a_canceling_job_that_runs_when_the_daemon_stops_is_settled_by_the_next(daemon: daemons.Daemon) -> None:
    run = started(daemon, cancel=True)
    run_records.conclude(run, {"status": "success"})

    async def act(running: service.Service, twin: twins.Processes) -> None:
        assert daemons.reads(running, 1) == ["running", "queued"]
        running.queue.resume()
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success", "canceled"]
        assert daemons.primary(running) == "node2"

    daemon.run(act)


def test_a_lost_run_fails_its_changes_stand_its_instance_is_looked_for_and_its_locks_are_free(
    daemon: daemons.Daemon,
) -> None:
    started(daemon)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["error", "canceled"]
        assert "it is lost, and not repeated; instance1 runs on node2" in running.queue.jobs[1].text
        assert [one.partition(" ")[0] for one in twin.ran] == ["find_instance"]
        assert daemons.primary(running) == "node2"
        assert running.desk.table.held == {}
        await running.desk.landed()
        assert json.loads(running.where.locks.read_bytes())["held"] == []

    daemon.run(act)


def test_locks_of_a_job_that_had_ended_are_freed_at_start(daemon: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.drain(running, "node3"))])
        await twins.jobs_end(running)
        await running.desk.acquire(holders.Owner("job 1"), {"node/x": Mode.EXCLUSIVE})

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.desk.table.held
        running.queue.resume()
        assert running.desk.table.held == {}

    daemon.run(first)
    daemon.run(second)


def test_a_canceled_job_does_not_wait_for_its_dependencies_after_a_restart(daemon: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        jobs = [
            twins.job(1, daemons.power(running)),
            twins.job(2, daemons.drain(running), depends=daemons.depends(1, *values.FINAL)),
        ]
        await running.queue.submit(jobs)
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


def test_a_rate_limit_counts_a_job_between_two_opcodes_after_a_restart_too(daemon: daemons.Daemon) -> None:
    limited = (values.Reason("me", "rate-limit:1:a", 1),)

    async def first(running: service.Service, twin: twins.Processes) -> None:
        half = twins.job(1, daemons.power(running), daemons.delay(60))
        half = dataclasses.replace(half, reason=limited).with_opcode(
            0, dataclasses.replace(half.opcodes[0], status=values.Status.SUCCESS)
        )
        running.queue._ports.store.save(half)
        urgent = dataclasses.replace(twins.job(2, daemons.delay(60, -10)), reason=limited)
        running.queue._ports.store.save(urgent)

    async def second(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await daemons.until(running, lambda: "running" in twins.statuses(running).values())
        assert twins.statuses(running) == {1: "running", 2: "queued"}
        await daemons.cancel(running, 1)
        await daemons.until(running, lambda: twins.statuses(running)[2] == "running")

    daemon.run(first)
    daemon.run(second)


def test_a_delay_that_was_canceled_before_a_restart_does_not_begin_anew(daemon: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.delay(3600))])
        await daemons.until(running, lambda: twins.statuses(running)[1] == "running")
        await running.queue.cancel(1, kill=False)

    async def second(running: service.Service, twin: twins.Processes) -> None:
        running.queue.resume()
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "canceled"}

    daemon.run(first)
    daemon.run(second)
