"""Lost files, restored configurations and parts that fail: nothing is repeated, nothing stops the rest."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents, job_filters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

EVACUATE = '{"status":"evacuate","details":"psu 2"}'
REPAIR = '{"status":"live-repair","command":"lab-repair"}'
OK = '{"status":"Ok"}'


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node2"), ("node2", "node4")])


def status(running: service.Service, name: str) -> str:
    cluster = running.configuration.current
    (found,) = [one for one in cluster.maintenance.incidents if one.node == cluster.node(name).uuid]
    return found.repair_status.value


async def resume(running: service.Service) -> None:
    """End the pause in which an import leaves a cluster."""
    settings = dataclasses.replace(running.configuration.current.maintenance.settings, paused="")
    await running.configuration.commit(lambda _: [changes.SettingsStand(settings)])


async def round_of(lab: world.Lab, running: service.Service) -> clusters.Cluster:
    """The configuration after a whole round: an evacuation, completed."""
    twins.report(lab, running, "node2", EVACUATE)
    await twins.settle(running)
    assert status(running, "node2") == "completed"
    return running.configuration.current


def restored(lab: world.Lab, folder: Path, cluster: clusters.Cluster) -> world.Lab:
    """A controller with this configuration, etc/ and the key of the lab, and nothing else; its nodes are the lab's."""
    new = type(lab)(folder)
    shutil.copytree(
        lab.folder, new.folder, symlinks=True, ignore=shutil.ignore_patterns("queue", "rounds", "reports", "config.*")
    )
    where = new.controller / "var/lib/roundsman"
    store.write(where / "config.data", cluster)
    return new


def test_a_restored_configuration_starts_on_a_new_root_and_works_on(
    lab: world.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        old, _ = twins.assemble(lab, monkeypatch)
        cluster = await round_of(lab, old)
        assert cluster.maintenance.jobs
        highest = old.queue.last_id
        new = restored(lab, tmp_path / "new", cluster)
        running, twin = twins.assemble(new, monkeypatch)
        running.queue.resume()
        await twins.settle(running)
        assert twin.ran == []
        assert running.failures.listed() == []
        assert status(running, "node2") == "completed"
        assert running.configuration.current.maintenance.jobs == ()
        twins.report(new, running, "node3", EVACUATE)
        await twins.settle(running)
        assert status(running, "node3") == "completed"
        assert min(running.queue.jobs) > highest, "no number means two jobs"
        assert running.history.last(1, up_to=9)[0]["round"] == cluster.maintenance.round + 1

    asyncio.run(scenario())


def test_a_pending_incident_whose_jobs_are_not_on_the_new_controller_fails_with_the_reason(
    lab: world.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        old, _ = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        twins.report(lab, old, "node2", EVACUATE)
        await old.rounds.step()
        await old.rounds.step()
        cluster = old.configuration.current
        assert status(old, "node2") == "pending"
        await old.queue.stop()
        running, twin = twins.assemble(restored(lab, tmp_path / "new", cluster), monkeypatch)
        running.queue.resume()
        # Somebody else's jobs, before the first step.
        other = values.Opcode("test_delay", {"duration": 0})
        submitted = await running.queue.submit([twins.job(0, other) for _ in range(3)])
        assert {one.id for one in submitted}.isdisjoint(cluster.maintenance.jobs)
        await twins.settle(running)
        (incident,) = running.configuration.current.maintenance.incidents
        assert incident.repair_status is incidents.RepairStatus.FAILED
        assert "not on this controller" in incident.reason
        assert incident.tag in running.configuration.current.node("node2").tags
        assert twin.ran == []

    asyncio.run(scenario())


@pytest.mark.parametrize("outcome", ["success", "held"])
def test_jobs_of_others_with_the_same_numbers_are_not_taken_for_those_of_an_imported_incident(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"power": outcome})
        node = running.configuration.current.node("node3").uuid
        await running.queue.submit([twins.job(0, values.Opcode("power", {"node": node, "command": "status"}))])
        if outcome == "success":
            await twins.jobs_end(running)
        else:
            await twins.until_held(twin)
        cluster = running.configuration.current
        foreign = incidents.Incident(
            uuid="6f1c1e0c-0000-4000-8000-000000000001",
            node=cluster.node("node2").uuid,
            original=EVACUATE,
            action=diagnosis.Status.EVACUATE,
            repair_status=incidents.RepairStatus.PENDING,
            tag=incidents.READY_TAG + "6f1c1e0c-0000-4000-8000-000000000001",
            ctime=1.0,
            mtime=1.0,
            jobs=(1,),
        )
        imported = dataclasses.replace(cluster.maintenance, incidents=(foreign,), round=9, jobs=(1,))
        await running.configuration.replace(dataclasses.replace(cluster, maintenance=imported))
        await running.rounds.step()
        assert status(running, "node2") == "failed"
        assert running.configuration.current.maintenance.jobs == ()
        job = running.queue.jobs[1]
        assert not job.canceling
        assert job.status.value == ("success" if outcome == "success" else "running")
        for run in twin.held():
            twin.finish(run)
        await twins.jobs_end(running)
        await running.queue.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("files", ["kept", "lost"])
def test_an_old_configuration_that_is_imported_never_runs_its_round_again(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, files: str
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        old = await round_of(lab, running)
        count = len(twin.ran)
        queue = set(running.queue.jobs)
        await running.queue.stop()
        # The archive was cleared long ago, and the round's file is there still, or is not.
        for number in queue:
            shutil.rmtree(running.where.queue / str(number))
        if files == "lost":
            shutil.rmtree(running.where.rounds)
        maintenance = dataclasses.replace(old.maintenance, jobs=(), incidents=())
        changed = dataclasses.replace(old, maintenance=maintenance, serial_no=old.serial_no + 1)
        store.write(running.where.config, changed)
        running, twin = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        async with running.rounds.between_steps(), running.queue.at_rest():
            await running.configuration.replace(old)
        assert "imported from a backup" in running.configuration.current.maintenance.settings.paused
        await resume(running)
        await twins.settle(running)
        assert running.queue.jobs == {}
        running, twin = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        await twins.settle(running)
        assert (running.queue.jobs, twin.ran) == ({}, [])
        assert count
        twins.report(lab, running, "node3", EVACUATE)
        await twins.settle(running)
        assert status(running, "node3") == "completed"

    asyncio.run(scenario())


def test_with_the_job_folders_of_the_ended_round_lost_nothing_is_submitted_again(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        await round_of(lab, running)
        await running.queue.stop()
        shutil.rmtree(running.where.queue)
        running, twin = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        await twins.settle(running)
        assert (running.queue.jobs, twin.ran) == ({}, [])
        assert not running.configuration.current.node("node2").drained
        assert status(running, "node2") == "completed"

    asyncio.run(scenario())


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"jobs": "x"}', None])
def test_a_damaged_round_file_is_named_and_the_others_are_served(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, damage: bytes | None
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        await round_of(lab, running)
        twins.report(lab, running, "node3", REPAIR)
        await twins.settle(running)
        path = running.where.rounds / "1.json"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + b"~" + data[len(data) // 2 + 1 :] if damage is None else damage)
        newer, older = running.history.last(9, up_to=9)
        assert (newer["round"], newer["problem"]) == (2, None)
        assert older["round"] == 1
        assert "1.json" in older["problem"]
        assert [failure["part"] for failure in running.failures.listed()] == ["round 1"]
        path.unlink()
        await running.rounds.step()
        assert running.failures.listed() == []

    asyncio.run(scenario())


def test_a_round_file_that_is_damaged_before_its_jobs_were_submitted_stops_nothing_else(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        with monkeypatch.context() as patched:
            patched.setattr(running.queue, "submit", full)
            with pytest.raises(errors.StoreFailed):
                await running.rounds.step()
        assert status(running, "node2") == "pending"
        (running.where.rounds / "1.json").write_bytes(b"damaged")
        running, twin = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        twins.report(lab, running, "node4", REPAIR)
        await twins.settle(running)
        assert status(running, "node2") == "failed"
        assert status(running, "node4") == "completed"
        assert not [one for one in twin.ran if one.startswith("migrate")]

    asyncio.run(scenario())


def full(*_: object, **__: object) -> None:
    raise errors.StoreFailed("no job was submitted: No space left on device")


def test_a_spool_that_was_removed_is_made_again(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        running.where.spool.rmdir()
        await running.rounds.step()
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        assert status(running, "node2") == "noted"

    asyncio.run(scenario())


def test_while_reports_cannot_be_taken_in_jobs_are_reconciled_and_no_round_starts_and_the_health_says_so(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch, outcomes={"migrate": "error"})
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        await twins.jobs_end(running)
        running.where.spool.rename(running.where.spool.with_name("moved"))
        running.where.spool.write_text("no folder")
        while await running.rounds.step():
            pass
        assert status(running, "node2") == "failed"
        assert [failure["part"] for failure in running.failures.listed()] == ["report intake"]
        running.where.spool.unlink()
        running.where.spool.with_name("moved").rename(running.where.spool)
        await running.rounds.step()
        assert running.failures.listed() == []

    asyncio.run(scenario())


def test_new_jobs_are_newer_than_every_filter_of_a_restored_configuration(
    lab: world.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        old, _ = twins.assemble(lab, monkeypatch)
        cluster = old.configuration.current
        chosen = job_filters.Filter("f", 41, 0, [], job_filters.Action.ACCEPT, 0, ())  # type: ignore[arg-type]
        new = restored(lab, tmp_path / "new", dataclasses.replace(cluster, filters={"f": chosen}))
        running, _ = twins.assemble(new, monkeypatch)
        (job,) = await running.queue.submit([twins.job(0, values.Opcode("test_delay", {"duration": 0}))])
        assert job.id == 42

    asyncio.run(scenario())


def test_a_step_that_fails_is_in_the_health_until_it_succeeds(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        with monkeypatch.context() as patched:
            patched.setattr(running.history, "write", full)
            task = asyncio.create_task(running.rounds.run())
            async with asyncio.timeout(twins.LIMIT):
                while not running.failures.listed():
                    await running.news.after(running.news.number, seconds=twins.LIMIT)
        (failure,) = running.failures.listed()
        assert (failure["part"], failure["text"]) == ("rounds", "no job was submitted: No space left on device")
        assert status(running, "node2") == "noted"
        running.rounds.wake()
        async with asyncio.timeout(twins.LIMIT):
            while running.failures.listed() or status(running, "node2") != "completed":
                await running.news.after(running.news.number, seconds=twins.LIMIT)
        task.cancel()

    asyncio.run(scenario())
