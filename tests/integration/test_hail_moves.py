"""Where instances go that have to leave, ours against hail's: the same ones have a place, and it is as good.

Hail refuses everything where some node cannot be lost already, which ours does not: it is compared without that check.
"""

from __future__ import annotations

import dataclasses
import itertools
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
    "groups": generated_clusters.make(nodes=12, instances=60, groups=2),
    "plain": generated_clusters.make(nodes=20, instances=200),
    "tags": generated_clusters.make(nodes=10, instances=100, exclusion=True, locations=True),
    "mixed": generated_clusters.make(nodes=20, instances=100, plain=0.2, shared=0.2, stopped=0.2, offline=1),
}
OWN = own_allocator.make()
EACH = 4
AT_ONCE = 5


@pytest.fixture
def hail() -> placing.Program:
    path = Path(peers.program(test_hail.HAIL, package="ganeti-htools-3.0"))
    return placing.Program(path, arguments=("--no-capacity-checks",))


def _score(cluster: model.Model, result: allocator.Result) -> float:
    """Of the cluster with all instances in their places."""
    return oracle.score(cluster, {one.instance: (one.nodes[0], (*one.nodes, "")[1]) for one in result.placements})


def _diskless(cluster: model.Model) -> model.Model:
    """Every shared instance has no disk at all."""
    made = (
        dataclasses.replace(one, template=model.Template.DISKLESS, disk=0)
        if one.template is model.Template.RBD
        else one
        for one in cluster.instances
    )
    return dataclasses.replace(cluster, instances=tuple(made))


CLUSTERS["diskless"] = _diskless(CLUSTERS["mixed"])


def _of_each_kind(cluster: model.Model) -> list[str]:
    """Some instances of each disk template."""
    ordered = sorted(cluster.instances, key=lambda one: one.template.value)
    kinds = itertools.groupby(ordered, key=lambda one: one.template)
    return [one.name for _, several in kinds for one in itertools.islice(several, EACH)]


@pytest.mark.parametrize("scope", allocator.Scope, ids=lambda one: one.value)
@pytest.mark.parametrize("kind", CLUSTERS)
def test_an_instance_leaves_its_nodes_for_those_that_hail_would_take(
    hail: placing.Program, kind: str, scope: allocator.Scope
) -> None:
    cluster = CLUSTERS[kind]
    for name in _of_each_kind(cluster):
        request = allocator.Evacuate((name,), scope)
        ours, theirs = OWN.decide(cluster, request), hail.decide(cluster, request)
        assert [one.instance for one in ours.placements] == [one.instance for one in theirs.placements]
        assert [one.group for one in ours.placements] == [one.group for one in theirs.placements]
        assert _score(cluster, ours) <= _score(cluster, theirs) + 1e-9


@pytest.mark.parametrize("scope", allocator.Scope, ids=lambda one: one.value)
@pytest.mark.parametrize("kind", CLUSTERS)
def test_several_instances_leave_at_once_if_hail_has_places_for_them(
    hail: placing.Program, kind: str, scope: allocator.Scope
) -> None:
    cluster = CLUSTERS[kind]
    names = tuple(one.name for one in cluster.instances[:AT_ONCE])
    request = allocator.Evacuate(names, scope)
    ours, theirs = OWN.decide(cluster, request), hail.decide(cluster, request)
    assert {one.instance for one in theirs.placements} <= {one.instance for one in ours.placements}
    answered = [one.instance for one in ours.placements] + [one.instance for one in ours.unplaced]
    assert sorted(answered) == sorted(names)


def test_a_pair_changes_its_group_as_hail_would_do_it(hail: placing.Program) -> None:
    cluster = CLUSTERS["groups"]
    for one in cluster.instances[:EACH]:
        for targets in ((), ("uuid-1",), ("uuid-2",)):
            request = allocator.ChangeGroup((one.name,), targets)
            ours, theirs = OWN.decide(cluster, request), hail.decide(cluster, request)
            assert [each.group for each in ours.placements] == [each.group for each in theirs.placements]
            assert _score(cluster, ours) <= _score(cluster, theirs) + 1e-9


def test_an_instance_is_relocated_as_hail_would_do_it(hail: placing.Program) -> None:
    cluster = CLUSTERS["mixed"]
    asked = {one.name: one for one in cluster.instances if one.name in _of_each_kind(cluster)}
    for name, one in asked.items():
        request = allocator.Relocate(name, (one.secondary or one.primary,))
        text = allocator_requests.write(cluster, request)
        try:
            answer = allocator_json.write(request, OWN.decide(*allocator_json.read(text)))
        except errors.Refused as error:
            answer = allocator_json.refused(str(error))
        ours, theirs = allocator_requests.read(answer, request), hail.decide(cluster, request)
        assert [each.nodes for each in ours.placements] == [each.nodes for each in theirs.placements]
