from __future__ import annotations

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import node_results


def test_a_node_whose_task_has_not_run_has_no_result() -> None:
    told = {"hostvars": {"node1": {"step": {"changed": True}}, "node2": {}, "node3": {"step": {"failed": True}}}}
    found = node_results.registered(told, ["node1", "node2"], variable="step")
    assert found == {"node1": {"changed": True}}


@pytest.mark.parametrize(
    ("result", "is_failed"),
    [({}, False), ({"failed": True}, True), ({"unreachable": True}, True), ({"failed": False}, False)],
)
def test_a_node_that_was_not_reached_has_not_done_it(result: dict[str, bool], *, is_failed: bool) -> None:
    assert node_results.failed(result) is is_failed


def test_a_node_that_plays_leave_out_has_no_result_and_a_reason() -> None:
    told = {"hostvars": {}, "roundsman_left_out": {"node1": "why"}}
    assert node_results.registered(told, ["node1"], variable="step") == {}
    assert node_results.left_out(told, ["node1", "node2"]) == {"node1": "node1 is left out of plays: why"}
    assert node_results.left_out(None, ["node1"]) == {}
