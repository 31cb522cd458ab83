"""Opcodes of a controller that took over: instances are not touched while another's steps may be at work on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Leadership
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest
    from ansible_collections.roundsman.cluster.daemon import service

REFUSAL = "another controller led before epoch 5 (five), and its steps on instance1 may still be at work"


class Barrier:
    """What is asked before instances are touched; it refuses while it is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Collection[str], Collection[str]]] = []
        self.is_closed = False
        monkeypatch.setattr(Leadership, "clear", lambda _, instances, nodes: self._clear(instances, nodes))

    async def _clear(self, instances: Collection[str], nodes: Collection[str]) -> None:
        self.asked.append((instances, nodes))
        if self.is_closed:
            raise errors.Refused(REFUSAL)


def test_an_opcode_is_refused_before_it_touches_an_instance(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = Barrier(monkeypatch)
    barrier.is_closed = True

    async def act(running: service.Service, twin: twins.Processes) -> None:
        move = daemons.move(running)
        await running.queue.submit([twins.job(1, move), twins.job(2, daemons.power(running))])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "error", 2: "success"}
        assert running.queue.jobs[1].text.startswith(REFUSAL)
        assert twin.ran == ["power 2/0"], "power is no step on an instance"
        ((instances, nodes),) = barrier.asked
        assert list(instances) == [move.params["instance"]]
        assert {move.params["source"], move.params["target"]} <= set(nodes)

    daemon.run(act)


def test_what_a_lost_opcode_left_is_looked_at_once_no_other_step_is_at_work(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = Barrier(monkeypatch)
    ran_when_asked: list[int] = []

    async def act(running: service.Service, twin: twins.Processes) -> None:
        clear = barrier._clear

        async def noted(instances: Collection[str], nodes: Collection[str]) -> None:
            ran_when_asked.append(len(twin.ran))
            await clear(instances, nodes)

        monkeypatch.setattr(barrier, "_clear", noted)
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await twins.jobs_end(running)
        assert twin.ran == ["migrate 1/0", "find_instance 0/lookup"]
        assert ran_when_asked == [0, 1]

    daemon.run(act, outcomes={"migrate": "lost"})


def test_what_a_lost_opcode_left_is_not_looked_at_while_other_steps_may_be_at_work(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look lets only one node write, and what it would record might not be so a moment later."""
    barrier = Barrier(monkeypatch)

    async def act(running: service.Service, twin: twins.Processes) -> None:
        clear = barrier._clear

        async def closes(instances: Collection[str], nodes: Collection[str]) -> None:
            await clear(instances, nodes)
            barrier.is_closed = True

        monkeypatch.setattr(barrier, "_clear", closes)
        await running.queue.submit([twins.job(1, daemons.move(running))])
        await twins.jobs_end(running)
        assert twin.ran == ["migrate 1/0"]
        assert f"nobody could look (3 tries: {REFUSAL})" in running.queue.jobs[1].text

    daemon.run(act, outcomes={"migrate": "lost"})


def test_a_look_that_is_ordered_waits_as_other_opcodes_do(
    daemon: daemons.Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = Barrier(monkeypatch)
    barrier.is_closed = True

    async def act(running: service.Service, twin: twins.Processes) -> None:
        move = daemons.move(running)
        nodes = [move.params["source"], move.params["target"]]
        look = values.Opcode("find_instance", {"instance": move.params["instance"], "nodes": nodes})
        await running.queue.submit([twins.job(1, look)])
        await twins.jobs_end(running)
        assert twins.statuses(running) == {1: "error"}
        assert running.queue.jobs[1].text.startswith(REFUSAL)
        assert twin.ran == []

    daemon.run(act)
