from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
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
    told = {"hostvars": {"node2": {}}, "roundsman_left_out": {"node1": "why"}}
    assert node_results.registered(told, ["node1"], variable="step") == {}
    assert node_results.left_out(told, ["node1", "node2"]) == {"node1": "node1 is left out of plays: why"}


@pytest.mark.parametrize("name", ["node9", "../../tmp/x", "x localhost", "localhost", "all", "-oProxyCommand=x"])
def test_a_node_that_the_configuration_names_only_since_the_play_began_is_left_out(name: str) -> None:
    """Ansible would make a host of its name, and take its variables from the file that the name leads to."""
    told: dict[str, Any] = {"hostvars": {"localhost": {}, "node1": {}}, "roundsman_left_out": {}}
    assert list(node_results.left_out(told, ["node1", name])) == [name]
    assert list(node_results.left_out(None, [name])) == [name]
    with pytest.raises(errors.Refused, match="is left out of plays"):
        node_results.refuse_left_out(told, ["node1", name])
    node_results.refuse_left_out(told, ["node1"])
