from __future__ import annotations

import collections
import copy
import dataclasses
import json
import threading
import types
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import queue, store, values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service


def test_opcodes_run_in_order_each_with_its_locks_and_its_changes(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit(
            [twins.job(1, daemons.drain(running), daemons.move(running), daemons.power(running))]
        )
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success"] * 3
        assert twin.ran == ["migrate 1/1", "power 1/2"]
        moved, _ = twin.specs.values()
        assert set(moved.granted.values()) == {"shared", "exclusive"}
        assert len(moved.granted) == 4
        assert daemons.primary(running) == "node2"
        assert running.configuration.current.node("node4").drained
        assert running.desk.table.held == {}
        assert daemons.on_disk(running) == running.queue.jobs
        await running.desk.landed()
        assert json.loads(running.where.locks.read_bytes())["held"] == []

    daemon.run(act)


def test_an_opcode_that_fails_cancels_those_after_it(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit(
            [twins.job(1, daemons.power(running), daemons.move(running), daemons.drain(running))]
        )
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["error", "canceled", "canceled"]
        assert running.queue.jobs[1].status is daemons.ERROR
        assert running.queue.jobs[1].text == "the twin was told to fail"
        assert running.queue.jobs[1].opcodes[2].text == "opcode 1 ended in error"
        assert twin.ran == ["power 1/0"]

    daemon.run(act, outcomes={"power": "error"})


def test_the_text_of_an_opcode_that_anybody_may_read_has_no_secret(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.power(running))])
        (run,) = await twins.until_held(twin)
        twin.finish(run, "error", text="Command 'drbdsetup-84 connect r0 --shared-secret=abc12' did not terminate")
        await twins.jobs_end(running)
        text = "Command 'drbdsetup-84 connect r0 --shared-secret=hidden' did not terminate"
        assert running.queue.jobs[1].opcodes[0].text == text
        assert "abc12" not in "".join(path.read_text() for path in running.where.queue.rglob("job.json"))

    daemon.run(act, outcomes={"power": "held"})


def test_an_opcode_that_does_not_fit_any_more_fails_without_a_run(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        misfit = daemons.move(running)
        misfit = dataclasses.replace(misfit, params={**misfit.params, "target": misfit.params["source"]})
        gone = values.Opcode("diagnose", {"node": "a node that has left"})
        await running.queue.submit(
            [twins.job(1, misfit), twins.job(2, gone), twins.job(3, daemons.power(running, "off"))]
        )
        await twins.jobs_end(running)
        assert "no replica on node1" in running.queue.jobs[1].text
        assert "there is no node" in running.queue.jobs[2].text
        assert twins.statuses(running) == {1: "error", 2: "error", 3: "success"}
        assert running.desk.table.held == {}
        assert twin.ran == ["power 3/0"]

    daemon.run(act)


def test_what_has_been_done_already_succeeds_without_a_run(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit(
            [twins.job(1, daemons.move(running), daemons.move(running), daemons.drain(running), daemons.drain(running))]
        )
        await twins.jobs_end(running)
        assert daemons.reads(running, 1) == ["success"] * 4
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
        ("error", (daemons.ERROR,), "success", ""),
        ("success", (daemons.ERROR,), "error", "it depends on job 1, which ended in success"),
    ],
)
def test_a_job_starts_only_when_its_dependency_ended_as_it_accepts(
    daemon: daemons.Daemon, outcome: str, accepted: tuple[values.Status, ...], expected: str, text: str
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        first, second = (
            twins.job(1, daemons.power(running)),
            twins.job(2, daemons.drain(running), depends=daemons.depends(1, *accepted)),
        )
        await running.queue.submit([first, second])
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
    daemon: daemons.Daemon, accepted: tuple[values.Status, ...], expected: str
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit(
            [
                twins.job(1, daemons.power(running)),
                twins.job(2, daemons.drain(running, "node3"), depends=daemons.depends(1)),
                twins.job(3, daemons.drain(running), depends=daemons.depends(2, *accepted)),
            ]
        )
        await twins.until_held(twin)
        await daemons.cancel(running, 2)
        await running.queue.wait(3, seconds=twins.LIMIT)
        assert twins.statuses(running) == {1: "running", 2: "canceled", 3: expected}

    daemon.run(act, outcomes={"power": "held"})


def test_a_dependency_that_is_not_there_is_an_error(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(2, daemons.drain(running), depends=daemons.depends(1))])
        await twins.jobs_end(running)
        assert running.queue.jobs[2].text == "it depends on job 1, which is not there"

    daemon.run(act)


def test_what_runs_is_killed_settled_like_a_lost_one_and_its_instance_looked_for(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running), daemons.drain(running))])
        await twins.until_held(twin)
        canceled = await daemons.cancel(running, 1)
        assert daemons.reads(running, 1) == ["canceled", "canceled"]
        assert canceled.opcodes[0].text.startswith("canceled while it ran: ")
        assert canceled.opcodes[0].text.endswith("instance1 runs on node1")
        assert twin.ran == ["migrate 1/0", "find_instance 0/lookup"]
        assert running.desk.table.held == {}

    daemon.run(act, outcomes={"migrate": "held"})


def test_no_more_opcodes_run_at_once_than_there_are_slots(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(number, daemons.move(running, number)) for number in (1, 2, 3)])
        first, second = await twins.until_held(twin, 2)
        twin.finish(first)
        _, third = await twins.until_held(twin, 2)
        for run in (second, third):
            twin.finish(run)
        await twins.jobs_end(running)
        assert len(twin.ran) == 3
        assert twin.most_at_once == 2

    daemon.run(act, limit=2, outcomes={"migrate": "held"})


@pytest.mark.parametrize("fails_at", range(1, 4))
def test_state_that_cannot_be_written_now_is_tried_again_and_nothing_runs_twice(
    daemon: daemons.Daemon, fails_at: int
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running), daemons.drain(running))])
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
        assert daemons.reads(running, 1) == ["success", "success"]
        assert twin.ran == ["migrate 1/0"]
        assert daemons.on_disk(running) == running.queue.jobs

    daemon.run(act)


def test_a_job_that_cannot_be_written_is_not_submitted_nor_is_any_beside_it(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        replace = durable_files.replace

        def full(path: Path, data: bytes) -> None:
            if path.parent.name == "2":
                raise errors.StoreFailed("the disk is full")
            replace(path, data)

        jobs = [twins.job(1, daemons.drain(running)), twins.job(2, daemons.drain(running))]
        daemon.monkeypatch.setattr(durable_files, "replace", full)
        with pytest.raises(errors.StoreFailed, match="no job was submitted: the disk is full"):
            await running.queue.submit(jobs)
        assert running.queue.jobs == daemons.on_disk(running) == {}
        assert not list(running.where.queue.iterdir())
        daemon.monkeypatch.setattr(durable_files, "replace", replace)
        await running.queue.submit(jobs)
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "success", 2: "success"}

    daemon.run(act)


@pytest.mark.parametrize(
    "opcode",
    [values.Opcode("explode", {}), values.Opcode("power", {"node": "n"}), values.Opcode("diagnose", {"node": 5})],
)
def test_an_opcode_that_makes_no_sense_is_refused_with_the_whole_submission(
    daemon: daemons.Daemon, opcode: values.Opcode
) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        with pytest.raises(errors.InvalidInput):
            await running.queue.submit([twins.job(1, daemons.drain(running)), twins.job(2, opcode)])
        assert running.queue.jobs == daemons.on_disk(running) == {}

    daemon.run(act)


def test_numbers_are_never_given_twice_even_after_a_restart(daemon: daemons.Daemon) -> None:
    async def first(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.reserve(2) == [1, 2]
        await running.queue.submit([twins.job(7, daemons.drain(running))])
        assert running.queue.reserve(1) == [8]
        await twins.jobs_end(running)

    async def second(running: service.Service, twin: twins.Processes) -> None:
        assert running.queue.reserve(1) == [8]

    daemon.run(first)
    daemon.run(second)


def test_the_locks_are_those_that_the_opcode_needs_when_they_are_granted(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        await running.queue.submit([twins.job(1, daemons.move(running))])
        (run,) = await twins.until_held(twin)
        instance = running.configuration.current.instance("instance1").uuid
        await running.queue.submit([twins.job(2, values.Opcode("shutdown", {"instance": instance}))])
        await daemons.until(running, lambda: twins.statuses(running)[2] == "waiting")
        twin.finish(run)
        await twins.jobs_end(running)
        _, spec = twin.specs.values()
        node = running.configuration.current.node("node2").uuid
        assert spec.granted == {f"instance/{instance}": "exclusive", f"node/{node}": "shared"}

    daemon.run(act, outcomes={"migrate": "held"})


def test_making_a_queue_reads_and_starts_nothing(tmp_path: Path) -> None:
    """There is no event loop, and nothing on disk, until it is told to load."""
    threads = threading.active_count()
    ports: Any = types.SimpleNamespace(
        store=store.Store(tmp_path / "queue"), clock=lambda: 0.0, failures=None, configuration=None, processes=None
    )
    made = queue.Queue(ports, limit=lambda: 1, archive_after=1, archive_keep=1, on_change=lambda: None)
    assert threading.active_count() == threads
    assert not (tmp_path / "queue").exists()
    made.load()
    assert (made.jobs, made.last_id) == ({}, 0)


def contents(part: object, name: str, seen: set[int]) -> dict[str, object]:
    """What the containers of a part of the queue have in them, and those of its own parts, by their paths."""
    if id(part) in seen or not type(part).__module__.startswith(queue.__name__.rpartition(".")[0]):
        return {}
    seen.add(id(part))
    found: dict[str, object] = {}
    for field, value in vars(part).items():
        if isinstance(value, (dict, set, list, collections.deque)):
            found[f"{name}.{field}"] = copy.deepcopy(value) if not value else repr(value)
        else:
            found |= contents(value, f"{name}.{field}", seen)
    return found


def test_nothing_is_kept_of_jobs_that_were_archived(daemon: daemons.Daemon) -> None:
    async def act(running: service.Service, twin: twins.Processes) -> None:
        before = contents(running.queue, "queue", set())
        limited = (values.Reason("me", "rate-limit:1:a", 1),)
        await running.queue.submit(
            [
                twins.job(1, daemons.move(running)),
                twins.job(2, daemons.delay(), depends=daemons.depends(1)),
                twins.job(3, daemons.delay(), depends=daemons.depends(1)),
                *(dataclasses.replace(twins.job(number, daemons.delay(60)), reason=limited) for number in (4, 5)),
                twins.job(6, daemons.delay(0, x="shared"), daemons.drain(running)),
            ]
        )
        await twins.until_held(twin)
        await running.queue.wait(2, seconds=0)
        for number in (3, 5, 4):
            await daemons.cancel(running, number)
        # Who waits for a job that was canceled is not waited for any more.
        assert 3 not in running.queue._scheduler._entries[1].dependants
        twin.finish(twin.held()[0])
        await twins.jobs_end(running)
        assert len(await running.queue.archive_older_than(-1)) == 6
        await running.desk.landed()
        assert contents(running.queue, "queue", set()) == before

    daemon.run(act, outcomes={"migrate": "held"})
