"""Moves of an incident that ended with the controller are planned again, and not for ever."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import plays, process, submission, values
from ansible_collections.roundsman.cluster.daemon.maintenance import outcomes
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent import diagnosis, epochs
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence, run_records
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents, recording
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import instance_moves, room_now
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes

from tests.unit import small_cluster
from tests.unit.daemon import twins

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

FAILOVER = '{"status":"evacuate-failover"}'
NODES = ("n1", "n2", "n3", "n4")
OVER = {"instance": "i1", "source": "n2", "target": "n3"}


@pytest.fixture
def lab(tmp_path: Path) -> world.Lab:
    return twins.lab(tmp_path, instances=2, pairs=[("node2", "node3"), ("node2", "node4")])


def incident(running: service.Service) -> incidents.Incident:
    (found,) = running.configuration.current.maintenance.incidents
    return found


def kinds(twin: twins.Processes) -> list[str]:
    """The kinds of opcodes that were run, in order, without the looks and what follows the moves."""
    return [kind for kind in (one.split()[0] for one in twin.ran) if kind in outcomes.MOVES]


def primaries(running: service.Service) -> list[str]:
    cluster = running.configuration.current
    return [cluster.node_name(cluster.instance(name).primary_node) for name in ("instance1", "instance2")]


@pytest.mark.parametrize(
    ("said", "kind", "outcomes"),
    [
        (FAILOVER, "failover", "lost success"),
        (FAILOVER, "failover", "lost lost success"),
        (FAILOVER, "replace_disks", "lost lost success"),
        (FAILOVER, "replace_disks", "dead success"),
        ('{"status":"evacuate"}', "migrate", "lost success"),
    ],
)
def test_a_move_that_was_lost_is_planned_again_and_the_incident_completes(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, said: str, kind: str, outcomes: str
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch, outcomes={kind: outcomes}, limit=1)
        twins.report(lab, running, "node2", said)
        await twins.settle(running)
        assert (incident(running).repair_status.value, incident(running).reason) == ("completed", "")
        assert primaries(running) == ["node3", "node4"]

    asyncio.run(scenario())


def test_a_failover_that_is_lost_for_the_third_time_in_a_row_fails_the_incident_and_says_how_to_retry(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "lost"})
        twins.report(lab, running, "node2", FAILOVER)
        await twins.settle(running)
        failed = incident(running)
        assert failed.repair_status.value == "failed"
        assert "lost 3 times in a row" in failed.reason
        assert f"`roundsman incident ack {failed.uuid[:8]}`" in failed.reason
        assert kinds(twin) == ["failover"] * 6

    asyncio.run(scenario())


@pytest.mark.parametrize(("times", "ends"), [(1, "completed"), (2, "completed"), (9, "failed")])
def test_a_move_that_is_refused_before_it_begins_is_planned_again_but_not_for_ever(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, times: int, ends: str
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch, limit=1)
        refusals = ["node3 has 0 MiB of memory free"] * times

        def refuse(_cluster: object, instance: clusters.Instance, *, target: str) -> None:
            if instance.name == "instance1" and refusals:
                raise errors.Refused(refusals.pop())

        monkeypatch.setattr(room_now, "refuse_without_memory", refuse)
        twins.report(lab, running, "node2", FAILOVER)
        await twins.settle(running)
        found = incident(running)
        assert found.repair_status.value == ends
        if ends == "completed":
            assert primaries(running) == ["node3", "node4"]
        else:
            assert "node3 has 0 MiB of memory free; it was refused 3 times in a row" in found.reason
            assert f"remove the cause, then run `roundsman incident ack {found.uuid[:8]}`" in found.reason
            assert len(refusals) == times - 3

    asyncio.run(scenario())


@pytest.mark.parametrize(("text", "is_planned_again"), [(epochs.OTHER_BOOT, True), ("another reason", False)])
def test_a_move_that_a_node_refuses_because_it_has_booted_is_planned_again(text: str, is_planned_again: bool) -> None:
    error = values.Status.ERROR
    move = values.Opcode("migrate", {"instance": "i1"}, status=error, started=1.0, text=f"instance_state: {text}: x")
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)

    found = outcomes.of_incident(in_cluster(i1="n2"), noted, [values.Job(1, (move,))], {})

    assert found[1].succeeded is is_planned_again


def test_what_does_not_begin_because_another_move_was_lost_is_not_refused() -> None:
    error = values.Status.ERROR
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)
    jobs = []
    for number in (1, 3, 5):
        lost = values.Opcode("failover", {"instance": f"i{number}"}, status=error, started=1.0, result=plays.LOST)
        waiting = values.Opcode("failover", {"instance": "i9"}, status=error, text=f"it depends on job {number}")
        jobs += [
            values.Job(number, (lost,)),
            values.Job(number + 1, (waiting,), depends=(values.Dependency(number, ()), values.Dependency(number))),
        ]
    found = outcomes.of_incident(in_cluster(), noted, jobs, {job.id: job for job in jobs})
    assert {number: outcome.succeeded for number, outcome in found.items()} == dict.fromkeys(range(1, 7), True)


def test_a_move_that_failed_is_not_planned_again_though_another_was_lost(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "lost error"})
        twins.report(lab, running, "node2", FAILOVER)
        await twins.settle(running)
        assert incident(running).repair_status.value == "failed"
        assert "the twin was told to fail" in incident(running).reason

    asyncio.run(scenario())


def test_what_a_person_canceled_is_not_planned_again(lab: world.Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held"})
        twins.report(lab, running, "node2", FAILOVER)
        await running.rounds.step()
        await running.rounds.step()
        first, second = await twins.until_held(twin, 2)
        await running.queue.cancel(int(first.parent.name), kill=True)
        twin.finish(first, "lost")
        twin.finish(second)
        await twins.settle(running)
        assert incident(running).repair_status.value == "failed"
        assert kinds(twin).count("failover") == 2

    asyncio.run(scenario())


def test_a_failover_that_was_lost_after_its_record_is_not_repeated_and_its_instance_is_started(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held"})
        twins.report(lab, running, "node2", FAILOVER)
        await running.rounds.step()
        await running.rounds.step()
        first, second = await twins.until_held(twin, 2)
        step = twin.specs[first].variables["step"]
        recorded = changes.InstanceNodes(step["instance"]["uuid"], step["target"]["uuid"], tuple(step["secondaries"]))
        run_records.append(first, recording.encode(recorded))
        twin.finish(first, "lost")
        twin.finish(second)
        await twins.settle(running)
        assert incident(running).repair_status.value == "completed"
        assert primaries(running) == ["node3", "node4"]
        assert kinds(twin).count("failover") == 2
        (started,) = [spec for spec in twin.specs.values() if spec.kind == "startup"]
        assert started.variables["step"]["instance"]["uuid"] == step["instance"]["uuid"]
        last = kinds(twin)
        assert last.index("startup") < len(last) - 1 - last[::-1].index("replace_disks"), "it runs before it is copied"

    asyncio.run(scenario())


@pytest.mark.parametrize("end", ["lost", "overdue"])
def test_a_failover_that_was_taken_back_while_it_ran_and_left_no_result_has_its_instance_started(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held success"}, limit=1)
        twins.report(lab, running, "node2", FAILOVER)
        work = asyncio.create_task(twins.settle(running))
        (run,) = await twins.until_held(twin)
        step = twin.specs[run].variables["step"]
        recorded = changes.InstanceNodes(step["instance"]["uuid"], step["target"]["uuid"], tuple(step["secondaries"]))
        taken_back = values.Reason(submission.TAKEN_BACK, "node4 is to be evacuated", 1)
        await running.queue.cancel(int(run.parent.name), kill=False, reasons=(taken_back,))
        run_records.append(run, recording.encode(recorded))
        if end == "overdue":
            monkeypatch.setattr(process, "overdue", lambda folder: folder == run)
        twin.finish(run, "lost")
        await work
        assert running.queue.jobs[int(run.parent.name)].status is values.Status.CANCELED
        assert incident(running).repair_status.value == "completed"
        (started,) = [spec for spec in twin.specs.values() if spec.kind == "startup"]
        assert started.variables["step"]["instance"]["uuid"] == step["instance"]["uuid"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "is_done"), [("failover", True), ("migrate", True), ("startup", True), ("replace_disks", False)]
)
def test_what_waits_for_a_person_fails_no_incident_as_a_migration_and_a_start_may_be_failovers(
    lab: world.Lab, monkeypatch: pytest.MonkeyPatch, kind: str, is_done: bool
) -> None:
    async def scenario() -> None:
        running, _twin = twins.assemble(lab, monkeypatch)
        twins.report(lab, running, "node2", FAILOVER)
        await running.rounds.step()
        waits = {"reason": "it may lack writes", "unblock": "`roundsman instance failover instance1`", "basis": []}
        opcode = values.Opcode(
            kind, {"instance": "i1"}, result={"waits": waits}, status=values.Status.ERROR, started=2.0
        )
        job = twins.job(9, opcode)
        assert outcomes.refusals([job]) == ({"i1": waits} if is_done else {})
        cluster = running.configuration.current
        assert outcomes.of_incident(cluster, incident(running), [job], {9: job})[9].succeeded is is_done

    asyncio.run(scenario())


def failovers(*statuses: values.Status, result: object = None) -> list[values.Job]:
    """A job for the failover of each of some instances."""
    return [
        values.Job(
            number,
            (values.Opcode("failover", OVER | {"instance": f"i{number}"}, status=status, started=1.0, result=result),),
        )
        for number, status in enumerate(statuses, start=1)
    ]


def in_cluster(*, is_dead: bool = False, **places: str) -> clusters.Cluster:
    """Instances (UUIDs) with their primaries, and replicas on node n2, which `is_dead`."""
    nodes = {uuid: clusters.Node(uuid, uuid, "g", off_confirmed=float(is_dead and uuid == "n2")) for uuid in NODES}
    instances = {
        uuid: dataclasses.replace(
            small_cluster.make().instances["i1"],
            uuid=uuid,
            name=uuid,
            primary_node=primary,
            secondary_nodes=("n3" if primary == "n2" else "n2",),
        )
        for uuid, primary in places.items()
    }
    return dataclasses.replace(small_cluster.make(), nodes=nodes, instances=instances)


DEAD = in_cluster(is_dead=True, i1="n2", i2="n2", i3="n2")


def test_no_failed_move_off_a_dead_node_fails_its_incident_by_itself_and_its_instance_is_planned_no_more() -> None:
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)
    bad, good, waiting = values.Status.ERROR, values.Status.SUCCESS, values.Status.WAITING
    for statuses, is_dead, succeeded in (
        ((bad, waiting, good), True, [None, None, True]),
        ((bad, waiting, good), False, [False, None, True]),
        ((bad, good, good), True, [None, True, True]),
    ):
        jobs = failovers(*statuses)
        cluster = DEAD if is_dead else in_cluster(i1="n2", i2="n2", i3="n2")
        found = outcomes.of_incident(cluster, noted, jobs, {job.id: job for job in jobs})
        assert [outcome.succeeded for outcome in found.values()] == succeeded
        exhausted = outcomes.exhausted(cluster, noted, jobs, {})
        assert list(exhausted) == (["i1"] if is_dead else [])
        assert all(refusal.permanent for refusal in exhausted.values())


@pytest.mark.parametrize(
    ("primary", "later", "cure"),
    [
        ("n2", None, "`roundsman instance failover i1`"),
        ("n3", None, "`roundsman instance start i1`"),
        ("n1", None, None),
        ("n3", values.Opcode("startup", {"instance": "i1"}, status=values.Status.SUCCESS, started=5.0), None),
        ("n3", values.Opcode("startup", {"instance": "i1"}, status=values.Status.SUCCESS), "`roundsman instance start"),
        ("n3", values.Opcode("startup", {"instance": "i1"}, status=values.Status.ERROR), "`roundsman instance start"),
    ],
)
def test_a_failover_that_failed_counts_until_its_instance_has_left_or_was_started(
    primary: str, later: values.Opcode | None, cure: str | None
) -> None:
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)
    jobs = failovers(values.Status.ERROR)
    known = {job.id: job for job in [*jobs, *([values.Job(9, (later,))] if later else [])]}
    found = outcomes.exhausted(in_cluster(is_dead=True, i1=primary), noted, jobs, known)
    assert list(found) == (["i1"] if cure else [])
    assert all(refusal.unblock.startswith(cure or "") for refusal in found.values())


def test_a_replica_that_could_not_be_replaced_counts_until_it_has_left_and_hinders_no_failover() -> None:
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)
    params = {"instance": "i1", "old": "n2", "new": "n3"}
    first = values.Job(1, (values.Opcode("replace_disks", params, status=values.Status.ERROR, started=1.0),))
    after = values.Opcode("replace_disks", params | {"instance": "i2"}, status=values.Status.ERROR)
    offline = values.Opcode("node_role", {"node": "n2"}, status=values.Status.ERROR)
    on_success = (values.Dependency(1, (values.Status.SUCCESS,)),)
    jobs = [first, values.Job(2, (after,), depends=on_success), values.Job(3, (offline,), depends=on_success)]
    cluster = in_cluster(is_dead=True, i1="n1", i2="n1")
    found = outcomes.of_incident(cluster, noted, jobs, {job.id: job for job in jobs})
    assert not [outcome for outcome in found.values() if outcome.succeeded is False]
    assert list(outcomes.exhausted(cluster, noted, jobs, {})) == ["i1"], "the other was not tried"
    moved = dataclasses.replace(cluster.instances["i1"], secondary_nodes=("n4",))
    cluster = dataclasses.replace(cluster, instances={"i1": moved})
    assert not outcomes.exhausted(cluster, noted, jobs, {})


def test_a_failover_whose_source_was_not_confirmed_off_is_planned_again_and_not_for_ever() -> None:
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)
    jobs = [
        values.Job(
            number,
            (
                values.Opcode(
                    "failover",
                    {"instance": "i1"},
                    status=values.Status.ERROR,
                    started=1.0,
                    result={instance_moves.UNFENCED: True},
                    text="its BMC does not answer",
                ),
            ),
        )
        for number in range(1, outcomes.UNFENCED_RETRIES + 2)
    ]
    found = outcomes.of_incident(in_cluster(i1="n2"), noted, jobs, {})
    *others, last = (outcome.succeeded for outcome in found.values())
    assert (set(others), last) == ({True}, False)


def test_a_bmc_that_was_dark_for_long_and_a_controller_that_reboots_then_are_not_one_row() -> None:
    noted = incidents.note(diagnosis.parse(FAILOVER), node="n2", uuid="incident1", now=1.0)
    results = [{instance_moves.UNFENCED: True}] * 3 + [plays.LOST] * 3
    jobs = [
        values.Job(
            number,
            (values.Opcode("failover", OVER, status=values.Status.ERROR, started=1.0, result=result),),
        )
        for number, result in enumerate(results, start=1)
    ]
    for count in range(4, 7):
        assert bool(outcomes.exhausted(DEAD, noted, jobs[:count], {})) is (count == 6), count


def test_a_failover_that_fails_at_its_target_keeps_none_of_the_others_of_a_dead_node_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [("node2", "node3"), *[("node2", "node4")] * 4]
    lab = twins.lab(tmp_path, instances=5, pairs=pairs, moves_per_node=1)

    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "error success success success success"})
        node = await dies(running, "node2")
        await twins.settle(running)
        assert kinds(twin).count("failover") == 5, "one each"
        assert len(running.configuration.current.primaries(node.uuid)) == 1
        assert incident(running).repair_status.value == "failed"

    asyncio.run(scenario())


async def dies(running: service.Service, name: str) -> clusters.Node:
    """A node is known to be off, and its incident is noted."""
    node = running.configuration.current.node(name)
    await running.configuration.commit(lambda _: [changes.NodePowered(node.uuid, powered=False)])
    dead = incidents.note(dead_nodes.report(node), node=node.uuid, uuid="dead-1", now=running.intake.now.wall)
    await running.configuration.commit(lambda _: [changes.IncidentStands(dead)])
    return node


async def failing_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[service.Service, twins.Processes, Path, Path]:
    """node2 has died, and the runs that fail its two instances over are at work."""
    lab = twins.lab(folder, nodes=5, instances=2, pairs=[("node2", "node3"), ("node2", "node4")])
    running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held"})
    await dies(running, "node2")
    await running.rounds.step()
    first, second = await twins.until_held(twin, 2)
    return running, twin, first, second


def test_one_bad_target_and_a_bmc_that_is_dark_for_a_while_leave_one_instance_of_a_dead_node_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = twins.lab(tmp_path, instances=3, pairs=[("node2", "node3"), *[("node2", "node4")] * 2])

    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "held"})
        node = await dies(running, "node2")
        await running.rounds.step()
        bad, dark, lost = await twins.until_held(twin, 3)
        twin.finish(bad, "error")
        twin.values["failover"] = {instance_moves.UNFENCED: True}
        twin.finish(dark, "error")
        twin.finish(lost, "lost")
        del twin.values["failover"]
        twin.outcomes["failover"] = "success"
        await twins.settle(running)
        (left,) = running.configuration.current.primaries(node.uuid)
        assert twin.specs[bad].variables["step"]["instance"]["uuid"] == left.uuid
        assert kinds(twin).count("failover") == 5, "the bad one is not repeated"
        assert kinds(twin).count("replace_disks") == 2, "the others have their new secondaries"
        found = incident(running)
        assert found.repair_status.value == "failed"
        assert found.reason.startswith(f"{left.name}: job {bad.parent.name} failed: the twin was told to fail")

    asyncio.run(scenario())


def test_a_replica_that_finds_no_place_does_not_keep_a_failover_that_failed_from_failing_the_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = twins.lab(tmp_path, nodes=3, instances=2, pairs=[("node2", "node3")] * 2, moves_per_node=1)

    async def scenario() -> None:
        running, twin = twins.assemble(lab, monkeypatch, outcomes={"failover": "error success"})
        node1 = running.configuration.current.node("node1")
        closed = changes.NodeRole(node1.uuid, drained=True, offline=False, master_candidate=node1.master_candidate)
        await running.configuration.commit(lambda _: [closed])
        await dies(running, "node2")
        await twins.settle(running)
        found = incident(running)
        assert kinds(twin) == ["failover"] * 2
        assert found.repair_status.value == "failed"
        assert "failed: the twin was told to fail" in found.reason

    asyncio.run(scenario())


def test_an_instance_that_a_person_failed_over_elsewhere_meanwhile_fails_no_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin, bad, slow = await failing_over(tmp_path, monkeypatch)
        node = running.configuration.current.node("node2")
        twin.finish(bad, "error")
        step = twin.specs[bad].variables["step"]
        by_hand = changes.InstanceNodes(step["instance"]["uuid"], step["target"]["uuid"], (node.uuid,))
        opcode = values.Opcode("startup", {"instance": step["instance"]["uuid"]})
        await running.queue.wait(int(bad.parent.name), seconds=twins.LIMIT)
        await running.configuration.commit(lambda _: [by_hand])
        (job,) = await running.queue.submit([twins.job(0, opcode)])
        await running.queue.wait(job.id, seconds=twins.LIMIT)
        twin.finish(slow)
        twin.outcomes["failover"] = "success"
        await twins.settle(running)
        assert (incident(running).repair_status.value, incident(running).reason) == ("completed", "")
        moved = running.configuration.current.instance(step["instance"]["uuid"])
        assert (moved.primary_node, node.uuid in moved.nodes) == (step["target"]["uuid"], False)

    asyncio.run(scenario())


def test_a_failover_that_failed_after_its_record_is_told_though_a_persons_own_failover_was_moot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person sees the instance down and queues `instance failover` while the round's is at work."""

    async def scenario() -> None:
        running, twin, bad, good = await failing_over(tmp_path, monkeypatch)
        step = twin.specs[bad].variables["step"]
        params = {
            "instance": step["instance"]["uuid"],
            "source": step["source"]["uuid"],
            "target": step["target"]["uuid"],
        }
        (mine,) = await running.queue.submit([twins.job(0, values.Opcode("failover", params))])
        # It is recorded at its target, and its guest does not start there.
        moved = changes.InstanceNodes(params["instance"], params["target"], tuple(step["secondaries"]))
        run_records.append(bad, recording.encode(moved))
        twin.finish(bad, "error", text="the guest does not start")
        await running.queue.wait(mine.id, seconds=twins.LIMIT)
        job = running.queue.jobs[mine.id]
        assert (job.status, "has left" in job.opcodes[0].text) == (values.Status.SUCCESS, True)
        assert job.opcodes[0].started == 0.0, "it did nothing"
        twin.finish(good)
        twin.outcomes["failover"] = "success"
        await twins.settle(running)
        assert not [run for run in twin.ran if run.startswith("startup")], "it is not started"
        found = incident(running)
        assert found.repair_status.value == "failed", (found.repair_status.value, found.reason)
        assert "the guest does not start" in found.reason

    asyncio.run(scenario())


def test_a_failover_that_failed_is_told_while_another_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, twin, bad, asks = await failing_over(tmp_path, monkeypatch)
        twin.finish(bad, "error", text="the guest does not start")
        cluster = running.configuration.current
        other = cluster.instance(twin.specs[asks].variables["step"]["instance"]["uuid"])
        waits = {
            "reason": "it may lack writes",
            "unblock": "--max-loss",
            "basis": replica_evidence.basis(cluster, other),
        }
        twin.values["failover"] = {"waits": waits}
        twin.finish(asks, "error")
        del twin.values["failover"]
        twin.outcomes["failover"] = "success"
        await twins.settle(running)
        assert len([run for run in twin.ran if run.startswith("failover")]) == 2
        found = incident(running)
        assert found.repair_status.value == "failed", (found.repair_status.value, found.reason)

    asyncio.run(scenario())


def test_a_replica_that_another_job_moves_right_now_is_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = twins.lab(tmp_path, nodes=5, instances=3, pairs=[("node2", "node3"), ("node2", "node4"), ("node3", "node2")])

    async def scenario() -> None:
        running, twin = twins.assemble(
            lab, monkeypatch, outcomes={"failover": "error success", "replace_disks": "held", "reboot": "held"}
        )
        cluster = running.configuration.current
        third = cluster.instance("instance3")
        # A person's own copy of the third, which will be lost with the controller, say.
        params = {"instance": third.uuid, "old": cluster.node("node2").uuid, "new": cluster.node("node5").uuid}
        await running.queue.submit([twins.job(0, values.Opcode("replace_disks", params))])
        (mine,) = await twins.until_held(twin, 1)
        await dies(running, "node2")
        twin.outcomes["replace_disks"] = "success"
        for _ in range(40):
            if not await running.rounds.step():
                open_jobs = [
                    number for number in running.queue.unfinished(running.queue.jobs) if str(number) != mine.parent.name
                ]
                if not open_jobs:
                    break
                for number in open_jobs:
                    await running.queue.wait(number, seconds=twins.LIMIT)
        before = incident(running).repair_status.value
        twin.finish(mine, "error", text="node5 has no room")
        await twins.settle(running)
        assert before != "failed", incident(running).reason
        moved = running.configuration.current.instance(third.uuid)
        assert cluster.node("node2").uuid not in moved.nodes, "its new secondary was planned after that job"

    asyncio.run(scenario())
