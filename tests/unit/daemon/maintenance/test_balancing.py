from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.api import explanations
from ansible_collections.roundsman.cluster.daemon.jobs import submission, values
from ansible_collections.roundsman.cluster.daemon.maintenance import agents, balancing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import configured, rebalancing

from tests.unit.daemon import twins
from tests.unit.daemon.jobs import daemons

if TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.roundsman.cluster.daemon import service
    from ansible_collections.roundsman.cluster.daemon.lab import world

EVACUATE = '{"status":"evacuate","details":"psu 2"}'
OK = '{"status":"Ok"}'
ON = {"balance": True, "balance_disk_moves": True}
UNEVEN = [("node2", "node3")] * 6


def made(tmp_path: Path, **settings: Any) -> world.Lab:
    """Four nodes, of which one runs all instances and another has all replicas."""
    return twins.lab(tmp_path, pairs=UNEVEN, **settings)


def score(running: service.Service) -> float:
    return oracle.score(configured.model_of(running.configuration.current))


def searches(monkeypatch: pytest.MonkeyPatch) -> list[rebalancing.Question]:
    """Every question that is searched for from now on."""
    found: list[rebalancing.Question] = []
    answer = rebalancing.answer

    def noted(asked: rebalancing.Question) -> rebalancing.Answer:
        found.append(asked)
        return answer(asked)

    monkeypatch.setattr(rebalancing, "answer", noted)
    return found


def test_rounds_balance_an_uneven_cluster_and_then_there_is_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(made(tmp_path, **ON), monkeypatch)
        before, asked = score(running), searches(monkeypatch)
        await twins.settle(running)
        cluster = running.configuration.current
        assert score(running) < before / 4
        assert max(len(cluster.primaries(one)) for one in cluster.nodes) == 2
        assert {one.status for one in running.queue.jobs.values()} == {values.Status.SUCCESS}
        assert {one.reason[0].source for one in running.queue.jobs.values()} == {"gnt:daemon:maintd"}
        assert {one.reason[0].text.partition(":")[0] for one in running.queue.jobs.values()} == {"balancing group1"}
        done = len(asked)
        assert not await running.rounds.step()
        assert len(asked) == done

    asyncio.run(scenario())


@pytest.mark.parametrize("settings", [{}, {"balance": True, "balance_threshold": 1e6}, {"paused": "a move", **ON}])
def test_nothing_is_balanced_unless_it_is_wanted_worth_it_and_not_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(made(tmp_path, **settings), monkeypatch)
        await twins.settle(running)
        assert running.queue.jobs == {}

    asyncio.run(scenario())


def test_without_disk_moves_instances_only_change_their_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(made(tmp_path, balance=True), monkeypatch)
        await twins.settle(running)
        kinds = {opcode.kind for job in running.queue.jobs.values() for opcode in job.opcodes}
        assert kinds == {"migrate"}
        names = running.configuration.current.node_name
        assert {names(uuid) for one in running.configuration.current.instances.values() for uuid in one.nodes} == {
            "node2",
            "node3",
        }

    asyncio.run(scenario())


def test_a_balancing_that_failed_is_not_tried_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, twin = twins.assemble(made(tmp_path, balance=True), monkeypatch, outcomes={"migrate": "error"})
        await twins.settle(running)
        first, ran = running.configuration.current.maintenance.round, len(twin.ran)
        assert first == 1
        (refusal,) = [one for one in running.rounds.preview().refusals if one.subject == "balancing"]
        assert "did not succeed" in refusal.reason
        twin.outcomes["migrate"] = "success"
        assert not await running.rounds.step()
        settings = running.configuration.current.maintenance.settings
        over = changes.SettingsStand(dataclasses.replace(settings, round_interval=1e-9))
        await running.configuration.commit(lambda _: [over])
        await twins.settle(running)
        assert running.configuration.current.maintenance.round > first
        assert len(twin.ran) > ran

    asyncio.run(scenario())


def test_an_evacuation_and_balancing_share_a_round_but_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        pairs = [("node1", "node2"), *[("node3", "node4")] * 6]
        one = twins.lab(tmp_path, nodes=5, pairs=pairs, balance=True)
        running, _ = twins.assemble(one, monkeypatch)
        twins.report(one, running, "node1", EVACUATE)
        while not running.queue.jobs:
            assert await running.rounds.step()
        told: dict[str, set[str]] = {"evacuating": set(), "balancing": set()}
        for job in running.queue.jobs.values():
            told[job.reason[0].text.partition(" ")[0]] |= {name for name in job.names.values() if "node" in name}
        assert told["balancing"] == {"node3", "node4"}
        assert {"node1", "node2"} <= told["evacuating"] <= {"node1", "node2", "node5"}
        await twins.settle(running)

    asyncio.run(scenario())


def test_while_an_evacuation_waits_nothing_is_balanced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        one = made(tmp_path, balance=True)
        running, _ = twins.assemble(one, monkeypatch)
        twins.report(one, running, "node1", EVACUATE)
        await twins.settle(running)
        assert running.queue.jobs == {}
        told = {refusal.subject: refusal.reason for refusal in running.rounds.preview().refusals}
        assert told["node1"] == "node1 is the master: it waits for the master role to move"
        assert told["balancing"].startswith("waits: the evacuation of node1 (incident ")
        twins.report(one, running, "node1", OK)
        await twins.settle(running)
        assert running.queue.jobs

    asyncio.run(scenario())


def test_the_nodes_of_others_jobs_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(made(tmp_path), monkeypatch)
        cluster = running.configuration.current
        locks = {f"node/{cluster.node('node3').uuid}": "shared"}
        (delay,) = await running.queue.submit(
            [values.Job(0, (values.Opcode("test_delay", {"duration": 60.0, "locks": locks}, 0),))]
        )
        settings = dataclasses.replace(cluster.maintenance.settings, balance=True)
        await running.configuration.commit(lambda _: [changes.SettingsStand(settings)])
        while await running.rounds.step():
            pass
        assert running.rounds.preview().jobs == ()
        assert [one.subject for one in running.rounds.preview().left_out] == ["node3"]
        await daemons.cancel(running, delay.id)
        await twins.settle(running)
        assert len(running.queue.jobs) > 1

    asyncio.run(scenario())


def test_unstarted_balancing_is_given_up_when_a_node_is_to_be_evacuated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        one = made(tmp_path, balance=True)
        running, twin = twins.assemble(one, monkeypatch, limit=1, outcomes={"migrate": "held"})
        while not running.queue.jobs:
            assert await running.rounds.step()
        await twin.started.wait()
        twins.report(one, running, "node1", EVACUATE)
        await running.rounds.step()
        await running.rounds.step()
        left = [job.status for job in running.queue.jobs.values()]
        assert left.count(values.Status.CANCELED) == len(left) - 1
        assert "did not succeed" not in str(running.rounds.preview().refusals)
        await running.queue.stop()

    asyncio.run(scenario())


def test_balancing_of_a_round_with_an_evacuation_is_not_given_up_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        one = made(tmp_path, balance=True)
        running, _ = twins.assemble(one, monkeypatch, limit=1, outcomes={"migrate": "held"})
        twins.report(one, running, "node4", EVACUATE)
        while not running.queue.jobs:
            assert await running.rounds.step()
        balancing = [job for job in running.queue.jobs.values() if not submission.has_incident(job)]
        await running.rounds.step()
        assert balancing
        assert all(running.queue.jobs[job.id].status is not values.Status.CANCELED for job in balancing)
        await running.queue.stop()

    asyncio.run(scenario())


def test_explain_tells_why_balancing_leaves_a_node_out_and_what_it_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        running, _ = twins.assemble(made(tmp_path, balance=True), monkeypatch)
        cluster = running.configuration.current
        drained = changes.NodeRole(cluster.node("node4").uuid, drained=True, offline=False, master_candidate=False)
        await running.configuration.commit(lambda _: [drained])
        assert await running.rounds.step()
        assert running.rounds.preview().jobs

        def told(name: str) -> dict[str, Any]:
            preview = running.rounds.preview()
            return explanations.explain(
                running.configuration.current, name, intake=running.intake, queue=running.queue, preview=preview
            )

        (refusal,) = told("node4")["refusals"]
        assert refusal["reason"] == "balancing leaves it out: it is drained"
        assert told("node4")["planned"] == []
        assert [one["reason"] for one in told("node2")["planned"]] == ["balancing group1: moving instance3"]
        await running.queue.stop()

    asyncio.run(scenario())


def measures(running: service.Service, **cpus: float) -> None:
    """Let the agents of these nodes have told how many of their CPUs are busy."""
    for name, busy in cpus.items():
        node = running.configuration.current.node(name)
        running.agents.seen[node.uuid] = agents.Seen(load=agents.Load(busy, time.time()))


EVEN = [("node1", "node2"), ("node1", "node2"), ("node2", "node1"), ("node2", "node1")]
LOADED: dict[str, Any] = {**ON, "balance_dynamic_load": True, "balance_threshold": 0.0, "round_interval": 3600.0}


def test_what_instances_really_use_is_balanced_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        lab = twins.lab(tmp_path, nodes=2, pairs=EVEN, **LOADED)
        running, _ = twins.assemble(lab, monkeypatch)
        asked = searches(monkeypatch)
        measures(running, node1=8.0, node2=0.0)
        await running.rounds.step()
        (question,) = asked
        found = rebalancing.answer(question)
        assert found.jobs
        assert not found.refusals
        assert not rebalancing.answer(dataclasses.replace(question, measured=None)).jobs
        measures(running, node1=7.0, node2=1.0)
        await twins.settle(running)
        # What has moved would count where it was before.
        assert {str(one.measured) for one in asked if one.measured} == {str(question.measured)}

    asyncio.run(scenario())


def test_a_load_that_is_not_known_is_told_and_stops_no_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        lab = made(tmp_path, **{**ON, "balance_dynamic_load": True})
        running, _ = twins.assemble(lab, monkeypatch)
        await running.rounds.step()
        plan = running.rounds.preview()
        (refusal,) = [one for one in plan.refusals if "no load is known" in one.reason]
        assert "node2" in refusal.reason
        assert plan.jobs
        measures(running, node2=1.0)
        await running.rounds.step()
        assert not [one for one in running.rounds.preview().refusals if "no load is known" in one.reason]

    asyncio.run(scenario())


@pytest.mark.parametrize("step", [3600.0, -3600.0, 86400.0, -86400.0])
def test_the_time_since_an_event_follows_no_step_of_the_clock(step: float) -> None:
    wall, passed = [1_000_000.0], [50.0]
    elapsed = balancing._Elapsed(lambda: wall[0], lambda: passed[0])
    assert elapsed.seconds(999_990.0, of=1) == 10
    wall[0] += step
    passed[0] += 5
    assert elapsed.seconds(999_990.0, of=1) == 15
    assert elapsed.seconds(wall[0] + 86400, of=2) == 0, "an event that is dated ahead is one of now"
    passed[0] += 7
    assert elapsed.seconds(wall[0] + 86400, of=2) == 7
