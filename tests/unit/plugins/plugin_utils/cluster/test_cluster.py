from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def test_names_with_numbers_sort_as_people_count() -> None:
    names = ["node10", "beta", "node2", "node2b", "alpha", "node2a", "node02", "node1.example.org"]
    ordered = ["alpha", "beta", "node1.example.org", "node02", "node2", "node2a", "node2b", "node10"]
    assert sorted(names, key=clusters.natural) == ordered


@pytest.mark.parametrize("name", ["", "node²", "node" + "9" * 5000, "٣"])
def test_every_name_has_a_place_in_the_order(name: str) -> None:
    assert sorted([name, "node1"], key=clusters.natural)


@pytest.mark.parametrize(
    ("uuid", "fields", "role"),
    [
        ("n1", {"offline": True, "drained": True}, clusters.Role.MASTER),
        ("n2", {"offline": True, "drained": True}, clusters.Role.OFFLINE),
        ("n2", {"drained": True}, clusters.Role.DRAINED),
        ("n2", {}, clusters.Role.CANDIDATE),
        ("n2", {"master_candidate": False}, clusters.Role.REGULAR),
    ],
)
def test_a_node_has_exactly_one_role(uuid: str, fields: dict[str, bool], role: clusters.Role) -> None:
    assert clusters.role(CLUSTER, dataclasses.replace(CLUSTER.nodes[uuid], **fields)) is role  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("node", "group", "whole", "found"),
    [
        ({"oob_program": "n"}, {"oob_program": "g"}, {"oob_program": "c"}, "n"),
        ({}, {"oob_program": "g"}, {"oob_program": "c"}, "g"),
        ({}, {}, {"oob_program": "c"}, "c"),
        ({"oob_program": "!"}, {"oob_program": "g"}, {}, None),
        ({"oob_program": ""}, {"oob_program": "g"}, {}, None),
        ({}, {"oob_program": "!"}, {"oob_program": "c"}, None),
        ({}, {"oob_program": ""}, {"oob_program": "c"}, None),
        ({"oob_program": "n"}, {"oob_program": "!"}, {"oob_program": "!"}, "n"),
        ({}, {}, {"oob_program": "!"}, None),
        ({}, {}, {}, None),
    ],
)
def test_a_parameter_comes_from_the_node_its_group_or_the_cluster(
    node: dict[str, str], group: dict[str, str], whole: dict[str, str], found: str | None
) -> None:
    one = dataclasses.replace(CLUSTER.nodes["n3"], ndparams=node)
    changed = dataclasses.replace(
        CLUSTER,
        cluster=dataclasses.replace(CLUSTER.cluster, ndparams=whole),
        nodegroups={"g1": dataclasses.replace(CLUSTER.nodegroups["g1"], ndparams=group)},
    )
    assert clusters.parameter(changed, one, "oob_program") == found


@pytest.mark.parametrize(
    ("fields", "is_reachable"),
    [
        ({}, True),
        ({"offline": True}, False),
        ({"powered": False}, False),
        ({"powered": False, "ndparams": {}}, True),
        ({"drained": True}, True),
    ],
)
def test_reachable_is_not_offline_and_powered_or_without_oob(fields: dict[str, object], *, is_reachable: bool) -> None:
    one = dataclasses.replace(CLUSTER.nodes["n3"], **fields)  # type: ignore[arg-type]
    assert clusters.reachable(CLUSTER, one) is is_reachable


def test_objects_are_found_by_name_and_by_uuid() -> None:
    assert CLUSTER.node("node3") is CLUSTER.node("n3")
    assert CLUSTER.group("rack one") is CLUSTER.group("g1")
    assert CLUSTER.instance("inst1") is CLUSTER.instance("i1")
    for find in (CLUSTER.node, CLUSTER.group, CLUSTER.instance, CLUSTER.incident):
        with pytest.raises(errors.NotFound, match="nothing"):
            find("nothing")


def test_an_incident_is_found_by_the_start_of_its_uuid_unless_two_start_so() -> None:
    assert CLUSTER.incident("aaaa") is small_cluster.INCIDENT
    with pytest.raises(errors.NotFound):
        CLUSTER.incident("aaa")
    twin = dataclasses.replace(small_cluster.INCIDENT, uuid="aaaa-2")
    two = dataclasses.replace(CLUSTER, maintenance=clusters.Maintenance(incidents=(small_cluster.INCIDENT, twin)))
    assert two.incident("aaaa-2") is twin
    with pytest.raises(errors.NotFound, match="several"):
        two.incident("aaaa")


def test_instances_of_a_node_are_listed_by_their_part() -> None:
    assert [one.uuid for one in CLUSTER.primaries("n2")] == ["i1"]
    assert [one.uuid for one in CLUSTER.secondaries("n3")] == ["i1"]
    assert CLUSTER.primaries("n3") == CLUSTER.secondaries("n2") == []
    assert CLUSTER.instances["i1"].nodes == ("n2", "n3")
    assert CLUSTER.instances["i1"].disk_size == 30
    assert CLUSTER.node_name("gone") == "gone"
