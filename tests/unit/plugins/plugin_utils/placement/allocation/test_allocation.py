"""Where new instances go, and why not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocation, allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.score import state
from hypothesis import given, settings
from hypothesis import strategies as st

from ...rounds import kinds, newcomer_models, small_models

THREE = small_models.make("node1 8192\nnode2 8192\nnode3 8192")
TWO_GROUPS = small_models.make("node1 8192\nnode2 8192\nnode3 9000 group=b\nnode4 9000 group=b")
PLAIN = model.Template.PLAIN


def _grouped(**policies: model.AllocPolicy) -> model.Model:
    groups = (replace(group, alloc_policy=policies.get(group.name, group.alloc_policy)) for group in TWO_GROUPS.groups)
    return replace(TWO_GROUPS, groups=tuple(groups))


def _place(cluster: model.Model, one: model.Instance, **wanted: object) -> allocator.Result:
    return allocation.allocate(cluster, allocator.Allocate(allocator.Wanted(one, **wanted)))  # type: ignore[arg-type]


def _nodes(cluster: model.Model, one: model.Instance, **wanted: object) -> tuple[str, ...]:
    (placed,) = _place(cluster, one, **wanted).placements
    return placed.nodes


def _refused(cluster: model.Model, one: model.Instance, **wanted: object) -> str:
    result = _place(cluster, one, **wanted)
    assert not result.placements
    (refusal,) = result.unplaced
    assert refusal.instance == one.name
    return refusal.text


def test_a_pair_goes_where_least_is() -> None:
    busy = small_models.make("node1 8192\nnode2 8192\nnode3 8192\nweb1 1024 node1 node2")
    assert _nodes(busy, newcomer_models.new(1024))[0] == "node3"
    assert len(_nodes(busy, newcomer_models.new(1024, template=PLAIN))) == 1


def test_a_group_that_prefers_new_instances_comes_before_a_better_one_of_last_resort() -> None:
    last = model.AllocPolicy.LAST_RESORT
    for policies, expected in (({"a": last}, "b"), ({"b": last}, "a"), ({"a": last, "b": last}, None)):
        (placed,) = _place(_grouped(**policies), newcomer_models.new(1024)).placements
        assert expected in {None, placed.group}
    assert _place(_grouped(b=last), newcomer_models.new(8500, template=PLAIN)).placements[0].group == "b"


def test_an_unallocable_group_takes_nothing_even_if_it_is_asked_for() -> None:
    closed = _grouped(a=model.AllocPolicy.UNALLOCABLE)
    assert _place(closed, newcomer_models.new(1024)).placements[0].group == "b"
    text = _refused(closed, newcomer_models.new(1024), group="a")
    assert text == "a: it takes no new instances (unallocable); b: it is not the group asked for"


def test_given_nodes_are_kept() -> None:
    assert _nodes(TWO_GROUPS, newcomer_models.new(1024, primary="node2")) == ("node2", "node1")
    assert _nodes(TWO_GROUPS, newcomer_models.new(1024, primary="node3", secondary="node4")) == ("node3", "node4")
    assert set(_nodes(THREE, newcomer_models.new(1024), only=("node1", "node3"))) == {"node1", "node3"}
    apart = newcomer_models.new(1024, primary="node1", secondary="node4")
    assert _refused(TWO_GROUPS, apart) == "a: node4 is not in it; b: node1 is not in it"


def test_what_has_no_place_has_a_reason_for_each_group() -> None:
    reasons = _refused(TWO_GROUPS, newcomer_models.new(9500)).split("; ")
    assert reasons == [
        "a: no node has 9500 MiB free: best is node1 with 8192",
        "b: no node has 9500 MiB free: best is node3 with 9000",
    ]


@pytest.mark.parametrize(
    ("cluster", "one", "text"),
    [
        ("node1 4096\nnode2 3072", {"memory": 5000}, "no node has 5000 MiB free: best is node1 with 4096"),
        (
            "node1 4096 disk=900\nnode2 8192 disk=9000",
            {"memory": 1024},
            "no node has 10240 MiB of disk free: best is node2 with 9000",
        ),
        (
            "node1 4096 disk=90000\nnode2 8192 disk=9000",
            {"memory": 1024},
            "no second node has 10240 MiB of disk free: best is node2 with 9000",
        ),
        (
            "node1 8192\nnode2 2048",
            {"memory": 3000},
            "no second node has 3000 MiB free for the failure of the first: best is node2 with 2048",
        ),
        (
            "node1 4096\nnode2 4096\nweb1 1500 node1 node2\nweb2 1500 node2 node1",
            {"memory": 1200, "template": PLAIN},
            "no node has 1200 MiB free beside what it keeps for the failure of another: best is node1 with 1096",
        ),
        ("node1 4096\nnode2 4096", {"memory": 1024, "vcpus": 40}, "its policy allows 1 to 8 vcpus"),
        ("node1 4096\nnode2 4096", {"memory": 64}, "its policy allows 128 to 32768 MiB of memory"),
        ("node1 4096\nnode2 4096 offline", {"memory": 64}, "no two of its nodes can be considered"),
        ("node1 4096 offline", {"memory": 64, "template": PLAIN}, "none of its nodes can be considered"),
        ("node1 4096\nnode2 4096 offline", {"memory": 64, "primary": "node2"}, "node2 is offline"),
    ],
)
def test_the_reason_is_what_there_is_too_little_of(cluster: str, one: dict[str, object], text: str) -> None:
    found = small_models.make(cluster)
    assert _refused(found, newcomer_models.new(**one)) == f"a: {text}"  # type: ignore[arg-type]


def test_policies_networks_vcpus_tags_and_spindles_are_reasons_too() -> None:
    one = newcomer_models.new(1024)
    (group,) = THREE.groups
    networked = replace(one, networks=("n1",))
    assert _refused(THREE, networked) == "a: it is not connected to the network n1"
    linked = replace(THREE, groups=(replace(group, networks=("n1",)),))
    assert _nodes(linked, networked)
    plain_only = replace(THREE, groups=(replace(group, policy=replace(group.policy, templates=(PLAIN,))),))
    assert _refused(plain_only, one) == "a: its policy does not allow the disk template drbd"
    few = replace(THREE, groups=(replace(group, policy=replace(group.policy, vcpu_ratio=0.5)),))
    text = _refused(few, newcomer_models.new(1024, vcpus=4))
    assert text == "a: no node has 4 vcpus left: best is node1 with 3"
    none_left = replace(THREE, groups=(replace(group, policy=replace(group.policy, spindle_ratio=0.5)),))
    assert _refused(none_left, one) == "a: no node has spindles for 1 more: best is node1 with 0"
    tagged = newcomer_models.added(THREE, newcomer_models.new(128, name="db1", primary="node1", secondary="node2"))
    everywhere = replace(tagged, tags=("htools:iextags:db",), nodes=tagged.nodes[:2])
    everywhere = replace(everywhere, instances=(replace(everywhere.instances[0], tags=("db:1",)),))
    only = newcomer_models.new(128, template=PLAIN, tags=("db:1",))
    assert _nodes(everywhere, only) == ("node2",)
    text = _refused(everywhere, replace(only, primary="node1"))
    assert text == "a: an instance with the exclusion tag db:1 is on each node with room"


def test_each_disk_is_held_against_the_policy_not_their_sum() -> None:
    (group,) = THREE.groups
    small = model.Policy(bounds=((model.Spec(128, 1, 1024), model.Spec(4096, 4, 6000, 2)),))
    cluster = replace(THREE, groups=(replace(group, policy=small),))
    one = newcomer_models.new(1024, disk=10240)
    assert _nodes(cluster, one, disks=(5120, 5120))
    assert _refused(cluster, one, disks=(9000, 1240)) == "a: its policy allows 1024 to 6000 MiB a disk"
    assert _refused(cluster, one, disks=(5000, 3000, 2240)) == "a: its policy allows 1 to 2 disks"


def test_names_that_nobody_has_are_told() -> None:
    for one, wanted, text in (
        (newcomer_models.new(1024, primary="node9"), {}, "there is no node node9"),
        (newcomer_models.new(1024), {"only": ("node8",)}, "there is no node node8"),
        (newcomer_models.new(1024), {"group": "z"}, "there is no group z"),
    ):
        with pytest.raises(errors.NotFound, match=f"^{text}$"):
            _place(THREE, one, **wanted)


def test_what_one_instance_takes_the_next_has_no_more() -> None:
    ones = tuple(allocator.Wanted(newcomer_models.new(3000, name=f"new{number}")) for number in range(5))
    result = allocation.multi_allocate(THREE, allocator.MultiAllocate(ones))
    assert [one.instance for one in result.placements] == ["new0", "new1", "new2", "new3"]
    assert [one.instance for one in result.unplaced] == ["new4"]
    assert {one.nodes[0] for one in result.placements} == {"node1", "node2", "node3"}


def test_two_new_instances_with_one_exclusion_tag_go_apart() -> None:
    cluster = replace(THREE, tags=("htools:iextags:db",))
    ones = tuple(
        allocator.Wanted(newcomer_models.new(128, name=f"new{number}", template=PLAIN, tags=("db:9",)))
        for number in range(4)
    )
    result = allocation.multi_allocate(cluster, allocator.MultiAllocate(ones))
    assert len({one.nodes for one in result.placements}) == 3
    assert [one.instance for one in result.unplaced] == ["new3"]


def test_a_plain_instance_gets_a_secondary_beside_its_primary() -> None:
    cluster = small_models.make("node1 8192\nnode2 2048\nnode3 8192\nlone1 4096 node1 disk=2048\nweb1 64 node2 node3")
    asked = allocator.AllocateSecondary("lone1")
    (placed,) = allocation.allocate_secondary(cluster, asked).placements
    assert placed.nodes == ("node1", "node3")
    small = small_models.make("node1 8192\nnode2 2048\nlone1 4096 node1 disk=2048")
    (refusal,) = allocation.allocate_secondary(small, asked).unplaced
    assert refusal.text.startswith("a: no second node has 4096 MiB free for the failure of the first")
    with pytest.raises(errors.InvalidInput, match=r"^web1 has the secondary node3 already$"):
        allocation.allocate_secondary(cluster, allocator.AllocateSecondary("web1"))
    with pytest.raises(errors.NotFound, match=r"^there is no instance web9$"):
        allocation.allocate_secondary(cluster, allocator.AllocateSecondary("web9"))


@settings(max_examples=150, deadline=None)
@given(kinds.clusters(), st.lists(newcomer_models.wanted(), min_size=1, max_size=4), st.data())
def test_nothing_is_over_memory_or_disk_and_no_rule_is_broken(
    cluster: model.Model, wanted: list[allocator.Wanted], data: st.DataObject
) -> None:
    policies = data.draw(st.lists(st.sampled_from(model.AllocPolicy), min_size=2, max_size=2))
    groups = (replace(group, alloc_policy=one) for group, one in zip(cluster.groups, policies, strict=False))
    cluster = replace(cluster, groups=tuple(groups))
    named = (replace(one, instance=replace(one.instance, name=f"new{number}")) for number, one in enumerate(wanted))
    request = allocator.MultiAllocate(tuple(named))
    result = allocation.multi_allocate(cluster, request)
    assert result == allocation.multi_allocate(cluster, request)
    answered = [one.instance for one in result.placements] + [one.instance for one in result.unplaced]
    assert sorted(answered) == [one.instance.name for one in request.wanted]
    placed = {one.instance: one.nodes for one in result.placements}
    after = cluster
    for each in request.wanted:
        if each.instance.name in placed:
            primary, secondary = (*placed[each.instance.name], "")[:2]
            put = replace(each.instance, primary=primary, secondary=secondary)
            _check(after, put)
            after = newcomer_models.added(after, put)
    _check_room(cluster, after)


def _check(cluster: model.Model, one: model.Instance) -> None:
    nodes = newcomer_models.by_name(cluster)
    taking = {group.uuid for group in cluster.groups if group.alloc_policy is not model.AllocPolicy.UNALLOCABLE}
    assert bool(one.secondary) is one.template.is_mirrored
    assert one.primary != one.secondary
    used = [nodes[name] for name in (one.primary, one.secondary) if name]
    assert len({node.group for node in used}) == 1
    assert {node.group for node in used} <= taking
    assert not any(node.offline for node in used)
    excluded = {tag for tag in one.tags if tag.startswith("service:") and "htools:iextags:service" in cluster.tags}
    assert not any(excluded & set(each.tags) for each in cluster.instances if each.primary == one.primary)


def _check_room(before: model.Model, after: model.Model) -> None:
    first, then = state.build(before).nodes, state.build(after).nodes
    touched = (first.memory != then.memory) | (first.disk != then.disk) | (first.reserved != then.reserved)
    assert (then.memory[first.memory != then.memory] > 0).all()
    assert (then.disk[first.disk != then.disk] > 0).all()
    kept = first.memory >= first.reserved
    assert (then.memory[touched & kept] > then.reserved[touched & kept]).all()
