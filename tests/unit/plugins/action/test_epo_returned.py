from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.action import epo_returned
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes

from tests.unit import small_cluster

if TYPE_CHECKING:
    from .running import Controller

RUNNING = {"name": "inst1", "running": True}


@pytest.mark.parametrize(
    ("node", "result", "found"),
    [
        ("node2", RUNNING, {"i1"}),
        # The primary is node2: what another node says of the instance counts for nothing, and a claim is a plain one.
        ("node3", RUNNING, set()),
        ("node2", {**RUNNING, "running": "yes"}, set()),
        ("node2", {"name": ["inst1"], "running": True}, set()),
        ("node2", {}, set()),
    ],
)
def test_only_its_own_primary_says_that_an_instance_runs_again(
    node: str, result: dict[str, Any], found: set[str]
) -> None:
    told: dict[str, Any] = {"hostvars": {name: {} for name in ("node1", "node2", "node3", "node10")}}
    told["hostvars"][node] = {"epo_step": {"results": [result]}}
    assert epo_returned._running(small_cluster.make(), told) == found


@pytest.mark.parametrize(
    ("node", "results", "lines"),
    [
        ("node3", [{"name": "inst1", "text": "it stands alone"}], ["the replica of inst1 on node3: it stands alone"]),
        # Not its secondary.
        ("node2", [{"name": "inst1", "text": "it is"}], ["the replica of an instance on node2: it is"]),
        ("node3", [{"name": ["inst1"]}, {}, {"name": "nobody's"}], []),
        ("node3", None, []),
    ],
)
def test_a_bad_answer_ends_nothing_and_names_no_instance_but_those_of_its_node(
    node: str, results: Any, lines: list[str]
) -> None:
    told: dict[str, Any] = {"hostvars": {name: {} for name in ("node1", "node2", "node3", "node10")}}
    told["hostvars"][node] = {"epo_replicas": {"results": results}, "epo_step": {"results": results}}
    assert epo_returned._running(small_cluster.make(), told) == set()
    assert epo_returned._replicas_missed(small_cluster.make(), told) == lines


@pytest.mark.parametrize(
    ("node", "result", "lines"),
    [
        (
            "node2",
            {"name": "inst1", "text": "it may be older\x1b"},
            ["inst1 does not run on node2: it may be older\\x1b"],
        ),
        ("node2", {"name": "inst1", "text": ["x"]}, ["inst1 does not run on node2"]),
        ("node3", {"name": "inst1", "text": "it is mine"}, ["inst1 does not run on node2"]),
    ],
)
def test_what_does_not_run_is_named_with_the_reason_of_its_own_primary(
    controller: Controller, node: str, result: dict[str, Any], lines: list[str]
) -> None:
    standing = changes.EpoStands((), ("i1",), "root", returning=True)
    controller.configure(changes.apply_all(small_cluster.make(), [standing], now=1.0))
    variables: dict[str, Any] = {"hostvars": {"node2": {}, "node3": {}, node: {"epo_step": {"results": [result]}}}}
    told = controller.run("epo_returned", is_check=True, nodes={"node2": "n2", "node3": "n3"}, variables=variables)
    assert told["missed"] == lines


def test_what_starts_is_given_with_the_node_of_its_other_replica(controller: Controller) -> None:
    standing = changes.EpoStands(("n2", "n3"), ("i1",), "root", returning=True)
    controller.configure(changes.apply_all(small_cluster.make(), [standing], now=1.0))
    variables: dict[str, Any] = {"hostvars": {node: {"epo_answer": {}} for node in ("node2", "node3")}}
    result = controller.run("epo_returned", is_check=True, nodes={"node2": "n2", "node3": "n3"}, variables=variables)
    assert [one["peer"] for one in result["starts"]["node2"]] == [{"here": "node2", "name": "node3"}]
    assert "peer" not in result["replicas"]["node3"][0]


def test_a_node_that_plays_leave_out_is_not_waited_for_and_told_with_the_reason(controller: Controller) -> None:
    standing = changes.EpoStands(("n2", "n3"), ("i1",), "root", returning=True)
    controller.configure(changes.apply_all(small_cluster.make(), [standing], now=1.0))
    variables = {"hostvars": {"node3": {"epo_answer": {}}}, "roundsman_left_out": {"node2": "it is somebody's"}}
    result = controller.run("epo_returned", is_check=True, nodes={"node2": "n2", "node3": "n3"}, variables=variables)
    assert (result["waiting"], result["starts"]) == ([], {})
    assert "node2 is left out of plays: it is somebody's" in result["missed"]
