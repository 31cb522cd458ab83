"""Replicas that were left behind, in a service whose opcodes are a twin's: which are asked for again, and when."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, left_replicas, membership

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon.lab import world

OK = '{"status":"Ok"}'


@pytest.fixture(name="lab")
def fixture_lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, instances=1, pairs=[("node2", "node3")])


class Left:
    """A service whose instances left replicas on nodes, which report."""

    def __init__(
        self, lab: world.Lab, monkeypatch: pytest.MonkeyPatch, value: Any = None, outcome: str = "error"
    ) -> None:
        self.service, self.twin = twins.assemble(lab, monkeypatch, outcomes={"remove_replica": outcome})
        self.twin.values["remove_replica"] = value
        self._lab, self.now = lab, 1000.0
        monkeypatch.setattr(self.service.left_behind, "_monotonic", lambda: self.now)
        self.instance = self.service.configuration.current.instance("instance1")

    async def leave(self, node: str = "node4", name: str = "instance1") -> None:
        cluster = self.service.configuration.current
        left = left_replicas.ReplicaLeft(cluster.instance(name).uuid, cluster.node(node).uuid, present=True)
        await self.service.configuration.commit(lambda _: [left])

    async def hear(self, node: str = "node4", *, current: int = 16) -> None:
        """Take a report of a node in."""
        (name,) = replica_evidence.resources(self.instance)
        fact = replicas.ReplicaFact(
            name, 0, Role.SECONDARY, Connection.CONNECTING, Disk.UP_TO_DATE, Disk.UNKNOWN, current, 0
        )
        twins.report(self._lab, self.service, node, OK, facts=replicas.NodeFacts("", (fact,)))
        await self.service.intake.take_all()

    async def serve(self, *, offline: bool) -> None:
        """Take node4 out of service, or into it."""
        node = dataclasses.replace(self.service.configuration.current.node("node4"), offline=offline)
        await self.service.configuration.commit(lambda _: [membership.NodeStands(node)])

    async def step(self, *, later: float = 0.0) -> int:
        """Look again so many seconds later; how many jobs there were by now."""
        self.now += later
        await self.service.left_behind.step()
        await twins.jobs_end(self.service)
        await self.service.left_behind.step()
        return len(self.service.queue.jobs)

    @property
    def asked(self) -> list[str]:
        """The nodes of the removals, in their order."""
        cluster = self.service.configuration.current
        asked = [one for job in self.service.queue.jobs.values() for one in job.opcodes if one.kind == "remove_replica"]
        return [cluster.node_name(one.params["node"]) for one in asked]


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
        assert await left.step(later=1201) == count + 1
        if is_kept:
            instance, (secondary,) = left.instance, left.instance.secondary_nodes
            swapped = changes.InstanceNodes(instance.uuid, secondary, (instance.primary_node,))
            parted = replicas.Parted(5.0, 4.0, instance.primary_node)
            for number, change in enumerate((swapped, changes.InstanceParted(instance.uuid, parted)), start=1):
                await left.service.configuration.commit(lambda _, change=change: [change])  # type: ignore[misc]
                assert await left.step(later=299) == count + number
                assert await left.step(later=2) == count + number + 1

    asyncio.run(scenario())


def test_a_report_from_before_a_replica_was_left_does_not_say_that_its_node_is_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        left = Left(lab, monkeypatch)
        await left.hear()
        await left.leave()
        assert await left.step() == 0
        await left.hear()
        assert await left.step() == 1

    asyncio.run(scenario())


EPO = changes.EpoStands((), (), "me", returning=False)


@pytest.mark.parametrize("what", ["paused", "emergency", "drained"])
def test_nothing_is_removed_in_a_pause_an_emergency_power_off_or_by_a_drained_queue(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def scenario() -> None:
        left = Left(lab, monkeypatch)
        await left.leave()
        await left.hear()
        before = left.service.configuration.current.maintenance
        settings = dataclasses.replace(before.settings, paused="by a test" if what == "paused" else "")
        held: list[changes.Change] = [changes.SettingsStand(settings), *([EPO] if what == "emergency" else [])]
        await left.service.configuration.commit(lambda _: held)
        left.service.queue.set_drained(what == "drained")
        assert await left.step() == 0
        await left.service.configuration.commit(lambda _: [changes.SettingsStand(before.settings), changes.EpoGone()])
        left.service.queue.set_drained(False)
        assert await left.step() == 1

    asyncio.run(scenario())


def test_an_emergency_power_off_that_begins_between_two_removals_holds_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, nodes=5, instances=2, pairs=[("node2", "node3")] * 2)
        left = Left(lab, monkeypatch)
        for number, node in enumerate(("node4", "node5"), start=1):
            await left.leave(node, f"instance{number}")
            await left.hear(node)
        submit = left.service.queue.submit

        async def submitted(jobs: list[values.Job]) -> list[values.Job]:
            await left.service.configuration.commit(lambda _: [EPO])
            return await submit(jobs)

        monkeypatch.setattr(left.service.queue, "submit", submitted)
        await left.service.left_behind.step()
        assert left.asked == ["node4"]
        await left.service.queue.stop()

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


def test_a_node_that_hangs_holds_one_removal_and_all_of_them_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, nodes=6, instances=7, pairs=[("node2", "node3")] * 7)
        left = Left(lab, monkeypatch, outcome="held")
        for number, node in enumerate(["node4"] * 3 + ["node5"] * 2 + ["node6"] * 2, start=1):
            await left.leave(node, f"instance{number}")
        for node in ("node4", "node5", "node6"):
            await left.hear(node)
        for _ in range(3):
            await left.service.left_behind.step()
        assert left.asked == ["node4", "node5"]
        _, other = await twins.until_held(left.twin, 2)
        left.twin.finish(other, "success")
        await left.service.queue.wait(2, seconds=twins.LIMIT)
        await left.service.left_behind.step()
        assert left.asked == ["node4", "node5", "node5"], "the one before it there succeeded"
        _, other = await twins.until_held(left.twin, 2)
        left.twin.finish(other, "error")
        await left.service.queue.wait(3, seconds=twins.LIMIT)
        await left.service.left_behind.step()
        assert left.asked == ["node4", "node5", "node5", "node6"]
        await left.service.queue.stop()

    asyncio.run(scenario())


def test_a_node_where_removals_fail_is_asked_less_and_less_and_the_least_recently_tried_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, instances=2, pairs=[("node2", "node3")] * 2)
        left = Left(lab, monkeypatch)
        await left.leave(name="instance1")
        await left.leave(name="instance2")
        await left.hear()
        assert await left.step() == 1
        for count, pause in enumerate([300, 600, 1200, 2400, 3600, 3600], start=1):
            assert await left.step(later=pause - 1) == count, pause
            assert await left.step(later=2) == count + 1, pause
        tried = [job.opcodes[0].params["instance"] for job in left.service.queue.jobs.values()]
        assert len(set(tried[0::2])) == len(set(tried[1::2])) == 1
        assert tried[0] != tried[1]
        await left.serve(offline=True)
        assert await left.step() == 7
        await left.serve(offline=False)
        assert await left.step() == 8, "who took it out of service may have repaired it"

    asyncio.run(scenario())


def test_what_another_job_works_on_is_not_asked_for_and_what_a_person_discards_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, nodes=5, instances=3, pairs=[("node2", "node3")] * 3)
        left = Left(lab, monkeypatch, outcome="held")
        left.twin.outcomes["shutdown"] = "held"
        cluster = left.service.configuration.current
        discarded = {"instance": cluster.instance("instance2").uuid, "node": cluster.node("node4").uuid}
        for number, node in enumerate(("node5", "node4", "node4"), start=1):
            await left.leave(node, f"instance{number}")
            await left.hear(node)
        for opcode in (
            values.Opcode("shutdown", {"instance": cluster.instance("instance1").uuid}),
            values.Opcode("remove_replica", {**discarded, "discard": True}),
        ):
            await left.service.queue.submit([twins.job(0, opcode)])
        await left.service.left_behind.step()
        assert len(left.service.queue.jobs) == 2
        shutdown = (await twins.until_held(left.twin, 2))[0]
        left.twin.finish(shutdown)
        await left.service.queue.wait(1, seconds=twins.LIMIT)
        await left.service.left_behind.step()
        assert left.asked == ["node4", "node5"]
        await left.service.queue.stop()

    asyncio.run(scenario())


def test_a_new_replica_is_removed_only_once_no_job_makes_it(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        left = Left(lab, monkeypatch, None)
        node = {name: left.service.configuration.current.node(name).uuid for name in ("node3", "node4")}
        making = left_replicas.ReplicaLeft(left.instance.uuid, node["node4"], present=True, is_new=True)
        await left.service.configuration.commit(lambda _: [making])
        await left.hear()
        params = {"instance": left.instance.uuid, "old": node["node3"], "new": node["node4"]}
        at_work = twins.job(7, values.Opcode("replace_disks", params))
        with monkeypatch.context() as context:
            # As after a restart of the daemon, which adopts the process.
            context.setitem(left.service.queue.jobs, 7, at_work)
            await left.service.left_behind.step()
            assert list(left.service.queue.jobs) == [7]
        assert await left.step() == 1
        (job,) = left.service.queue.jobs.values()
        assert job.reason[0].text == (
            "replace-disks of instance1 has ended early: its new replica on node4 is removed unless it is in use"
        )

    asyncio.run(scenario())
