"""Replicas that were left behind, in a service whose opcodes are a twin's: which are asked for again, and when."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

OK = '{"status":"Ok"}'


@pytest.fixture(name="lab")
def fixture_lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, instances=1, pairs=[("node2", "node3")])


class Left:
    """A service whose instance1 left a replica on node4, which reports."""

    def __init__(self, lab: world.Lab, monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
        self.service, self._twin = twins.assemble(lab, monkeypatch, outcomes={"remove_replica": "error"})
        self._twin.values["remove_replica"] = value
        self._lab, self.now = lab, 1000.0
        monkeypatch.setattr(self.service.left_behind, "_monotonic", lambda: self.now)
        self.instance = self.service.configuration.current.instance("instance1")

    async def leave(self, node: str = "node4") -> None:
        where = self.service.configuration.current.node(node).uuid
        await self.service.configuration.commit(
            lambda _: [changes.ReplicaLeft(self.instance.uuid, where, present=True)]
        )

    async def hear(self, *, current: int = 16) -> None:
        """Take a report of node4 in."""
        (name,) = replica_evidence.resources(self.instance)
        fact = replicas.ReplicaFact(
            name, 0, Role.SECONDARY, Connection.CONNECTING, Disk.UP_TO_DATE, Disk.UNKNOWN, current, 0
        )
        twins.report(self._lab, self.service, "node4", OK, facts=replicas.NodeFacts("", (fact,)))
        await self.service.intake.take_all()

    async def step(self, *, later: float = 0.0) -> int:
        """Look again so many seconds later; how many jobs there were by now."""
        self.now += later
        await self.service.left_behind.step()
        await twins.jobs_end(self.service)
        await self.service.left_behind.step()
        return len(self.service.queue.jobs)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_replica_that_is_kept_is_asked_for_again_only_when_something_changed(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    async def scenario() -> None:
        left = Left(lab, monkeypatch, {"kept": True} if is_kept else None)
        await left.leave()
        await left.hear()
        assert await left.step() == 1
        assert await left.step(later=299) == 1
        assert await left.step(later=2) == (1 if is_kept else 2), "what failed is retried, what is kept is not"
        await left.hear()
        count = await left.step(later=3000)
        assert count == (1 if is_kept else 3), "the same report is no news"
        await left.hear(current=32)
        assert await left.step(later=301) == count + 1
        if is_kept:
            uuid = left.service.configuration.current.instance("instance1").uuid
            parted = replicas.Parted(5.0, 4.0, left.instance.primary_node)
            await left.service.configuration.commit(lambda _: [changes.InstanceParted(uuid, parted)])
            assert await left.step(later=301) == count + 2

    asyncio.run(scenario())


def test_an_entry_whose_node_has_a_replica_of_the_instance_again_is_dropped(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        left = Left(lab, monkeypatch, None)
        await left.leave("node3")
        await left.leave()
        await left.hear()
        settings = left.service.configuration.current.maintenance.settings
        await left.service.configuration.commit(
            lambda _: [changes.SettingsStand(dataclasses.replace(settings, paused="by a test"))]
        )
        assert await left.step() == 0
        remaining = left.service.configuration.current.maintenance.left_behind
        assert [left.service.configuration.current.node_name(one.node) for one in remaining] == ["node4"]

    asyncio.run(scenario())
