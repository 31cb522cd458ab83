"""Ganeti's own allocator, hail, as an external one: our requests, its answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils import placing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

from tests import generated_clusters

from . import peers

HAIL = "/usr/lib/ganeti/3.0/usr/lib/ganeti/iallocators/hail"
MIXED = generated_clusters.make(
    nodes=20, instances=150, groups=2, offline=1, plain=0.1, shared=0.1, stopped=0.1, exclusion=True
)
ROOMY = generated_clusters.make(nodes=12, instances=20, groups=2)
STEPS = ("replace-secondary", "migrate", "replace-secondary")


@pytest.fixture
def hail() -> placing.Program:
    return placing.Program(Path(peers.program(HAIL, package="ganeti-htools-3.0")))


def _new(name: str, memory: int, template: model.Template = model.Template.DRBD) -> allocator.Wanted:
    instance = model.Instance(name, memory, 10368, 1, "running", auto_balance=True, primary="", template=template)
    return allocator.Wanted(instance, disks=(10240,))


def _first(cluster: model.Model, template: model.Template) -> model.Instance:
    return next(one for one in cluster.instances if one.template is template)


def _groups(cluster: model.Model) -> dict[str, str]:
    names = {group.uuid: group.name for group in cluster.groups}
    return {node.name: names[node.group] for node in cluster.nodes}


def test_hail_places_a_new_instance_where_we_let_it(hail: placing.Program) -> None:
    groups = _groups(ROOMY)
    for wanted in (_new("new1", 4096), dataclasses.replace(_new("new1", 4096), group="group-2")):
        (placement,) = hail.decide(ROOMY, allocator.Allocate(wanted)).placements
        found = {groups[node] for node in placement.nodes}
        assert len(set(placement.nodes)) == 2
        assert len(found) == 1
        assert wanted.group in {"", *found}
    only = dataclasses.replace(_new("new1", 4096), only=("node-0002", "node-0005"))
    (placement,) = hail.decide(ROOMY, allocator.Allocate(only)).placements
    assert set(placement.nodes) == {"node-0002", "node-0005"}
    (placement,) = hail.decide(ROOMY, allocator.Allocate(_new("new1", 4096, model.Template.PLAIN))).placements
    assert len(placement.nodes) == 1


def test_hail_says_why_a_new_instance_has_no_place(hail: placing.Program) -> None:
    (refusal,) = hail.decide(ROOMY, allocator.Allocate(_new("new1", 900_000))).unplaced
    assert refusal.instance == "new1"
    assert "FailMem" in refusal.text
    wanted = _new("new1", 4096)
    networked = dataclasses.replace(wanted, instance=dataclasses.replace(wanted.instance, networks=("net-1",)))
    assert "not connected to a network" in hail.decide(ROOMY, allocator.Allocate(networked)).unplaced[0].text


def test_hail_places_several(hail: placing.Program) -> None:
    wanted = (_new("new1", 4096), _new("new2", 4096))
    result = hail.decide(ROOMY, allocator.MultiAllocate(wanted))
    assert [one.instance for one in result.placements] == ["new1", "new2"]
    with pytest.raises(errors.Refused, match=r"^the allocator failed: Group group-1"):
        hail.decide(ROOMY, allocator.MultiAllocate((*wanted, _new("new3", 900_000))))


def test_hail_finds_another_node_for_a_pair_and_for_a_shared_instance(hail: placing.Program) -> None:
    pair, shared = _first(MIXED, model.Template.DRBD), _first(MIXED, model.Template.RBD)
    for one, node in [(pair, pair.secondary), (shared, shared.primary)]:
        (placement,) = hail.decide(MIXED, allocator.Relocate(one.name, (node,))).placements
        assert set(placement.nodes).isdisjoint({one.primary, one.secondary})
    (refusal,) = hail.decide(MIXED, allocator.Relocate(pair.name, (pair.primary,))).unplaced
    assert refusal.text.startswith("Unsupported request")


def test_hail_evacuates_in_steps(hail: placing.Program) -> None:
    kinds = (model.Template.DRBD, model.Template.RBD, model.Template.PLAIN)
    pair, shared, plain = (_first(MIXED, kind) for kind in kinds)
    names = (pair.name, shared.name, plain.name)
    found = {}
    for scope in allocator.Scope:
        result = hail.decide(MIXED, allocator.Evacuate(names, scope))
        named = [one.instance for one in result.placements] + [one.instance for one in result.unplaced]
        assert sorted(named) == sorted(names)
        for one in result.placements:
            found[scope, one.instance] = (one.nodes, tuple(step.action.value for step in one.steps))
    groups = _groups(MIXED)
    assert found[allocator.Scope.PRIMARY, pair.name] == ((pair.secondary, pair.primary), ("migrate",))
    assert found[allocator.Scope.SECONDARY, pair.name][1] == ("replace-secondary",)
    assert found[allocator.Scope.ALL, pair.name][1] == STEPS
    assert {groups[node] for node in found[allocator.Scope.ALL, pair.name][0]} == {groups[pair.primary]}
    assert (allocator.Scope.SECONDARY, shared.name) not in found
    assert not any(name == plain.name for _, name in found)
    soft = allocator.Evacuate((pair.name,), allocator.Scope.ALL, ignores_soft_errors=True)
    assert hail.decide(MIXED, soft).placements


def test_hail_changes_the_group(hail: placing.Program) -> None:
    pair = _first(ROOMY, model.Template.DRBD)
    home = _groups(ROOMY)[pair.primary]
    (placement,) = hail.decide(ROOMY, allocator.ChangeGroup((pair.name,))).placements
    assert placement.group != home
    assert {_groups(ROOMY)[node] for node in placement.nodes} == {placement.group}
    assert tuple(step.action.value for step in placement.steps) == STEPS
