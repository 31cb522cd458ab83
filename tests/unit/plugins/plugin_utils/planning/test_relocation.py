from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.planning import allocator, composed, model

from . import requests, small_models

CLUSTER = small_models.make(requests.CLUSTER)


def _new(name: str, memory: int) -> allocator.Wanted:
    return allocator.Wanted(model.Instance(name, memory, 100, 1, "running", auto_balance=True, primary=""))


class Emptiest:
    """Puts an instance on the two nodes with the most free memory, and remembers what it was given."""

    def __init__(self) -> None:
        self.models: list[model.Model] = []

    def allocate(self, found: model.Model, request: allocator.Allocate) -> allocator.Result:
        self.models.append(found)
        one = request.wanted.instance
        nodes = sorted((node for node in found.nodes if not node.offline), key=lambda node: -node.f_mem)
        if nodes[0].f_mem <= one.memory:
            return allocator.Result(refusals=(allocator.Refusal(one.name, f"{nodes[0].f_mem} MiB"),))
        names = [node.name for node in nodes if node.name != one.primary]
        return allocator.Result((allocator.Placement(one.name, (one.primary or names.pop(0), names[0])),))

    def evacuate(self, found: model.Model, request: allocator.Evacuate) -> allocator.Result:
        return allocator.Result(info=f"{request.instances[0]} {request.scope.value}")


def test_several_instances_are_placed_each_where_those_before_have_taken_their_room() -> None:
    wanted = (_new("new1", 4000), _new("new2", 8000), _new("new3", 6000))
    result = composed.OneByOne(Emptiest().allocate)(CLUSTER, allocator.MultiAllocate(wanted))
    assert result.placements == (
        allocator.Placement("new1", ("node2", "node3")),
        allocator.Placement("new2", ("node3", "node1")),
    )
    assert result.refusals == (allocator.Refusal("new3", "5120 MiB"),)


def test_an_instance_takes_the_room_of_its_nodes_and_gives_it_back() -> None:
    one = dataclasses.replace(_new("new1", 4000).instance, primary="node2", secondary="node3", spindles=2)
    placed = composed.with_instance(CLUSTER, one)
    free = {node.name: (node.f_mem, node.f_disk, node.free_spindles) for node in CLUSTER.nodes}
    taken = {node.name: (node.f_mem, node.f_disk, node.free_spindles) for node in placed.nodes}
    assert taken["node2"] == (free["node2"][0] - 4000, free["node2"][1] - 100, -2)
    assert taken["node3"] == (free["node3"][0], free["node3"][1] - 100, -2)
    assert taken["node1"] == free["node1"]
    assert placed.instances[-1] == one
    assert composed.without_instance(placed, one) == CLUSTER
    stopped = dataclasses.replace(one, status="ADMIN_down", template=model.Template.RBD)
    assert composed.with_instance(CLUSTER, stopped).nodes == CLUSTER.nodes


def test_a_pair_is_relocated_from_its_secondary_and_a_shared_instance_from_its_primary() -> None:
    relocate = composed.Relocation(Emptiest().evacuate)
    assert relocate(CLUSTER, allocator.Relocate("web1", ("node2",))).info == "web1 secondary-only"
    assert relocate(CLUSTER, allocator.Relocate("rbd1", ("node3",))).info == "rbd1 primary-only"
    with pytest.raises(errors.Refused, match=r"^web1 can only be relocated from node2, not from node1$"):
        relocate(CLUSTER, allocator.Relocate("web1", ("node1",)))
    with pytest.raises(errors.Refused, match=r"^lone1: its disks are plain, no other node has them$"):
        relocate(CLUSTER, allocator.Relocate("lone1", ("node1",)))
    with pytest.raises(errors.NotFound, match=r"^there is no instance 'web9'$"):
        relocate(CLUSTER, allocator.Relocate("web9", ("node1",)))


def test_the_secondary_of_a_plain_instance_is_that_of_a_pair_with_its_primary_in_a_cluster_without_it() -> None:
    decider = Emptiest()
    result = composed.SecondaryOf(decider.allocate)(CLUSTER, allocator.AllocateSecondary("lone1"))
    assert result.placements == (allocator.Placement("lone1", ("node1", "node2")),)
    (given,) = decider.models
    assert [one.name for one in given.instances] == ["web1", "rbd1"]
    assert given.nodes[0].f_mem == CLUSTER.nodes[0].f_mem + 2048
    with pytest.raises(errors.Refused, match=r"^web1 has a secondary already: node2$"):
        composed.SecondaryOf(decider.allocate)(CLUSTER, allocator.AllocateSecondary("web1"))


def test_our_allocator_answers_what_it_has_a_decider_for() -> None:
    own = allocator.Own({allocator.Allocate: Emptiest().allocate})
    assert own.decide(CLUSTER, allocator.Allocate(_new("new1", 1))).placements
    with pytest.raises(errors.Refused, match=r"^requests of type ChangeGroup are not answered$"):
        own.decide(CLUSTER, allocator.ChangeGroup(("web1",)))
