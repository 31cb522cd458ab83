from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import plan_documents, sealed_json
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Move, Plan, Refusal
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import compared
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import moving, schedules

from tests.unit.plugins.plugin_utils.rounds import steps, tables

TABLE = """
node1 16384 100000
node2 16384 100000
node3 16384 100000
instance1 drbd 1024 10240 node1 node2
instance2 rbd 2048 10240 node1
"""
COMMAND = "roundsman evacuate node1"


def made(cluster: clusters.Cluster) -> plan_documents.Document:
    moves = (Move("instance1", ("f", "r:node3")), Move("instance2", ("f:node3",), ("instance1",)))
    scores = compared.Scores({"free_mem_cv": 2.0}, {"free_mem_cv": 1.0})
    plan = Plan(moves, (Refusal("instance3", "it is plain"),), ("node3 may no longer fail",))
    jobs = moving.Jobs(cluster).make_all(moves)
    turns = schedules.expected(cluster, moves, jobs)
    return plan_documents.made(cluster, plan, scores=scores, jobs=jobs, turns=turns, command=COMMAND)


def _moves(document: plan_documents.Document) -> list[Move]:
    return [Move(entry.instance, tuple(entry.action.split()), entry.after) for entry in document.moves]


def _sealed(**changed: Any) -> bytes:
    told = json.loads(plan_documents.text(made(tables.read(TABLE))))
    return sealed_json.seal(json.dumps({**told, **changed}).encode())


def test_a_document_that_was_written_is_read_as_the_same() -> None:
    document = made(tables.read(TABLE))
    assert plan_documents.read(plan_documents.write(document)) == document


def test_it_tells_moves_jobs_and_scores_by_name() -> None:
    told = json.loads(plan_documents.write(made(tables.read(TABLE))))
    first, second = told["moves"]
    assert (first["instance"], first["action"], first["primary"], first["secondary"]) == (
        *("instance1", "f r:node3", "node2", "node3"),
    )
    assert (second["secondary"], second["after"], second["wave"]) == (None, ["instance1"], 1)
    assert second["start"] == first["seconds"]
    assert told["seconds"] == pytest.approx(second["start"] + second["seconds"])
    assert (told["waves"], told["data_gib"]) == ([["instance1"], ["instance2"]], pytest.approx(11 + 2))
    assert told["jobs"][0] == {
        "key": "move:instance1",
        "opcodes": [
            {"kind": "migrate", "instance": "instance1", "source": "node1", "target": "node2"},
            {"kind": "replace_disks", "instance": "instance1", "old": "node1", "new": "node3"},
        ],
        "after": [],
        "behind": [],
    }
    assert (told["initial_score"] > told["final_score"], told["notes"]) == (True, ["node3 may no longer fail"])
    assert told["kept"] == [{"instance": "instance3", "text": "it is plain", "unblock": ""}]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is no plan"),
        (b'{"version": 2}', "it is no plan"),
        (b"\xff\x00", "it is no plan"),
        (plan_documents.write(made(tables.read(TABLE)))[:-20], "it was cut off, damaged or edited"),
        (plan_documents.write(made(tables.read(TABLE))).replace(b"r:node3", b"r:node2"), "damaged or edited"),
        (_sealed(format=2), "it is a plan of format 2, and 1 is expected: make it again"),
        (_sealed(format=None), "format None"),
        (_sealed(moves=[{"instance": "instance1"}]), "it is no plan: moves/0/action: Field required"),
        (_sealed(seconds="long"), "it is no plan: seconds: "),
        (sealed_json.seal(b'{"a": NaN}'), "format None"),
        (sealed_json.seal(b'{"format": 1, "x": [}'), "it is no plan"),
    ],
)
def test_what_is_no_plan_is_told_in_one_line(data: bytes, told: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        plan_documents.read(data)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_plan_runs_as_jobs_made_of_its_moves_whatever_jobs_its_text_has() -> None:
    cluster = tables.read(TABLE)
    document = dataclasses.replace(made(cluster), jobs=())
    jobs = plan_documents.run(
        cluster, _moves(document), digest=document.digest, command=document.command, failover=document.failover
    )
    assert steps.of(jobs) == {
        "move:instance1": ["migrate instance1 node1 node2", "replace_disks instance1 node1 node3"],
        "move:instance2": ["migrate instance2 node1 node3"],
    }
    assert jobs[1].after == ("move:instance1",)
    assert jobs[0].reason == "roundsman evacuate node1: moving instance1"


def test_a_plan_is_refused_when_the_cluster_has_changed_since_or_is_another_one() -> None:
    cluster = tables.read(TABLE)
    document = made(cluster)
    changed = clusters.with_node(cluster, dataclasses.replace(cluster.node("node3"), drained=True))
    with pytest.raises(errors.Refused, match="changed since this plan was made: make it again with `roundsman evac"):
        plan_documents.run(changed, _moves(document), digest=document.digest, command=COMMAND, failover=False)
    other = dataclasses.replace(cluster, cluster=dataclasses.replace(cluster.cluster, uuid="other"))
    with pytest.raises(errors.Refused, match="was made for another cluster"):
        plan_documents.refuse_another(other, document)
    plan_documents.refuse_another(cluster, document)
