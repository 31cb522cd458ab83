from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

if TYPE_CHECKING:
    from .running import Controller


def with_bmcs(*nodes: str) -> clusters.Cluster:
    """The small cluster, in which these nodes have a BMC beside node3."""
    cluster = small_cluster.make()
    for uuid in nodes:
        node = dataclasses.replace(cluster.nodes[uuid], ndparams={"oob_program": "/bin/oob"})
        cluster = clusters.with_node(cluster, node)
    return cluster


@pytest.mark.parametrize(
    ("options", "held"),
    [
        ({"command": "off", "names": ["node3"]}, {"node/n3": "exclusive"}),
        ({"command": "on", "names": ["node3", "node10", "node3"]}, {"node/n3": "exclusive", "node/n10": "exclusive"}),
        ({"command": "cycle", "names": ["node2"], "force": True}, {"node/n2": "exclusive"}),
        ({"command": "status", "names": ["node3"]}, {"node/n3": "shared"}),
        ({"command": "status"}, {"node/n3": "shared", "node/n2": "shared", "node/n1": "shared"}),
    ],
)
def test_the_nodes_are_held_that_are_commanded_and_in_check_mode_none(
    controller: Controller, options: dict[str, Any], held: dict[str, str]
) -> None:
    controller.configure(with_bmcs("n1", "n2"))
    power = {lock.replace("node/", "node-res/"): mode for lock, mode in held.items()}
    for is_check, expected in ((True, {}), (False, held | power)):
        result = controller.run("power_hold", is_check=is_check, **options)
        assert (result.get("failed"), result["changed"]) == (None, False)
        assert controller.held == expected
    assert controller.recorded == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"command": "on"}, "power on is for nodes that are named"),
        ({"command": "off", "names": ["node99\x1b[2J"]}, "node99"),
        ({"command": "off", "names": ["node10"]}, "Node node10 does not support OOB commands"),
        ({"command": "off", "names": ["node2"]}, "node2 still runs inst1: evacuate it first, or use --force"),
        ({"command": "cycle", "names": ["node1"], "force": True}, "node1 is the master"),
        ({"command": "on", "names": ["node3"], "delay": -1}, "delay: -1 seconds"),
        ({"command": "on", "names": ["node3"], "delay": "nan"}, "delay: nan seconds"),
    ],
)
@pytest.mark.parametrize("is_check", [False, True])
def test_what_must_not_be_commanded_is_refused(
    controller: Controller, options: dict[str, Any], said: str, *, is_check: bool
) -> None:
    controller.configure(with_bmcs("n1", "n2"))
    assert said in controller.refusal("power_hold", is_check=is_check, **options)
    assert controller.recorded == []


def test_locks_that_were_not_granted_and_a_missing_configuration_are_told(controller: Controller) -> None:
    controller.grant({"node/n3": "shared"})
    options: dict[str, Any] = {"command": "off", "names": ["node3"]}
    assert "node/n3 (exclusive) was not granted" in controller.refusal("power_hold", **options)
    controller.where.config.unlink()
    assert "config.data does not exist" in controller.refusal("power_hold", **options)
    assert controller.held == {}


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"roundsman_left_out": {"node3": "node3.yml is owned by uid 12345"}}, "node3.yml is owned by uid 12345"),
        ({"hostvars": {"node2": {}}}, "it is not in the inventory that this play began with"),
    ],
)
def test_a_node_that_plays_leave_out_is_not_looked_at_and_keeps_its_power(
    controller: Controller, variables: dict[str, Any], reason: str
) -> None:
    options: dict[str, Any] = {"command": "off", "names": ["node2", "node3"], "variables": variables}
    controller.configure(with_bmcs("n2"))
    step = controller.run("power_hold", **options)["step"]
    assert step["refused"]["node3"].startswith(f"node3 is left out of plays: {reason}")
    assert (step["targets"], step["look_first"]) == ([], [])
    forced = controller.run("power_hold", force=True, **options)["step"]
    assert [target["name"] for target in forced["targets"]] == ["node2", "node3"]
