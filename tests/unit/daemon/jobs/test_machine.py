"""The queue against a naive model: jobs of delays are submitted, canceled, reordered and held, the daemon is restarted,
and whatever happens the limit stands, jobs begin in their order, dependencies are honoured, and none is stuck."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, job_filters
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.roundsman.cluster.daemon import service

LIMIT = 2
NODES = ("x", "y")
PRIORITIES = st.sampled_from([-20, -10, 0, 10, 19])
WAITING = values.Status.WAITING
LIMITED = (values.Reason("test", "rate-limit:1:one", 1),)
PAUSE = job_filters.make({"action": "PAUSE"}, uuid="hold", watermark=0, reason=())
del consumes


@dataclass
class Model:
    """What must be true of one job."""

    steps: int
    depends: tuple[tuple[int, frozenset[values.Status]], ...]
    is_limited: bool


async def at_once(act: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What stands in for `asyncio.to_thread`: no thread still works when the queue is at rest."""
    return act(*given, **options)


class Machine(RuleBasedStateMachine):
    """Every step lets the queue come to rest; delays last until a rule lets one end."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="roundsman-queue-")
        self.runner = asyncio.Runner()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(asyncio, "to_thread", at_once)
        self.lab = twins.lab(Path(self.folder.name))
        self.jobs: dict[int, Model] = {}
        self.ended: dict[int, values.Status] = {}
        self.running: service.Service

    @initialize()
    def start(self) -> None:
        self.act(self.assemble())

    async def assemble(self) -> None:
        self.running, _ = twins.assemble(self.lab, self.patch, limit=LIMIT)
        self.running.queue.resume()

    def act(self, work: Any) -> Any:
        async def rested() -> Any:
            found = await work
            # Files are written by threads, and told about; all else is a few turns of the loop.
            is_writing = True
            while is_writing:
                for _ in range(40):
                    await asyncio.sleep(0)
                running, book = self.running, self.running.queue._book
                writers = (running.desk._file._writer, running.configuration._writer)
                is_writing = any(writers) or bool(book._changing)
                await book.landed()
                await running.desk.landed()
                await asyncio.sleep(0 if running.configuration._writer is None else 0.001)
            return found

        return self.runner.run(rested())

    @property
    def queue(self) -> Any:
        return self.running.queue

    def at(self, *statuses: values.Status) -> list[int]:
        return [number for number, one in self.queue.jobs.items() if one.status in statuses]

    @rule(
        data=st.data(),
        steps=st.lists(st.tuples(PRIORITIES, st.sampled_from(["", "shared", "exclusive"]), st.sampled_from(NODES)),
                       min_size=1, max_size=2),
        is_limited=st.booleans(),
    )  # fmt: skip
    def submit(self, data: st.DataObject, steps: list[tuple[int, str, str]], *, is_limited: bool) -> None:
        known = sorted(self.jobs)
        depends = data.draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        accepted = [data.draw(st.sets(st.sampled_from(sorted(values.FINAL, key=str)))) for _ in depends]
        opcodes = [daemons.delay(60, one, **({node: mode} if mode else {})) for one, mode, node in steps]
        job = dataclasses.replace(
            twins.job(0, *opcodes),
            depends=tuple(values.Dependency(one, tuple(some)) for one, some in zip(depends, accepted, strict=True)),
            reason=LIMITED if is_limited else (),
        )
        drained = self.queue.drained
        try:
            (made,) = self.act(self.queue.submit([job]))
        except errors.Refused:
            assert drained
            return
        assert not drained
        self.jobs[made.id] = Model(
            len(steps), tuple((one, frozenset(some)) for one, some in zip(depends, accepted, strict=True)), is_limited
        )

    @precondition(lambda self: self.at(values.Status.RUNNING))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.at(values.Status.RUNNING)))

        async def over() -> None:
            # A delay ends as it does when its time is over, not as when it is canceled.
            self.queue._scheduler._driver._inside._delays[job].clear()
            event = self.queue._scheduler._driver._inside._delays[job]
            for one in list(event._waiters):
                one.set_exception(TimeoutError())

        self.act(over())

    @precondition(lambda self: self.at(*set(values.Status) - values.FINAL))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(self.at(*set(values.Status) - values.FINAL)))
        after = self.act(daemons.cancel(self.running, job))
        assert after.status is values.Status.CANCELED

    @precondition(lambda self: self.at(values.Status.QUEUED, values.Status.WAITING))
    @rule(data=st.data(), priority=PRIORITIES)
    def reprioritize(self, data: st.DataObject, priority: int) -> None:
        job = data.draw(st.sampled_from(self.at(values.Status.QUEUED, values.Status.WAITING)))

        async def change() -> None:
            assert (await self.queue.change_priority(job, priority)).priority == priority

        self.act(change())

    @rule(wanted=st.booleans())
    def drain(self, *, wanted: bool) -> None:
        async def change() -> None:
            self.queue.set_drained(wanted)

        self.act(change())

    @rule(wanted=st.booleans())
    def hold(self, *, wanted: bool) -> None:
        change = changes.FilterStands(PAUSE) if wanted else changes.FilterGone("hold")
        self.act(self.running.configuration.commit(lambda _: [change]))

    @rule()
    def restart(self) -> None:
        self.act(self.queue.stop())
        self.act(self.assemble())

    @rule()
    def archive(self) -> None:
        final = set(self.at(*values.FINAL))
        assert set(self.act(self.queue.archive_older_than(0))) == final

    @invariant()
    def nothing_is_lost_and_the_rules_hold(self) -> None:
        if not hasattr(self, "running"):
            return
        found = {number: self.queue.find(number) for number in self.jobs}
        working = self.at(values.Status.RUNNING, values.Status.CANCELING)
        assert len(working) <= LIMIT
        assert sum(self.jobs[number].is_limited and job.has_begun for number, job in self.unfinished(found)) <= 1
        for number, model in self.jobs.items():
            self._check(found, number, model)
        self._check_order(found, working)

    def unfinished(self, found: dict[int, values.Job]) -> list[tuple[int, values.Job]]:
        return [(number, job) for number, job in found.items() if not job.is_final]

    def _check(self, found: dict[int, values.Job], number: int, model: Model) -> None:
        job = found[number]
        assert len(job.opcodes) == model.steps
        if number in self.ended:
            assert job.status is self.ended[number], "what has ended stays so"
        elif job.is_final:
            self.ended[number] = job.status
        is_next = True
        for other, accepted in model.depends:
            end = found[other].status
            if job.has_begun and job.status is not values.Status.CANCELED:
                met = end in values.FINAL and (not accepted or end in accepted)
                assert met or job.status is values.Status.ERROR
            # As in Ganeti they are looked at in their order, up to the first that has not ended.
            is_next = is_next and end in values.FINAL
            if is_next and accepted and end not in accepted:
                assert job.is_final, "it can never start, and says so"

    def _check_order(self, found: dict[int, values.Job], working: list[int]) -> None:
        """With a slot free nobody waits who could work: each waits for a dependency, a filter, or a lock."""
        held = bool(self.running.configuration.current.filters)
        taken = self.running.desk.table
        for number, job in found.items():
            if job.is_final or number in working:
                continue
            waits = any(not found[one].is_final for one, _ in self.jobs[number].depends) and not job.has_begun
            for_lock = any(one.owner.name == f"job {number}" for one in taken.waiting)
            limited = self.jobs[number].is_limited and any(
                other != number and self.jobs[other].is_limited and (one.has_begun or one.status is WAITING)
                for other, one in self.unfinished(found)
            )
            is_held = held and not job.has_begun
            assert waits or is_held or for_lock or limited or len(working) == LIMIT, f"{number} is stuck"
        if len(working) == LIMIT:
            return
        assert self.queue._scheduler.waiting == []

    def teardown(self) -> None:
        if hasattr(self, "running"):
            self.act(self.running.configuration.commit(lambda _: [changes.FilterGone("hold")]))
            for _ in range(3 * len(self.jobs) + 1):
                for job in self.at(values.Status.RUNNING):
                    self.act(daemons.cancel(self.running, job))
            assert [one for one in self.queue.jobs.values() if not one.is_final] == []
            assert self.running.desk.table.held == {}
            self.act(self.queue.stop())
        self.runner.close()
        self.patch.undo()
        self.folder.cleanup()


def test_the_queue_behaves_as_its_model() -> None:
    run_state_machine_as_test(
        Machine,
        settings=hypothesis.settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            derandomize=True,
        ),
    )
