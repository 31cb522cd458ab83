from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

if TYPE_CHECKING:
    from .running import Controller


@pytest.mark.parametrize("options", [{"name": "inst1"}, {"name": "inst1", "discard": "node3"}])
def test_an_instance_and_its_nodes_are_held_and_in_check_mode_nothing(
    controller: Controller, options: dict[str, Any]
) -> None:
    for is_check in (True, False):
        result = controller.run("repair_instance", is_check=is_check, **options)
        assert (result.get("failed"), result["changed"]) == (None, False)
        assert controller.held == (
            {} if is_check else {"instance/i1": "exclusive", "node/n2": "shared", "node/n3": "shared"}
        )
    assert controller.recorded == []


@pytest.mark.parametrize(
    ("options", "fields", "node", "said"),
    [
        ({"name": "inst9\x1b[2J"}, {}, {}, "inst9"),
        ({"name": "inst1", "discard": "node9\n"}, {}, {}, "node9"),
        ({"name": "inst1", "discard": "node10"}, {}, {}, "node10 has no replica of inst1: discard what node2 or node3"),
        ({"name": "inst1"}, {"disk_template": "plain"}, {}, "inst1 has no replicated disks"),
        ({"name": "inst1"}, {"secondary_nodes": ()}, {}, "inst1 has 0 secondaries, and not one"),
        ({"name": "inst1"}, {}, {"offline": True}, "node3"),
    ],
)
@pytest.mark.parametrize("is_check", [False, True])
def test_what_cannot_be_repaired_is_refused(
    controller: Controller,
    options: dict[str, Any],
    fields: dict[str, Any],
    node: dict[str, Any],
    said: str,
    *,
    is_check: bool,
) -> None:
    cluster = small_cluster.make()
    cluster = clusters.with_node(cluster, dataclasses.replace(cluster.nodes["n3"], **node))
    controller.configure(clusters.with_instance(cluster, dataclasses.replace(cluster.instances["i1"], **fields)))
    assert said in controller.refusal("repair_instance", is_check=is_check, **options)


@pytest.mark.parametrize("name", ["../../../tmp/x", "localhost", "x localhost"])
def test_no_name_of_the_configuration_becomes_a_host_that_the_play_does_not_have(
    controller: Controller, name: str
) -> None:
    """The daemon's user writes the configuration, and root runs the play."""
    cluster = small_cluster.make()
    began: dict[str, Any] = {"hostvars": {"localhost": {}, **{node.name: {} for node in cluster.nodes.values()}}}
    controller.configure(clusters.with_node(cluster, dataclasses.replace(cluster.nodes["n3"], name=name)))
    for is_check in (True, False):
        said = controller.refusal("repair_instance", name="inst1", is_check=is_check, variables=began)
        assert said.startswith(f"{name} is left out of plays: ")


def test_locks_that_were_not_granted_are_told_and_nothing_is_held(controller: Controller) -> None:
    controller.grant({"instance/i1": "exclusive"})
    assert "node/n2 (shared) was not granted" in controller.refusal("repair_instance", name="inst1")
    assert controller.held == {}
