from __future__ import annotations

import asyncio
import dataclasses
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.daemon.maintenance import lifecycle
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import durable_files
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import store
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

EVACUATE = '{"status":"evacuate","details":"psu 2"}'
REPAIR = '{"status":"live-repair","command":"lab-repair"}'
OK = '{"status":"Ok"}'


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, pairs=[("node2", "node3"), ("node3", "node2"), ("node2", "node4")])


def incident(running: service.Service, name: str = "node2") -> incidents.Incident:
    """The only incident of a node."""
    cluster = running.configuration.current
    (found,) = [one for one in cluster.maintenance.incidents if one.node == cluster.node(name).uuid]
    return found


def status(running: service.Service, name: str = "node2") -> str:
    return incident(running, name).repair_status.value


def versions(monkeypatch: pytest.MonkeyPatch) -> list[clusters.Cluster]:
    """Every version of the configuration that becomes durable from now on."""
    found: list[clusters.Cluster] = []
    write = store.write

    def noted(path: Path, cluster: clusters.Cluster) -> None:
        write(path, cluster)
        found.append(cluster)

    monkeypatch.setattr(store, "write", noted)
    return found


def test_an_incident_is_noted_and_durable_before_anything_is_submitted(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        assert await running.rounds.step()
        assert status(running) == "noted"
        assert store.read(running.where.config).maintenance.incidents == (incident(running),)
        assert running.queue.jobs == {}
        assert twin.ran == []

    asyncio.run(scenario())


def test_a_canceled_incident_does_not_come_back_when_the_accepted_reports_are_lost(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        canceled = incident(running).uuid
        await running.configuration.commit(lambda head: lifecycle.cancel(head, canceled, now=1.0))
        for path in running.where.reports.glob("*.json"):
            path.unlink()
        restarted, twin = twins.assemble(lab, monkeypatch)
        assert restarted.intake.observed() == {}
        await twins.settle(restarted)
        assert (incident(restarted).uuid, status(restarted)) == (canceled, "canceled")
        twins.report(lab, restarted, "node2", EVACUATE)
        await twins.settle(restarted)
        assert (incident(restarted).uuid, status(restarted), twin.ran) == (canceled, "canceled", [])
        twins.report(lab, restarted, "node2", OK)
        await twins.settle(restarted)
        assert restarted.configuration.current.maintenance.incidents == ()

    asyncio.run(scenario())


def test_an_evacuation_goes_from_noted_over_pending_to_completed(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch)
        durable = versions(monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        assert status(running) == "pending"
        assert list(incident(running).jobs) == list(running.queue.jobs)
        await twins.settle(running)
        cluster = running.configuration.current
        node = cluster.node("node2")
        assert status(running) == "completed"
        assert node.tags == (f"maintd:repairready:{incident(running).uuid}",)
        assert (node.offline, node.drained) == (True, False)
        assert cluster.primaries(node.uuid) == cluster.secondaries(node.uuid) == []
        assert set(twins.statuses(running).values()) == {"success"}
        assert cluster == store.read(running.where.config)
        for one in durable:
            completed = one.maintenance.incidents[0].repair_status is incidents.RepairStatus.COMPLETED
            assert completed == bool(one.node("node2").tags), "status and tag are one commit"

    asyncio.run(scenario())


def test_a_failed_job_fails_the_incident_with_its_tag_in_one_commit_and_starts_nothing_more(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "error"})
        durable = versions(monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await twins.settle(running)
        failed = incident(running)
        assert failed.repair_status is incidents.RepairStatus.FAILED
        assert "the twin was told to fail" in failed.reason
        node = running.configuration.current.node("node2")
        assert node.tags == (failed.tag,) == (f"maintd:repairfailed:{failed.uuid}",)
        assert not node.offline
        for one in durable:
            has_failed = one.maintenance.incidents[0].repair_status is incidents.RepairStatus.FAILED
            assert has_failed == bool(one.node("node2").tags), "status and tag are one commit"
        count = len(twin.ran)
        await twins.settle(running)
        assert len(twin.ran) == count

    asyncio.run(scenario())


def test_when_an_incident_fails_what_runs_finishes_and_what_waits_never_starts(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        first, second = await twins.until_held(twin, 2)
        twin.finish(first, "error")
        await running.queue.wait(int(first.parent.name), seconds=twins.LIMIT)
        while await running.rounds.step():
            pass
        assert status(running) == "failed"
        twin.finish(second)
        await twins.settle(running)
        assert twins.statuses(running)[int(first.parent.name)] == "error"
        assert not [one for one in twin.ran if one.endswith("/1")], "no second step after a move"
        assert not running.queue.unfinished(running.queue.jobs)
        moved = twin.specs[second].variables["step"]["instance"]["uuid"]
        gone = running.configuration.current.node("node2").uuid
        assert running.configuration.current.instance(moved).primary_node != gone

    asyncio.run(scenario())


def test_the_jobs_of_a_canceled_incident_are_canceled_and_what_runs_finishes(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        await twins.until_held(twin, 2)
        await running.configuration.commit(
            lambda cluster: [changes.IncidentStands(incidents.cancel(cluster.maintenance.incidents[0], now=2.0))]
        )
        await running.rounds.step()
        for run in twin.held():
            twin.finish(run)
        await twins.settle(running)
        assert status(running) == "canceled"
        assert not [one for one in twin.ran if one.endswith("/1")], "no second step after a move"
        assert "canceled" in twins.statuses(running).values()
        assert not running.configuration.current.node("node2").offline

    asyncio.run(scenario())


def test_a_canceled_incident_is_forgotten_once_it_is_no_longer_observed(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE, age=10)
        await running.rounds.step()
        await running.configuration.commit(
            lambda cluster: [changes.IncidentStands(incidents.cancel(cluster.maintenance.incidents[0], now=2.0))]
        )
        await twins.settle(running)
        assert status(running) == "canceled"
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        assert running.configuration.current.maintenance.incidents == ()
        assert running.queue.jobs == {}

    asyncio.run(scenario())


@pytest.mark.parametrize("said", [REPAIR, EVACUATE])
def test_an_acknowledged_failure_that_is_still_observed_starts_anew(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"repair_command": "error", "migrate": "error"})
        twins.report(lab, running, "node2", said)
        await twins.settle(running)
        first = incident(running)
        assert first.repair_status is incidents.RepairStatus.FAILED
        twin.outcomes.clear()
        await running.configuration.commit(lambda cluster: lifecycle.acknowledge(cluster, first.uuid))
        await twins.settle(running)
        assert incident(running).uuid != first.uuid
        assert status(running) == "completed"

    asyncio.run(scenario())


def test_a_live_repair_runs_its_command_once_with_the_whole_diagnosis(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", REPAIR)
        await twins.settle(running)
        assert [one.partition(" ")[0] for one in twin.ran] == ["repair_command"]
        (spec,) = twin.specs.values()
        assert spec.files == {"input.json": REPAIR}
        assert status(running) == "completed"

    asyncio.run(scenario())


def test_a_live_repair_without_a_command_is_completed_at_once(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", '{"status":"live-repair"}')
        await running.rounds.step()
        assert status(running) == "completed"
        assert running.configuration.current.node("node2").tags == (incident(running).tag,)
        assert running.queue.jobs == {}
        assert twin.ran == []

    asyncio.run(scenario())


def test_a_node_that_says_ok_since_its_incident_failed_takes_its_replicas_in_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, nodes=3, pairs=[("node2", "node3")])
        running, _ = twins.assemble(lab, monkeypatch, outcomes={"repair_command": "error"})
        twins.report(lab, running, "node3", REPAIR)
        await twins.settle(running)
        assert status(running, "node3") == "failed"
        twins.report(lab, running, "node2", EVACUATE)
        await twins.settle(running)
        instance = running.configuration.current.instance("instance1")
        assert running.configuration.current.node_name(instance.primary_node) == "node2"
        refused = [refusal.unblock for refusal in running.rounds.preview().refusals]
        ack = f"`roundsman incident ack {incident(running, 'node3').uuid[:8]}`"
        assert any(ack in unblock for unblock in refused), refused
        twins.report(lab, running, "node3", '{"status":"Ok"}')
        await twins.settle(running)
        instance = running.configuration.current.instance("instance1")
        assert running.configuration.current.node_name(instance.primary_node) == "node3"
        assert status(running, "node3") == "failed", "nobody has acknowledged it"

    asyncio.run(scenario())


def test_every_job_carries_the_daemon_and_the_incident_in_its_reason_trail(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await twins.settle(running)
        assert running.queue.jobs
        for job in running.queue.jobs.values():
            done = {f"gnt:opcode:{one.kind}" for one in job.opcodes if one.started}
            assert {one.source for one in job.reason} == {"gnt:daemon:maintd"} | done
            assert incident(running).uuid in [one.text for one in job.reason]
            assert set(job.names.values()) <= {
                "node2",
                "node3",
                "node4",
                "node1",
                "instance1",
                "instance2",
                "instance3",
            }

    asyncio.run(scenario())


def test_a_round_starts_beside_the_jobs_of_the_last_one_and_keeps_them(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        await twins.until_held(twin, 2)
        first = set(running.queue.unfinished(running.queue.jobs))
        twins.report(lab, running, "node1", REPAIR)
        for _ in range(100):
            await running.rounds.step()
            await asyncio.sleep(0.01)
        maintenance = running.configuration.current.maintenance
        assert maintenance.round == 2
        assert set(running.queue.unfinished(first)) < set(maintenance.jobs), "so they are canceled with their incident"
        assert running.rounds.is_at_work
        assert status(running) == "pending"
        twin.outcomes.clear()
        for run in twin.held():
            twin.finish(run)
        await twins.settle(running)
        assert status(running) == "completed"
        assert not running.rounds.is_at_work

    asyncio.run(scenario())


def test_a_job_that_could_not_be_taken_back_does_not_say_that_it_was(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        instance = min(running.configuration.current.instances.values(), key=lambda one: one.name)
        params = {"instance": instance.uuid, "source": instance.primary_node, "target": instance.secondary_nodes[0]}
        move = values.Job(id=0, opcodes=(values.Opcode("migrate", params),), received=1.0)
        (first,) = await running.queue.submit([move])
        waits = dataclasses.replace(move, depends=(values.Dependency(first.id, tuple(values.FINAL)),))
        (second,) = await running.queue.submit([waits])
        reason = values.Reason(submission.TAKEN_BACK, "node3 is not reachable", 1)
        saved: list[values.Job] = []
        save = running.queue._book._store.save

        def saving(job: values.Job) -> None:
            saved.append(job)
            save(job)

        monkeypatch.setattr(running.queue._book._store, "save", saving)
        await running.queue.cancel(second.id, kill=False, reasons=(reason,))
        assert [job.status.value for job in saved if reason in job.reason] == ["canceled"], "one write says both"

    asyncio.run(scenario())


def test_what_would_go_to_a_node_that_is_to_be_evacuated_is_taken_back_and_planned_anew(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        cluster = running.configuration.current
        limited = dataclasses.replace(cluster.maintenance.settings, moves_per_node=1)
        await running.configuration.commit(lambda _: [changes.SettingsStand(limited)])
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        (run,) = await twins.until_held(twin)
        going = {str(twin.specs[run].variables["step"]["target"]["name"])}
        waiting = {
            cluster.node_name(str(opcode.params.get("target", opcode.params.get("new"))))
            for number in running.queue.unfinished(running.queue.jobs)
            for opcode in running.queue.jobs[number].opcodes
            if "instance" in opcode.params and opcode.status.value == "queued"
        }
        asked = min(waiting - going - {"node2"})
        twins.report(lab, running, asked, EVACUATE)
        while await running.rounds.step():
            pass
        taken_back = [
            job for job in running.queue.jobs.values() if any(one.source == submission.TAKEN_BACK for one in job.reason)
        ]
        assert taken_back
        assert all(f"{asked} is to be evacuated" in [one.text for one in job.reason] for job in taken_back)
        assert status(running) == "pending", "no job of it has failed"
        twin.outcomes.clear()
        twin.finish(run)
        await twins.settle(running)
        assert "failed" not in {status(running), status(running, asked)}
        gone = running.configuration.current.node("node2").uuid
        assert not [one for one in running.configuration.current.instances.values() if one.primary_node == gone]

    asyncio.run(scenario())


def test_while_the_queue_is_drained_an_evacuation_takes_no_job_of_another_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"}, limit=1)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        await twins.until_held(twin)
        running.queue.set_drained(True)
        twins.report(lab, running, "node3", EVACUATE)
        for _ in range(3):
            await running.rounds.step()
        assert "canceled" not in twins.statuses(running).values()
        running.queue.set_drained(False)
        await running.rounds.step()
        assert "canceled" in twins.statuses(running).values()
        await running.queue.stop()

    asyncio.run(scenario())


def test_a_preview_changes_nothing_and_is_what_is_then_submitted(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"migrate": "held"})
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        before = running.configuration.current
        asked = [running.rounds.preview(), running.rounds.preview()]
        assert asked[0] is asked[1]
        assert running.configuration.current is before
        assert running.queue.jobs == {}
        assert running.history.last(9, up_to=9) == []
        await running.rounds.step()
        (kept,) = running.history.last(1, up_to=1)
        assert kept["plan"] == plain(dataclasses.asdict(asked[0]))
        assert [steps(one) for one in running.queue.jobs.values()] == [
            [(step.kind, dict(step.params)) for step in one.opcodes] for one in asked[0].jobs
        ]
        ids = dict(zip((one.key for one in asked[0].jobs), running.queue.jobs, strict=True))
        for draft, job in zip(asked[0].jobs, running.queue.jobs.values(), strict=True):
            assert [one.job for one in job.depends] == [ids[key] for key in (*draft.after, *draft.behind)]
        await twins.until_held(twin)
        await running.queue.stop()

    asyncio.run(scenario())


def plain(value: Any) -> Any:
    """A value as it comes back from a JSON file."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def steps(job: values.Job) -> list[tuple[str, dict[str, Any]]]:
    return [(one.kind, dict(one.params)) for one in job.opcodes]


def test_asking_before_a_report_is_judged_tells_what_is_observed_only(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        assert running.rounds.preview().jobs == ()
        await running.intake.take_all()
        assert running.rounds.preview().jobs != ()
        assert running.configuration.current.maintenance.incidents == ()

    asyncio.run(scenario())


class Crash(BaseException):
    """The daemon dies here."""


def test_a_crash_between_plan_and_commit_loses_and_doubles_nothing(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dying() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        monkeypatch.setattr(running.rounds._queue, "submit", crash)
        write = running.history.write

        def written(number: int, **kept: Any) -> None:
            write(number, **kept)
            raise Crash

        monkeypatch.setattr(running.history, "write", written)
        with pytest.raises(Crash):
            await running.rounds.step()

    asyncio.run(dying())
    everything_runs_once(lab, monkeypatch, rounds=1)


def test_a_crash_between_commit_and_submission_loses_and_doubles_nothing(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dying() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        monkeypatch.setattr(running.queue, "submit", crash)
        with pytest.raises(Crash):
            await running.rounds.step()
        assert store.read(running.where.config).maintenance.jobs

    asyncio.run(dying())
    everything_runs_once(lab, monkeypatch, rounds=1)


def crash(_jobs: Sequence[values.Job]) -> None:
    raise Crash


def everything_runs_once(lab: world.Lab, monkeypatch: pytest.MonkeyPatch, *, rounds: int) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        await twins.settle(running)
        assert status(running) == "completed"
        assert running.configuration.current.maintenance.round == rounds
        assert list(incident(running).jobs) == list(running.queue.jobs)
        kinds = [one.partition(" ")[0] for one in twin.ran]
        assert kinds.count("migrate") == 2
        assert kinds.count("replace_disks") == 3
        assert len(twin.ran) == len(set(twin.ran))

    asyncio.run(scenario())


@pytest.mark.parametrize("saved", [0, 2])
def test_a_full_disk_while_jobs_are_submitted_loses_and_doubles_nothing(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, saved: int
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", EVACUATE)
        await running.rounds.step()
        replace, count = durable_files.replace, 0

        def full(path: Path, data: bytes, **options: Any) -> None:
            nonlocal count
            count += path.name == "job.json"
            if path.name == "job.json" and count > saved:
                raise errors.StoreFailed("the disk is full")
            replace(path, data, **options)

        with monkeypatch.context() as patch:
            patch.setattr(durable_files, "replace", full)
            with pytest.raises(errors.StoreFailed):
                await running.rounds.step()
            assert twin.ran == []
            assert not await running.rounds.step()
            parts = {failure["part"] for failure in running.failures.listed()}
            assert parts == {"resuming the last round", submission.PART}
        await twins.settle(running)
        assert status(running) == "completed"
        assert running.configuration.current.maintenance.round == 1
        assert running.failures.listed() == []
        assert len(twin.ran) == len(set(twin.ran))

    asyncio.run(scenario())


def test_work_goes_on_at_every_event_and_after_a_step_that_failed(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        running.where.spool.rmdir()
        number = running.news.number
        work = asyncio.get_running_loop().create_task(running.rounds.run())
        await asyncio.sleep(0)
        running.where.spool.mkdir()
        twins.report(lab, running, "node2", EVACUATE)
        running.rounds.wake()
        async with asyncio.timeout(twins.LIMIT):
            while running.configuration.current.node("node2").tags == ():
                number = await running.news.after(number, seconds=twins.LIMIT)
        work.cancel()
        assert status(running) == "completed"

    asyncio.run(scenario())


def test_a_node_that_leaves_takes_its_incident_and_its_jobs_with_it(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dying() -> None:
        running, _ = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", REPAIR)
        await running.rounds.step()
        monkeypatch.setattr(running.queue._scheduler, "_start", lambda _job: None)
        await running.rounds.step()
        cluster = running.configuration.current
        left = {uuid: one for uuid, one in cluster.nodes.items() if one.name != "node2"}
        store.write(running.where.config, dataclasses.replace(cluster, nodes=left, instances={}))

    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        running.queue.resume()
        await twins.settle(running)
        assert running.configuration.current.maintenance.incidents == ()
        assert set(twins.statuses(running).values()) <= {"canceled", "error"}
        assert twin.ran == []

    asyncio.run(dying())
    monkeypatch.undo()
    asyncio.run(scenario())


def test_a_report_ends_the_incident_of_a_dead_node_that_began_before_the_clock_was_set_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch)
        node = running.configuration.current.node("node2")
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        noted = incidents.note(
            dead_nodes.report(node), node=node.uuid, uuid=str(uuid.uuid4()), now=running.intake.now.wall + 7200
        )
        await running.configuration.commit(lambda _: [changes.IncidentStands(noted)])
        await twins.settle(running)
        assert (incident(running).uuid, incident(running).returned_at) == (noted.uuid, 0)
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        known = running.configuration.current.maintenance.incidents
        assert all(one.returned_at for one in known), "its next death is another one"

    asyncio.run(scenario())


@pytest.mark.parametrize("ahead", [0, 7200])
def test_a_report_takes_back_that_a_person_stated_its_node_to_be_off_though_the_clock_was_set_back(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch)
        node = running.configuration.current.node("node2").uuid
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        stated = changes.NodeOffConfirmed(node, running.intake.now.wall + ahead, by="alice")
        await running.configuration.commit(lambda _: [stated])
        await twins.settle(running)
        assert running.configuration.current.nodes[node].off_confirmed
        twins.report(lab, running, "node2", OK)
        await twins.settle(running)
        assert not running.configuration.current.nodes[node].off_confirmed

    asyncio.run(scenario())


def test_a_pause_for_a_time_ends_by_itself_and_what_was_asked_for_is_done_then(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch)
        now = 1_000_000.0
        monkeypatch.setattr(running.rounds, "_clock", lambda: now)
        settings = running.configuration.current.maintenance.settings
        pause = settings.with_pause("a new switch", ends=now + 60)
        await running.configuration.commit(lambda _: [changes.SettingsStand(pause)])
        twins.report(lab, running, "node2", EVACUATE)
        await twins.settle(running)
        (refusal, *_) = running.rounds.preview().refusals
        assert refusal.reason == "maintenance is paused: a new switch (until 1970-01-12 13:47:40 UTC)"
        assert refusal.unblock == "the end of the pause: `roundsman resume`"
        assert twin.ran == []

        now += 60
        await twins.settle(running)
        assert running.configuration.current.maintenance.settings == settings
        assert twin.ran

    asyncio.run(scenario())


def test_the_rounds_wake_by_themselves_when_a_pause_ends(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch)
        now, settings = 1_000_000.0, running.configuration.current.maintenance.settings
        monkeypatch.setattr(running.rounds, "_clock", lambda: now)
        quiet = dataclasses.replace(settings, round_interval=0.0).with_pause("tea", ends=now + 60)
        await running.configuration.commit(lambda _: [changes.SettingsStand(quiet)])
        waited: list[float | None] = []
        is_second = asyncio.Event()

        async def wait_for(awaited: Any, timeout: float | None) -> None:  # noqa: ASYNC109 - that of asyncio
            nonlocal now
            awaited.close()
            waited.append(timeout)
            if len(waited) == 2:
                is_second.set()
                await asyncio.Event().wait()
            now += timeout or 0.0
            raise TimeoutError

        monkeypatch.setattr("asyncio.wait_for", wait_for)
        work = asyncio.create_task(running.rounds.run())
        await is_second.wait()
        work.cancel()
        assert waited == [60.0, None]
        assert not running.configuration.current.maintenance.settings.paused

    asyncio.run(scenario())
