"""Controllers whose daemons start and stop in folders of one lab, and the BMCs that they read."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import barrier, electorate, leadership
from ansible_collections.roundsman.cluster.daemon.maintenance.leadership import Leadership, Statement
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors, tree
from ansible_collections.roundsman.cluster.plugins.plugin_utils import controller_epoch

from tests.unit.daemon.maintenance import voters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Step
    from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch

LIMIT = 60.0
VOTES = Statement()


class Bmcs:
    """The BMCs of the nodes, as `Reader` reads them: what each says, by name; one that is not there does not answer."""

    def __init__(self, **states: power.State) -> None:
        self.states = states
        self.asked: list[str] = []

    async def __call__(self, drivers: Mapping[str, str]) -> AsyncIterator[power.Outcome]:
        self.asked += drivers
        for name in drivers.keys() & self.states.keys():
            state = self.states[name]
            yield power.Outcome(name, power.Command.STATUS, state, state, False, True, 1, 0.0)
        if drivers.keys() - self.states.keys():
            raise errors.Failed("no answer")


class Controller:
    """A controller in a folder; `start` is a start of its daemon."""

    def __init__(self, running: service.Service, where: tree.Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.running = running
        self.where = where
        self.is_at_work = False
        self.waits: list[str] = []
        self.bmcs = Bmcs()
        self.over_ssh: electorate.OverSsh | None = None

    def copied(self, folder: Path) -> Controller:
        """The same controller's state in another folder."""
        shutil.copytree(self.where.root, folder)
        made = Controller(self.running, tree.Tree(folder), self.monkeypatch)
        made.over_ssh = self.over_ssh
        return made

    async def start(self, statement: Statement = VOTES) -> Leadership:
        made = Leadership(
            self.where,
            self.running.configuration,
            is_at_work=lambda: self.is_at_work,
            failures=self.running.failures,
            read_power=self.bmcs,
            over_ssh=self.over_ssh,
        )
        async with asyncio.timeout(LIMIT):
            await made.begin(statement, on_wait=self.waits.append)
        return made

    async def leading(self, statement: Statement = VOTES) -> Leadership:
        """As `start`, with the first round of questions over."""
        made = await self.start(statement)
        await made.step()
        return made

    async def preview(self, statement: Statement = VOTES) -> tuple[Step, list[str]]:
        """What a start would do, and say."""
        made = Leadership(
            self.where, self.running.configuration, is_at_work=lambda: self.is_at_work, over_ssh=self.over_ssh
        )
        async with asyncio.timeout(LIMIT):
            return await made.preview(statement)

    def boot(self, *, uptime: float = 0.0) -> None:
        """Have the controller have booted since it led, so many seconds ago."""
        self.monkeypatch.setattr(leadership, "_uptime", lambda: uptime)
        record = controller_epoch.read(self.where)
        assert record is not None
        controller_epoch._write(self.where, dataclasses.replace(record, boot="before"))

    def orders(self) -> Epoch | None:
        """The epoch that the steps of this controller name."""
        order = controller_epoch.load(self.where)
        return order.epoch if order is not None else None


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have controllers ask, and wait for nodes, for fractions of a second."""
    monkeypatch.setattr(electorate, "DEADLINE", 0.5)
    monkeypatch.setattr(electorate, "ROUND_SECONDS", 0.5)
    monkeypatch.setattr(leadership, "RETRY", 0.05)
    monkeypatch.setattr(barrier, "SECONDS", 0.2)
    monkeypatch.setattr(barrier, "LEAST", 0.05)
    monkeypatch.setattr(leadership, "LEAST", 0.05)


def run(running: service.Service, scenario: Callable[[voters.Voters, Controller], Awaitable[Any]]) -> None:
    async def inner() -> None:
        async with voters.voting(running) as nodes:
            with pytest.MonkeyPatch.context() as patched:
                await scenario(nodes, Controller(running, running.where, patched))

    asyncio.run(inner())


async def wait_of(controller: Controller, *, until_follows: tuple[voters.Voters, str] | None = None) -> None:
    """Start a controller, which has to wait, and is stopped then, or once a node has promised."""
    starting = asyncio.create_task(controller.start())

    def is_over() -> bool:
        if until_follows is None:
            return bool(controller.waits)
        nodes, name = until_follows
        return nodes.follows(name) is not None

    await until(lambda: is_over() or starting.done())
    assert not starting.done()
    starting.cancel()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not is_so():  # noqa: ASYNC110 - counted in other tasks
            await asyncio.sleep(0.01)


def primary_of(running: service.Service) -> str:
    """The primary (name) of the only instance."""
    (instance,) = running.configuration.current.instances.values()
    return running.configuration.current.node_name(instance.primary_node)


def epoch_of(nodes: voters.Voters, name: str) -> Epoch | None:
    """The epoch that a node follows."""
    kept = nodes.follows(name)
    return kept.epoch if kept is not None else None


async def refusal(made: Leadership, running: service.Service) -> str:
    """Why the only instance must not be touched, or ''."""
    (instance,) = running.configuration.current.instances
    try:
        await asyncio.wait_for(made.clear([instance], []), LIMIT)
    except errors.Refused as refused:
        return str(refused)
    return ""
