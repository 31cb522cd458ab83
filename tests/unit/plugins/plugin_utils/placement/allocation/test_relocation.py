from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator, relocation
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import state
from hypothesis import given
from hypothesis import strategies as st

from tests import generated_clusters, thoroughness

Scope, Action = allocator.Scope, allocator.Action
GROUP = model.Group("default", "uuid-1")


def _pair(name: str, primary: str, secondary: str, memory: int = 1024) -> model.Instance:
    return model.Instance(name, memory, 10240, 1, "running", auto_balance=True, primary=primary, secondary=secondary)


def _cluster(*instances: model.Instance, memory: int = 8192, names: str = "abcd") -> model.Model:
    taken = {name: sum(one.memory for one in instances if one.primary == name) for name in names}
    disk = {name: sum(one.disk for one in instances if name in {one.primary, one.secondary}) for name in names}
    nodes = tuple(
        model.Node(name, GROUP.uuid, memory, 0, memory - taken[name], 102400, 102400 - disk[name], 16) for name in names
    )
    return model.Model((GROUP,), nodes, instances)


def _steps(one: allocator.Placement) -> list[tuple[allocator.Action, str]]:
    return [(step.action, step.node) for step in one.steps]


def _all(cluster: model.Model, *names: str, ignores_soft_errors: bool = False) -> allocator.Result:
    return relocation.evacuate(cluster, allocator.Evacuate(names, Scope.ALL, ignores_soft_errors))


def test_an_instance_that_leaves_both_nodes_gets_two_new_ones() -> None:
    (one,) = _all(_cluster(_pair("one", "a", "b")), "one").placements
    assert set(one.nodes) == {"c", "d"}


def test_what_keeps_its_only_copy_there_stays_and_says_so() -> None:
    plain = replace(_pair("one", "a", ""), template=model.Template.PLAIN)
    found = _all(_cluster(plain), "one")
    assert found.unplaced == (allocator.Unplaced("one", {"": "its disks are plain on a: no other node has them"}),)


def test_without_room_the_reason_has_numbers() -> None:
    others = (_pair(f"on-{name}", name, "a", 6144) for name in "bcd")
    (refusal,) = _all(_cluster(_pair("one", "a", "b", memory=4096), *others), "one").unplaced
    assert refusal.text == "no node has 4096 MiB free: best is c with 2048"


def test_n_plus_1_is_given_up_only_if_soft_errors_are_ignored() -> None:
    kept = [_pair("two", "e", "c", memory=6144), _pair("three", "f", "d", memory=6144)]
    tight = _cluster(_pair("one", "a", "b", memory=4096), *kept, _pair("four", "e", "f"), names="abcdef")
    tight = replace(tight, nodes=tuple(replace(one, offline=one.name in "ef") for one in tight.nodes))
    (refusal,) = _all(tight, "one").unplaced
    assert "for the failure of" in refusal.text
    (one,) = _all(tight, "one", ignores_soft_errors=True).placements
    assert set(one.nodes) == {"c", "d"}


def test_as_an_allocator_a_pair_that_leaves_its_primary_changes_roles() -> None:
    found = relocation.evacuate(_cluster(_pair("one", "a", "b")), allocator.Evacuate(("one",), Scope.PRIMARY))
    assert [(one.nodes, _steps(one)) for one in found.placements] == [(("b", "a"), [(Action.MIGRATE, "")])]


def test_from_an_offline_primary_the_instance_starts_on_its_copy_first() -> None:
    cluster = _cluster(_pair("one", "a", "b"))
    nodes = tuple(replace(one, offline=one.name == "a") for one in cluster.nodes)
    (one,) = _all(replace(cluster, nodes=nodes), "one").placements
    assert _steps(one)[0] == (Action.FAILOVER, "")


def _two_groups() -> model.Model:
    cluster = _cluster(_pair("one", "a", "b"))
    second = model.Group("second", "uuid-2")
    nodes = tuple(replace(one, group="uuid-2" if one.name in "cd" else "uuid-1") for one in cluster.nodes)
    return replace(cluster, groups=(GROUP, second), nodes=nodes)


@pytest.mark.parametrize("targets", [(), ("uuid-2",)])
def test_a_change_of_group_moves_both_halves_and_a_copy_is_there_all_the_time(targets: tuple[str, ...]) -> None:
    (one,) = relocation.change_group(_two_groups(), allocator.ChangeGroup(("one",), targets)).placements
    assert set(one.nodes) == {"c", "d"}
    assert one.group == "second"
    assert _steps(one) == [
        (Action.REPLACE_SECONDARY, one.nodes[0]),
        (Action.MIGRATE, ""),
        (Action.REPLACE_SECONDARY, one.nodes[1]),
    ]


def test_what_one_instance_frees_is_free_for_no_other_of_the_same_answer() -> None:
    pairs = [_pair("one", "a", "b", memory=6144), replace(_pair("two", "c", "d", memory=6000), auto_balance=False)]
    cluster = _cluster(*pairs, names="abcdef")
    second = model.Group("second", "uuid-2")
    nodes = [replace(one, group="uuid-1" if one.name in "ab" else "uuid-2") for one in cluster.nodes]
    nodes[1] = replace(nodes[1], t_mem=4096.0, f_mem=4096)
    cluster = replace(cluster, groups=(GROUP, second), nodes=tuple(nodes))
    found = relocation.change_group(cluster, allocator.ChangeGroup(("one", "two"), ("uuid-1", "uuid-2")))
    assert [one.instance for one in found.placements] == ["one"]
    assert "default: no node has 6000 MiB free: best is b with 4096" in found.unplaced[0].text
    alone = replace(cluster, instances=cluster.instances[1:], nodes=(replace(nodes[0], f_mem=8192), *nodes[1:]))
    assert relocation.change_group(alone, allocator.ChangeGroup(("two",))).placements


def test_a_group_that_takes_no_new_instances_is_no_target_and_says_why() -> None:
    cluster = _two_groups()
    closed = replace(cluster.groups[1], alloc_policy=model.AllocPolicy.UNALLOCABLE)
    cluster = replace(cluster, groups=(cluster.groups[0], closed))
    (one,) = relocation.change_group(cluster, allocator.ChangeGroup(("one",))).unplaced
    assert "second: it takes no new instances (unallocable)" in one.text


def test_whoever_stays_in_a_closed_group_may_still_leave_a_node() -> None:
    cluster = _cluster(_pair("one", "a", "b"))
    closed = replace(GROUP, alloc_policy=model.AllocPolicy.UNALLOCABLE)
    assert _all(replace(cluster, groups=(closed,)), "one").placements


@pytest.mark.parametrize("name", ["nobody"])
def test_what_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(errors.NotFound, match="there is no instance 'nobody'"):
        relocation.evacuate(_cluster(), allocator.Evacuate((name,), Scope.ALL))
    with pytest.raises(errors.NotFound, match="there is no group 'nobody'"):
        relocation.change_group(_cluster(_pair("one", "a", "b")), allocator.ChangeGroup(("one",), (name,)))


@thoroughness.tried(40)
@given(seed=st.integers(0, 10_000))
def test_whatever_is_evacuated_leaves_within_room_and_group_and_each_remainder_has_its_reason(seed: int) -> None:
    cluster = generated_clusters.make(
        nodes=6, instances=24, seed=seed, groups=1 + seed % 2, plain=0.1, shared=0.2, exclusion=seed % 3 == 0
    )
    node = cluster.nodes[seed % 6].name
    left = {one.name for one in cluster.instances if node in {one.primary, one.secondary}}
    found = _all(cluster, *left, ignores_soft_errors=seed % 2 == 0)
    after, at = state.build(cluster), {one.name: number for number, one in enumerate(cluster.nodes)}
    groups = {one.name: one.group for one in cluster.nodes}
    before = {one.name: one.primary for one in cluster.instances}
    for one in reversed(found.placements):
        nodes = [at[name] for name in one.nodes]
        after.move(after.by_instance[one.instance], primary=nodes[0], secondary=[*nodes, -1][1])
        assert node not in one.nodes
        assert len(set(one.nodes)) == len(one.nodes)
        assert {groups[name] for name in one.nodes} == {groups[before[one.instance]]}
        assert _least_room(after, nodes) >= 0
    assert {one.instance for one in found.placements} | {one.instance for one in found.unplaced} == left
    assert _all(cluster, *left, ignores_soft_errors=seed % 2 == 0) == found


def _least_room(after: state.State, nodes: list[int]) -> float:
    """The least memory or disk that is free on these nodes."""
    return min(float(min(after.nodes.memory[node], after.nodes.disk[node])) for node in nodes)


def _secondaries(cluster: model.Model, *names: str) -> allocator.Result:
    return relocation.evacuate(cluster, allocator.Evacuate(names, Scope.SECONDARY))


def test_who_leaves_its_secondary_only_keeps_its_primary_though_others_leave_that_node() -> None:
    result = _secondaries(_cluster(_pair("one", "a", "b"), _pair("two", "c", "a")), "one", "two")
    found = {one.instance: one.nodes for one in result.placements}
    assert found == {"one": ("a", "d"), "two": ("c", "d")}


def test_nothing_is_copied_from_a_primary_that_is_offline() -> None:
    cluster = _cluster(_pair("one", "a", "b"))
    nodes = (replace(cluster.nodes[0], offline=True), *cluster.nodes[1:])
    (refusal,) = _secondaries(replace(cluster, nodes=nodes), "one").unplaced
    assert refusal.text == "its primary a is offline"


def test_who_has_no_secondary_cannot_leave_it() -> None:
    shared = replace(_pair("one", "a", ""), template=model.Template.RBD)
    (refusal,) = _secondaries(_cluster(shared), "one").unplaced
    assert refusal.text == "it has no secondary"


def test_a_group_without_the_network_of_an_instance_is_no_target_and_staying_asks_for_none() -> None:
    found = _cluster(replace(_pair("one", "a", "b"), networks=("backup", "prod")), names="abcdef")
    other = model.Group("other", "uuid-2", networks=("prod",))
    nodes = tuple(replace(one, group="uuid-2") if one.name in "def" else one for one in found.nodes)
    found = replace(found, groups=(GROUP, other), nodes=nodes)
    request = allocator.ChangeGroup(("one",), ("uuid-2",))
    (refusal,) = relocation.change_group(found, request).unplaced
    assert "other: it is not connected to the network backup" in refusal.text
    linked = replace(found, groups=(GROUP, replace(other, networks=("backup", "prod"))))
    (placed,) = relocation.change_group(linked, request).placements
    assert placed.group == "other"
    assert _secondaries(found, "one").placements


def test_a_pair_without_a_secondary_has_no_roles_to_change() -> None:
    found = relocation.evacuate(_cluster(_pair("one", "a", "")), allocator.Evacuate(("one",), Scope.PRIMARY))
    assert found.unplaced == (allocator.Unplaced("one", {"": "it has no secondary"}),)
