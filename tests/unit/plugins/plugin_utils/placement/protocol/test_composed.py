from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import composed

from ...rounds import requests, small_models

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

CLUSTER = small_models.make(requests.CLUSTER)


def _told(_: model.Model, request: allocator.Evacuate) -> allocator.Result:
    return allocator.Result(info=f"{' '.join(request.instances)} {request.scope.value}")


def _relocate(instance: str, node: str) -> str:
    return composed.Relocation(_told)(CLUSTER, allocator.Relocate(instance, (node,))).info


def test_a_pair_is_relocated_from_its_secondary_and_a_shared_instance_from_its_primary() -> None:
    assert _relocate("web1", "node2") == "web1 secondary-only"
    assert _relocate("rbd1", "node3") == "rbd1 primary-only"


@pytest.mark.parametrize(
    ("instance", "node", "text"),
    [
        ("web1", "node1", "web1 can only be relocated from node2, not from node1"),
        ("rbd1", "node4", "rbd1 can only be relocated from node3, not from node4"),
        ("lone1", "node1", "lone1: its disks are plain, no other node has them"),
        ("web9", "node1", "there is no instance 'web9'"),
    ],
)
def test_what_cannot_be_relocated_is_refused(instance: str, node: str, text: str) -> None:
    with pytest.raises(errors.Refused, match=f"^{text}$"):
        _relocate(instance, node)


def test_the_secondary_of_a_plain_instance_is_that_of_a_pair_with_its_primary_in_a_cluster_without_it() -> None:
    given: list[model.Model] = []

    def allocate(found: model.Model, request: allocator.Allocate) -> allocator.Result:
        given.append(found)
        one = request.wanted.instance
        return allocator.Result(info=f"{one.name} {one.template.value} {one.primary}")

    find = composed.SecondaryOf(allocate)
    assert find(CLUSTER, allocator.AllocateSecondary("lone1")).info == "lone1 drbd node1"
    assert [one.name for one in given[0].instances] == ["web1", "rbd1"]
    assert given[0].nodes[0].f_mem == CLUSTER.nodes[0].f_mem + 2048
    assert given[0].nodes[1:] == CLUSTER.nodes[1:]
    with pytest.raises(errors.Refused, match=r"^web1 has a secondary already: node2$"):
        find(CLUSTER, allocator.AllocateSecondary("web1"))


def test_an_instance_that_is_gone_leaves_its_room_on_both_nodes() -> None:
    (pair,) = (one for one in CLUSTER.instances if one.name == "web1")
    pair = dataclasses.replace(pair, spindles=2)
    cluster = dataclasses.replace(CLUSTER, instances=(pair,))
    first, second, *_ = composed.without_instance(cluster, pair).nodes
    assert (first.f_mem, first.f_disk, first.free_spindles) == (
        CLUSTER.nodes[0].f_mem + 1024,
        CLUSTER.nodes[0].f_disk + 10,
        2,
    )
    assert (second.f_mem, second.f_disk) == (CLUSTER.nodes[1].f_mem, CLUSTER.nodes[1].f_disk + 10)
    stopped = dataclasses.replace(pair, status="ADMIN_down")
    assert composed.without_instance(cluster, stopped).nodes[0].f_mem == CLUSTER.nodes[0].f_mem
