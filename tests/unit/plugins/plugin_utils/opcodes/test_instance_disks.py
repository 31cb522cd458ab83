from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import contract, instance_disks

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
DOWN = clusters.with_instance(CLUSTER, dataclasses.replace(CLUSTER.instance("i1"), admin_state="down"))
AT_REST = [
    instance_disks.DeactivateDisks("i1"),
    instance_disks.RecreateDisks("i1"),
    instance_disks.Reinstall("i1", "/x.yml"),
]
ANY = [instance_disks.ActivateDisks("i1"), instance_disks.VerifyDisks("i1")]


def without(cluster: clusters.Cluster, node: str) -> clusters.Cluster:
    return clusters.with_node(cluster, dataclasses.replace(cluster.node(node), offline=True))


@pytest.mark.parametrize("one", [*AT_REST, *ANY])
def test_all_its_nodes_are_held_and_reached(one: Any) -> None:
    nodes = {"node/n2": contract.SHARED, "node/n3": contract.SHARED}
    assert one.wants(DOWN) == {"instance/i1": contract.EXCLUSIVE, **nodes}
    assert one.hosts(DOWN) == ["n2", "n3"]
    assert [member["name"] for member in one.variables(DOWN)["members"]] == ["node2", "node3"]


@pytest.mark.parametrize("one", AT_REST)
def test_disks_of_an_instance_that_is_up_are_not_taken_from_it(one: Any) -> None:
    with pytest.raises(errors.Refused, match="inst1 is up: stop it first"):
        one.variables(CLUSTER)


@pytest.mark.parametrize("one", [*AT_REST, instance_disks.ActivateDisks("i1")])
def test_what_is_done_at_the_primary_needs_it(one: Any) -> None:
    with pytest.raises(errors.Refused, match="node2 is offline"):
        one.variables(without(DOWN, "n2"))


def test_to_verify_is_told_of_whom_nobody_asked() -> None:
    told = instance_disks.VerifyDisks("i1").variables(without(CLUSTER, "n2"))
    assert told["unasked"] == ["node2"]
    assert [member["name"] for member in told["members"]] == ["node3"]


def test_disks_are_made_anew_on_all_nodes_or_on_none() -> None:
    with pytest.raises(errors.Refused, match="node3 is offline"):
        instance_disks.RecreateDisks("i1").variables(without(DOWN, "n3"))


def test_adopted_disks_are_not_made_anew() -> None:
    one = dataclasses.replace(DOWN.instance("i1"), disks=(clusters.Disk(10, name="r0"),))
    with pytest.raises(errors.Refused, match=r"^inst1: Roundsman does not recreate its disk r0, which was adopted"):
        instance_disks.RecreateDisks("i1").variables(clusters.with_instance(DOWN, one))
