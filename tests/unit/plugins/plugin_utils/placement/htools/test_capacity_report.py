"""The answer of OpComputeCapacity: groups and cluster, under limits of cluster, group and call."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools import capacity_report
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.htools.capacity_report import Limits, Question
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model

from ...rounds import small_models

PLAIN, DRBD = model.Template.PLAIN, model.Template.DRBD
LARGEST = model.Spec(4000, 2, 2048)
POLICY = model.Policy(
    model.Spec(1000, 1, 1024), ((model.Spec(128, 1, 1024), model.Spec(4000, 2, 2048)),), (PLAIN, DRBD)
)


def _cluster(text: str) -> model.Model:
    made = small_models.make(text)
    groups = tuple(replace(group, policy=POLICY) for group in made.groups)
    return replace(made, groups=groups, policy=POLICY)


TWO_GROUPS = _cluster("node1 8192\nnode2 8192\nnode3 4096 group=b\nnode4 4096 group=b")


def _document(there: model.Model, /, **limits: Limits | dict[str, Limits] | bool) -> dict[str, object]:
    question = Question(**limits)  # type: ignore[arg-type] # the fields of a question
    document = capacity_report.compute(there, question, ctime=17.5).document()
    assert json.loads(json.dumps(document)) == document
    return document


def _groups(document: dict[str, object]) -> dict[str, dict[str, object]]:
    return document["node_groups"]  # type: ignore[return-value] # as the seed has it


def test_the_seeds_keys_are_there_and_groups_count_alone() -> None:
    document = _document(TWO_GROUPS)
    assert document["ctime"] == 17.5
    assert document["cluster"] == document["tiered"]
    tiers = document["tiered"]
    assert isinstance(tiers, list)
    assert tiers[0] == [4000, 2048, 2, 2 + 1]
    assert document["standard"] == 8 + 4
    one, other = _groups(document)["a"], _groups(document)["b"]
    assert one["tspecs"] == [[4000, 2048, 2, 2]]
    assert other["standard"] == 4
    assert {name: one[name] for name in ("max_inst_spec", "default_template", "max_cpu_ratio", "max_disk_usage")} == {
        "max_inst_spec": [4000, 2048, 2],
        "default_template": "plain",
        "max_cpu_ratio": 4.0,
        "max_disk_usage": 1.0,
    }


def test_the_call_wins_over_the_group_and_the_group_over_the_cluster() -> None:
    of_cluster = Limits((3000, 2048, 2), DRBD, 2.0, 0.5)
    of_group = Limits(max_inst_spec=(2000, 1024, 1), max_cpu_ratio=1.0)
    call = Limits(max_cpu_ratio=0.25)
    groups = _groups(_document(TWO_GROUPS, cluster=of_cluster, groups={"b": of_group}))
    assert (groups["a"]["max_inst_spec"], groups["b"]["max_inst_spec"]) == ([3000, 2048, 2], [2000, 1024, 1])
    assert (groups["a"]["max_cpu_ratio"], groups["b"]["max_cpu_ratio"]) == (2.0, 1.0)
    assert {one["default_template"] for one in groups.values()} == {"drbd"}
    groups = _groups(_document(TWO_GROUPS, cluster=of_cluster, groups={"b": of_group}, call=call))
    assert {one["max_cpu_ratio"] for one in groups.values()} == {0.25}
    assert groups["b"]["max_inst_spec"] == [2000, 1024, 1]


def test_each_limit_limits() -> None:
    roomy = _cluster("node1 65536 disk=20000\nnode2 65536 disk=20000")

    def standard(limits: Limits) -> object:
        return _document(roomy, call=limits)["standard"]

    assert standard(Limits()) == 19
    assert standard(Limits(max_disk_usage=0.5)) == 2 * 9
    assert standard(Limits(max_cpu_ratio=0.5)) == 2 * 3
    assert standard(Limits(default_template=DRBD)) == 19
    assert _document(roomy, call=Limits(max_inst_spec=(2000, 1024, 1)))["tiered"] == [[2000, 1024, 1, 19]]


def test_a_groups_limit_counts_for_the_cluster_too() -> None:
    tight = {"b": Limits(max_cpu_ratio=0.25)}
    assert _document(TWO_GROUPS, groups=tight)["standard"] == 8 + 2 * 1
    no_large = {"b": Limits(max_inst_spec=(900, 1024, 1))}
    assert _document(TWO_GROUPS, groups=no_large)["standard"] == 8


def test_groups_that_take_nothing_say_why_and_do_not_count() -> None:
    closed = replace(TWO_GROUPS.groups[1], alloc_policy=model.AllocPolicy.UNALLOCABLE)
    document = _document(replace(TWO_GROUPS, groups=(TWO_GROUPS.groups[0], closed)))
    assert document["standard"] == 8
    assert _groups(document)["b"]["refusal"] == "it takes no new instances (unallocable)"
    assert _groups(document)["b"]["tspecs"] == []
    failing = _cluster("node1 8192\nnode2 2048\nweb1 2000 node1 node2\nweb2 1500 node2 node1")
    document = _document(failing)
    assert (document["cluster"], document["standard"]) == ([], 0)
    assert _groups(document)["a"]["refusal"] == "N+1 fails already: too little memory is free on node2"
    assert _document(failing, accepts_existing=True)["standard"] != 0


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"max_inst_spec": (0, 1024, 1)}, r"max_inst_spec: \(0, 1024, 1\): each number must be at least 1"),
        ({"max_cpu_ratio": 0.0}, "max_cpu_ratio: 0.0 is not more than 0"),
        ({"max_cpu_ratio": float("nan")}, "max_cpu_ratio: nan is not more than 0"),
        ({"max_disk_usage": 1.5}, "max_disk_usage: 1.5 is not more than 0 and at most 1"),
    ],
)
def test_impossible_limits_are_refused(limits: dict[str, float], text: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"^{text}$"):
        Limits(**limits)  # type: ignore[arg-type] # impossible on purpose


def test_a_policy_without_templates_needs_one_to_be_named() -> None:
    none = replace(TWO_GROUPS, policy=replace(POLICY, templates=()))
    with pytest.raises(errors.InvalidInput, match=r"^default_template: the cluster's policy allows no disk template"):
        _document(none)
    assert _document(none, call=Limits(default_template=PLAIN))["standard"] == 8 + 4


RBD = model.Template.RBD


def test_what_has_one_node_only_is_placed_as_long_as_every_node_may_fail() -> None:
    three = "node1 8192\nnode2 8192\nnode3 8192\n"
    for template in (PLAIN, RBD):
        there = _cluster(three)
        allowed = replace(POLICY, templates=(template,))
        there = replace(there, policy=allowed, groups=tuple(replace(one, policy=allowed) for one in there.groups))
        assert _document(there, call=Limits(default_template=template))["standard"] == 2 * 8


def test_a_group_in_which_a_node_could_not_fail_takes_no_single_ones_and_says_which() -> None:
    made = _cluster("node1 8192\nnode2 8192\nnode3 8192\nweb1 7000 node1\nweb2 2000 node2\nweb3 2000 node3")
    alone = tuple(replace(one, template=PLAIN, secondary="") for one in made.instances)
    there = replace(made, instances=alone)
    document = _document(there)
    assert (document["cluster"], document["standard"]) == ([], 0)
    assert _groups(document)["a"]["refusal"] == "N+1 fails already: what is on node1 would have no room elsewhere"
    assert _document(there, call=Limits(default_template=DRBD))["standard"] != 0
    assert _document(there, accepts_existing=True)["standard"] != 0


def test_pairs_that_fail_over_take_the_room_that_single_ones_would_need() -> None:
    pair = _cluster("node1 8192\nnode2 8192\nweb1 4000 node1 node2")
    assert _document(pair)["standard"] == 4
    assert _document(_cluster("node1 8192\nnode2 8192\nweb1 4000 node1 node2 down"))["standard"] == 8
    offline = tuple(replace(one, offline=one.name == "node2") for one in pair.nodes)
    found = _groups(_document(replace(pair, nodes=offline)))["a"]
    assert found["refusal"] == "N+1 fails already: what is on node1 would have no room elsewhere"
