"""Our allocator's choices against hail's: the same requests have an answer, and the clusters after it the same score.

Hail refuses everything where some node cannot be lost already, which ours does not: it is compared without that check,
and with it on clusters where it lets anything through.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import placing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import (
    allocator_json,
    allocator_requests,
    own_allocator,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import oracle

from tests import generated_clusters

from . import peers, test_hail

CLUSTERS = {
    "groups": {"nodes": 12, "instances": 20, "groups": 2},
    "plain": {"nodes": 20, "instances": 200},
    "tags": {"nodes": 10, "instances": 100, "exclusion": True, "locations": True},
    "mixed": {"nodes": 20, "instances": 100, "plain": 0.2, "shared": 0.2, "stopped": 0.2, "offline": 1},
    "three groups": {"nodes": 12, "instances": 60, "groups": 3, "offline": 1},
}
HAPPY = ("groups", "plain", "tags")
OWN = own_allocator.make()
SMALL = model.Instance("new1", 4096, 10368, 1, "running", auto_balance=True, primary="")
ASKED = {
    "small": SMALL,
    "large": dataclasses.replace(SMALL, memory=60_000),
    "memory": dataclasses.replace(SMALL, memory=300_000),
    "policy": dataclasses.replace(SMALL, memory=65_537),
    "disk": dataclasses.replace(SMALL, disk=900_000),
    "vcpus": dataclasses.replace(SMALL, vcpus=16),
    "tags": dataclasses.replace(SMALL, tags=("service:1", "rack:1")),
    "plain": dataclasses.replace(SMALL, template=model.Template.PLAIN),
    "shared": dataclasses.replace(SMALL, template=model.Template.RBD),
    "stopped": dataclasses.replace(SMALL, status="ADMIN_down"),
}


def _hail(*arguments: str) -> placing.Program:
    path = Path(peers.program(test_hail.HAIL, package="ganeti-htools-3.0"))
    return placing.Program(path, arguments=arguments)


def _cluster(kind: str, seed: int) -> model.Model:
    return generated_clusters.make(**CLUSTERS[kind], seed=seed)  # type: ignore[arg-type] # counts and shares


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_new_instance_has_a_place_where_hail_has_one_and_it_is_as_good(kind: str, asked: str) -> None:
    for seed in range(2):
        cluster = _cluster(kind, seed)
        request = allocator.Allocate(allocator.Wanted(ASKED[asked], disks=(ASKED[asked].disk - 128,)))
        ours = OWN.decide(cluster, request)
        _compare(cluster, request, ours, _hail("--no-capacity-checks").decide(cluster, request))
        if kind in HAPPY:
            _compare(cluster, request, ours, _hail().decide(cluster, request))


def _compare(
    cluster: model.Model, request: allocator.Allocate, ours: allocator.Result, theirs: allocator.Result
) -> None:
    assert len(ours.placements) == len(theirs.placements)
    for mine, other in zip(ours.placements, theirs.placements, strict=True):
        one = request.wanted.instance
        assert _score(cluster, one, mine) == pytest.approx(_score(cluster, one, other), abs=1e-9)


def _score(cluster: model.Model, one: model.Instance, placement: allocator.Placement) -> float:
    """Of the cluster with the instance in its place."""
    primary, secondary = (*placement.nodes, "")[:2]
    nodes = []
    for node in cluster.nodes:
        disk = one.disk * (node.name in placement.nodes and one.template.is_on_volumes)
        memory = one.memory * (node.name == primary and one.takes_memory)
        nodes.append(dataclasses.replace(node, f_mem=node.f_mem - memory, f_disk=node.f_disk - disk))
    placed = dataclasses.replace(one, primary=primary, secondary=secondary)
    return oracle.score(dataclasses.replace(cluster, nodes=tuple(nodes), instances=(*cluster.instances, placed)))


@pytest.mark.parametrize("kind", CLUSTERS)
def test_several_new_instances_are_placed_as_well(kind: str) -> None:
    cluster = _cluster(kind, 0)
    several = [dataclasses.replace(SMALL, name=f"new{number}", memory=2048 * number) for number in range(1, 7)]
    request = allocator.MultiAllocate(tuple(allocator.Wanted(one, disks=(10240,)) for one in several))
    theirs = _hail("--no-capacity-checks").decide(cluster, request).placements
    assert [(one.instance, one.nodes) for one in OWN.decide(cluster, request).placements] == [
        (one.instance, one.nodes) for one in theirs
    ]


def test_groups_and_nodes_that_are_asked_for_are_kept_and_networks_needed() -> None:
    cluster = _cluster("groups", 0)
    wanted = allocator.Wanted(SMALL, disks=(10240,))
    for changed in (
        dataclasses.replace(wanted, group="group-2"),
        dataclasses.replace(wanted, only=("node-0003", "node-0005", "node-0011")),
        dataclasses.replace(wanted, instance=dataclasses.replace(SMALL, networks=("net-1",))),
        dataclasses.replace(wanted, group="group-1", only=("node-0011", "node-0012")),
    ):
        request = allocator.Allocate(changed)
        _compare(cluster, request, OWN.decide(cluster, request), _hail().decide(cluster, request))


def test_groups_of_last_resort_are_last_and_unallocable_ones_never() -> None:
    cluster = _cluster("groups", 1)
    request = allocator.Allocate(allocator.Wanted(SMALL, disks=(10240,)))
    for first in model.AllocPolicy:
        for second in model.AllocPolicy:
            one, other = cluster.groups
            groups = (dataclasses.replace(one, alloc_policy=first), dataclasses.replace(other, alloc_policy=second))
            changed = dataclasses.replace(cluster, groups=groups)
            _compare(changed, request, OWN.decide(changed, request), _hail().decide(changed, request))


def test_a_plain_instance_gets_the_secondary_that_hail_would_give_it() -> None:
    cluster = _cluster("mixed", 0)
    plain = [one for one in cluster.instances if one.template is model.Template.PLAIN]
    homes = {node.name for node in cluster.nodes if not node.offline}
    for one in [one for one in plain if one.primary in homes][:5]:
        request = allocator.AllocateSecondary(one.name)
        ours = [each.nodes[-1:] for each in OWN.decide(cluster, request).placements]
        assert ours == [each.nodes for each in _hail("--no-capacity-checks").decide(cluster, request).placements]


def test_the_program_answers_as_hail_does() -> None:
    cluster = _cluster("groups", 0)
    request = allocator.Allocate(allocator.Wanted(SMALL, disks=(10240,)))
    text = allocator_requests.write(cluster, request)
    found, asked = allocator_json.read(text)
    answer = allocator_requests.read(allocator_json.write(asked, OWN.decide(found, asked)), request)
    assert answer.placements == _hail().decide(cluster, request).placements
    with pytest.raises(errors.Refused):
        allocator_json.write(asked, OWN.decide(found, allocator.Allocate(allocator.Wanted(ASKED["memory"]))))
