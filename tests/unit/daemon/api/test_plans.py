from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import plan_documents
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Move, Plan
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import compared
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import moving, schedules

from tests.unit.daemon.api.reached import Reached, reach

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def run(act: Callable[[Reached], Awaitable[None]], **options: Any) -> None:
        reach(tmp_path, monkeypatch, act, is_local=True, **options)

    return run


def _document(one: Reached, *moves: Move) -> plan_documents.Document:
    cluster = one.running.configuration.current
    jobs = moving.Jobs(cluster).make_all(moves)
    turns = schedules.expected(cluster, moves, jobs)
    scores = compared.Scores({}, {})
    return plan_documents.made(cluster, Plan(moves), scores=scores, jobs=jobs, turns=turns, command="roundsman balance")


def _body(document: plan_documents.Document) -> dict[str, str]:
    return {"document": plan_documents.write(document).decode()}


async def _ended(one: Reached, job: int) -> dict[str, Any]:
    told = (await one.ask("GET", f"/2/jobs/{job}/wait?timeout=60")).json()
    assert isinstance(told, dict)
    return told


def test_a_plan_is_run_as_the_jobs_of_its_moves(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        instance = one.running.configuration.current.instance("instance1")
        body = _body(_document(one, Move("instance1", ("f",))))
        job = (await one.ask("POST", "/2/plans", body)).json()
        assert (await _ended(one, job))["status"] == "success"
        [[_, number]] = (await one.ask("GET", f"/2/jobs/{job}")).json()["opresult"][0]["jobs"]
        told = await _ended(one, number)
        assert [opcode["kind"] for opcode in told["opcodes"]] == ["migrate"]
        assert told["status"] == "success"
        after = one.running.configuration.current.instance("instance1")
        assert after.nodes == tuple(reversed(instance.nodes))
        # What it said has come true, so it is no plan for this cluster any more.
        again = (await one.ask("POST", "/2/plans", body)).json()
        assert "the cluster has changed since" in (await _ended(one, again))["text"]

    local(act)


def test_a_plan_for_a_cluster_that_has_changed_submits_nothing(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        body = _body(_document(one, Move("instance1", ("f",))))
        node = one.running.configuration.current.node("node4")
        await one.running.configuration.commit(lambda _: [changes.NodePowered(node.uuid, powered=False)])
        job = (await one.ask("POST", "/2/plans", body)).json()
        told = await _ended(one, job)
        assert (told["status"], told["text"]) == (
            "error",
            "the cluster has changed since this plan was made: make it again with `roundsman balance`",
        )
        assert set(one.running.queue.jobs) == {job}

    local(act)


def test_what_is_no_plan_of_this_cluster_makes_no_job(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        good = _document(one, Move("instance1", ("f",)))
        torn = {"document": plan_documents.write(good).decode()[:-9]}
        assert (await one.refused("POST", "/2/plans", torn))[0] == 400
        assert (await one.refused("POST", "/2/plans", {"document": "\n{}"}))[0] == 400
        assert (await one.refused("POST", "/2/plans", {}))[0] == 400
        status, text = await one.refused("POST", "/2/plans", _body(dataclasses.replace(good, cluster="other")))
        assert (status, "another cluster" in text) == (409, True)
        status, text = await one.refused("POST", "/2/plans", _body(_document(one)))
        assert (status, "has no moves" in text) == (409, True)
        assert one.running.queue.jobs == {}

    local(act)


def test_a_plan_that_ignores_consistency_says_so_in_each_of_its_failovers(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        made = dataclasses.replace(_document(one, Move("instance1", ("f",))), failover=True, ignore_consistency=True)
        job = (await one.ask("POST", "/2/plans", _body(made))).json()
        assert (await _ended(one, job))["status"] == "success"
        [[_, number]] = (await one.ask("GET", f"/2/jobs/{job}")).json()["opresult"][0]["jobs"]
        (opcode,) = one.running.queue.jobs[number].opcodes
        assert (opcode.kind, opcode.params["ignore_consistency"]) == ("failover", True)
        reasons = [entry.text for entry in one.running.queue.jobs[job].reason]
        assert any(text.startswith("ignore_consistency by ") for text in reasons)

    local(act)


def test_a_plan_is_tried_without_being_run(local: Callable[..., None]) -> None:
    async def act(one: Reached) -> None:
        body = _body(_document(one, Move("instance1", ("f",))))
        job = (await one.ask("POST", "/2/plans?dry-run=1", body)).json()
        assert (await _ended(one, job))["status"] == "success"
        told = (await one.ask("GET", f"/2/jobs/{job}")).json()["opresult"][0]
        assert [[opcode["kind"] for opcode in each] for each in told["planned"]] == [["migrate"]]
        assert set(one.running.queue.jobs) == {job}

    local(act)
