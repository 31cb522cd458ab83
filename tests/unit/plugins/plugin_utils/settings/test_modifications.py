from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.settings import joining, modifications, parameters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def after(stated: list[changes.Change], before: clusters.Cluster = CLUSTER) -> clusters.Cluster:
    return changes.apply_all(before, stated, now=99.0)


def modified(fields: dict[str, Any], before: clusters.Cluster = CLUSTER) -> clusters.Cluster:
    return after(parameters.node_modify(before, "node3", fields), before)


def test_for_programs_there_are_the_names_of_fields_and_their_new_values() -> None:
    found = modified({"vm_capable": True, "mtotal": 8192, "oob_program": "ipmi"})
    assert modifications.differences(CLUSTER, found) == [("mtotal", 8192), ("ndparams", {"oob_program": "ipmi"})]
    found = after(parameters.cluster_modify(CLUSTER, {"paused": "works"}))
    assert modifications.differences(CLUSTER, found) == [("paused", "works")]


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"mtotal": 8192}, ["mtotal: 4096 → 8192"]),
        ({"mtotal": 4096, "master_capable": False}, ["master_capable: true → false"]),
        ({"mtotal": 8192, "ctotal": 4}, ["mtotal: 4096 → 8192", "ctotal: 0 → 4"]),
        ({"oob_program": "ipmi"}, ["ndparams.oob_program: /bin/oob → ipmi"]),
        ({"primary_ip": "192.0.2.9"}, ['primary_ip: "" → 192.0.2.9']),
        ({"hostvars": {"ansible_host": "a.example"}}, ["hostvars.ansible_host: unset → a.example"]),
        ({"vm_capable": True}, ["nothing to change"]),
    ],
)
def test_for_people_each_parameter_is_a_line_with_its_value_before_and_now(
    fields: dict[str, Any], lines: list[str]
) -> None:
    assert modifications.lines(CLUSTER, modified(fields), about="n3") == lines


def test_an_entry_that_is_taken_away_is_unset_and_a_secret_is_told_in_neither_value() -> None:
    old = {"ansible_user": "a", "api_token": "b", "other": "a\nb"}
    before, found = (
        clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n3"], hostvars=one))
        for one in (old, {"api_token": "c"})
    )
    assert modifications.lines(before, found, about="n3") == [
        "hostvars.ansible_user: a → unset",
        "hostvars.api_token: hidden → hidden",
        'hostvars.other: "a\\nb" → unset',
    ]


def test_another_object_than_the_one_asked_about_is_named() -> None:
    moved = after([changes.InstanceNodes("i1", "n1", ("n3",))])
    found = after(joining.remove(moved, "node2"), moved)
    assert modifications.lines(moved, found, about="n2") == ["node3: master_candidate: false → true"]


def test_of_the_cluster_its_own_parameters_and_its_settings_are_told() -> None:
    found = after(parameters.cluster_modify(CLUSTER, {"candidate_pool_size": 3, "round_interval": 60}))
    before = CLUSTER.maintenance.settings.round_interval
    assert modifications.lines(CLUSTER, found, about="") == [
        "candidate_pool_size: 2 → 3",
        f"round_interval: {before} → 60.0",
    ]


def test_an_object_that_comes_or_goes_is_no_difference_but_not_nothing() -> None:
    found = after(parameters.group_add(CLUSTER, "g9", {"name": "rack9"}))
    assert modifications.lines(CLUSTER, found, about="g9") == []
    assert modifications.lines(found, CLUSTER, about="g9") == []


def test_a_group_is_told_by_its_name() -> None:
    found = after(parameters.group_add(CLUSTER, "g9", {"name": "rack9"}))
    found = after(joining.add(found, "n99", {"name": "node99", "group": "rack9"}), found)
    (group,) = (one.name for one in CLUSTER.nodegroups.values() if one.uuid == CLUSTER.node("node1").group)
    moved = after(parameters.node_modify(found, "node99", {"group": group}), found)
    assert modifications.lines(found, moved, about="n99") == [f"group: rack9 → {group}"]
