from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, errors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
RECORDED: list[changes.Change] = [
    changes.InstanceNodes("i1", "n3", ("n10",)),
    changes.InstanceState("i1", "down"),
    changes.NodeRole("n3", drained=True, offline=False, master_candidate=False),
    changes.NodePowered("n3", powered=False),
]
EVERY: list[changes.Change] = [
    *RECORDED,
    changes.Tagged("cluster", "", "new", present=True),
    changes.Tagged("group", "g1", "new", present=True),
    changes.Tagged("node", "node2", "rack:1", present=False),
    changes.Tagged("instance", "i1", "new", present=True),
    changes.IncidentStands(dataclasses.replace(small_cluster.INCIDENT, reason="other")),
    changes.IncidentStands(dataclasses.replace(small_cluster.INCIDENT, uuid="bbbb")),
    changes.IncidentForgotten("aaaa-1"),
    changes.RoundStands(4, (9,)),
    changes.SettingsStand(clusters.Settings(paused="tea")),
]


def objects(cluster: clusters.Cluster) -> dict[str, tuple[int, float]]:
    found: list[clusters.Object] = [
        cluster.cluster,
        *cluster.nodegroups.values(),
        *cluster.nodes.values(),
        *cluster.instances.values(),
    ]
    dated = {one.uuid: (one.serial_no, one.mtime) for one in found}
    return {**dated, "maintenance": (cluster.maintenance.serial_no, cluster.maintenance.mtime)}


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_counts_once_on_its_object_and_on_the_whole(change: changes.Change) -> None:
    after = changes.apply(CLUSTER, change, now=99.0)
    assert (after.serial_no, after.mtime) == (6, 99.0)
    touched = {uuid for uuid, dated in objects(after).items() if objects(CLUSTER)[uuid] != dated}
    assert len(touched) == 1
    assert objects(after)[touched.pop()] == (2, 99.0)


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_that_is_true_already_changes_nothing(change: changes.Change) -> None:
    once = changes.apply(CLUSTER, change, now=99.0)
    assert changes.apply(once, change, now=100.0) is once


def test_the_last_of_several_changes_stands() -> None:
    stated: list[changes.Change] = [changes.InstanceNodes("i1", "n3", ()), changes.InstanceNodes("i1", "n2", ("n10",))]
    found = changes.apply_all(CLUSTER, stated, now=9.0).instances["i1"]
    assert (found.primary_node, found.secondary_nodes, found.serial_no) == ("n2", ("n10",), 3)


def test_an_incident_keeps_its_place_when_it_changes() -> None:
    second = dataclasses.replace(small_cluster.INCIDENT, uuid="bbbb")
    first = dataclasses.replace(small_cluster.INCIDENT, reason="why")
    stated: list[changes.Change] = [changes.IncidentStands(second), changes.IncidentStands(first)]
    assert changes.apply_all(CLUSTER, stated, now=9.0).maintenance.incidents == (first, second)


@pytest.mark.parametrize(
    "change",
    [
        changes.InstanceNodes("i9", "n2"),
        changes.InstanceNodes("i1", "n9"),
        changes.InstanceNodes("i1", "n2", ("n9",)),
        changes.InstanceState("i9", "up"),
        changes.NodeRole("n9", drained=True, offline=False, master_candidate=False),
        changes.NodePowered("n9", powered=True),
        changes.Tagged("group", "g9", "t", present=True),
        changes.Tagged("node", "n9", "t", present=True),
        changes.Tagged("instance", "i9", "t", present=True),
    ],
    ids=str,
)
def test_an_unknown_object_is_refused(change: changes.Change) -> None:
    with pytest.raises(errors.NotFound, match="9"):
        changes.apply(CLUSTER, change, now=1.0)


@pytest.mark.parametrize(
    "change",
    [
        changes.InstanceNodes("inst1", "n3"),
        changes.InstanceNodes("i1", "node3"),
        changes.InstanceState("inst1", "down"),
        changes.NodePowered("node3", powered=False),
    ],
    ids=str,
)
def test_a_name_where_a_uuid_belongs_is_refused_and_never_stored(change: changes.Change) -> None:
    with pytest.raises(errors.NotFound, match="UUID"):
        changes.apply(CLUSTER, change, now=1.0)


def test_a_state_that_is_none_and_a_kind_without_tags_are_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="admin_state 'paused'"):
        changes.apply(CLUSTER, changes.InstanceState("i1", "paused"), now=1.0)
    with pytest.raises(errors.InvalidInput, match="'disk' has no tags"):
        changes.apply(CLUSTER, changes.Tagged("disk", "i1", "t", present=True), now=1.0)


@pytest.mark.parametrize("change", RECORDED, ids=str)
def test_a_recorded_change_survives_its_line(change: changes.Change) -> None:
    assert changes.decode(json.loads(json.dumps(changes.encode(change)))) == change


@pytest.mark.parametrize("change", EVERY[4:], ids=str)
def test_a_play_records_nothing_else(change: changes.Change) -> None:
    with pytest.raises(errors.InvalidInput):
        changes.encode(change)
    with pytest.raises(errors.InvalidInput):
        changes.lock_of(change)


def test_whoever_records_holds_the_object() -> None:
    assert [changes.lock_of(one) for one in RECORDED] == ["instance/i1", "instance/i1", "node/n3", "node/n3"]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"change": "node_powered", "node": "n1"}, "powered"),
        ({"change": "node_powered", "node": "n1", "powered": "yes"}, "powered"),
        ({"change": "node_powered", "node": "n1", "powered": 1}, "powered"),
        ({"change": "node_powered", "node": 1, "powered": True}, "node"),
        ({"change": "node_powered", "node": "n1", "powered": True, "why": "x"}, "why"),
        ({"change": "instance_nodes", "instance": "i1", "primary": "n1", "secondaries": "n2"}, "secondaries"),
        ({"change": "instance_nodes", "instance": "i1", "primary": "n1", "secondaries": [1]}, "secondaries"),
        ({"change": "tagged"}, "tagged"),
        ({}, "None"),
        ([], r"\[\]"),
        (5, "5"),
    ],
)
def test_a_wrong_line_is_refused_with_the_name_of_the_field(value: dict[str, object], field: str) -> None:
    with pytest.raises(errors.InvalidInput, match=field):
        changes.decode(value)


def role(cluster: clusters.Cluster, uuid: str, **wanted: bool) -> clusters.Cluster:
    return changes.apply_all(cluster, changes.role_change(cluster, cluster.nodes[uuid], **wanted), now=9.0)


def roles(cluster: clusters.Cluster) -> list[str]:
    return [clusters.role(cluster, cluster.nodes[uuid]).value for uuid in ("n1", "n2", "n3", "n10")]


def test_draining_a_candidate_promotes_the_next_by_name_first() -> None:
    stated = changes.role_change(CLUSTER, CLUSTER.nodes["n2"], drained=True)
    assert stated[0] == changes.NodeRole("n3", drained=False, offline=False, master_candidate=True)
    assert roles(role(CLUSTER, "n2", drained=True)) == ["master", "drained", "candidate", "regular"]


def test_draining_a_regular_node_promotes_nobody() -> None:
    assert roles(role(CLUSTER, "n3", drained=True)) == ["master", "candidate", "drained", "regular"]


def test_nobody_is_promoted_who_cannot_be_reached_or_may_not() -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n3", powered=False), now=1.0)
    assert roles(role(off, "n2", drained=True)) == ["master", "drained", "regular", "candidate"]
    barred = clusters.with_node(off, dataclasses.replace(off.nodes["n10"], master_capable=False))
    assert roles(role(barred, "n2", drained=True)) == ["master", "drained", "regular", "regular"]


def test_a_full_pool_needs_no_promotion() -> None:
    assert roles(role(small_cluster.make(pool=1), "n2", offline=True)) == ["master", "offline", "regular", "regular"]


def test_offline_ends_drained() -> None:
    drained = role(CLUSTER, "n3", drained=True)
    after = role(drained, "n3", offline=True).nodes["n3"]
    assert (after.drained, after.offline) == (False, True)
    assert not role(CLUSTER, "n3", drained=True, offline=True).nodes["n3"].drained


def test_back_online_a_node_is_regular_or_a_candidate_where_one_is_missing() -> None:
    assert roles(role(role(CLUSTER, "n3", offline=True), "n3", offline=False))[2] == "regular"
    larger = small_cluster.make(pool=3)
    assert roles(role(role(larger, "n3", offline=True), "n3", offline=False))[2] == "candidate"


def test_an_offline_candidate_is_not_counted_as_one() -> None:
    stale = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.nodes["n2"], offline=True))
    assert roles(role(stale, "n3", drained=False))[2] == "candidate"


def test_undraining_an_offline_node_leaves_it_offline() -> None:
    offline = role(CLUSTER, "n3", offline=True)
    assert role(offline, "n3", drained=False) is offline


def test_undraining_makes_a_node_regular_again() -> None:
    assert roles(role(role(CLUSTER, "n3", drained=True), "n3", drained=False))[2] == "regular"


@pytest.mark.parametrize("wanted", [{"drained": True}, {"offline": True}])
def test_the_master_is_neither_drained_nor_offline(wanted: dict[str, bool]) -> None:
    with pytest.raises(errors.Refused, match="node1 is the master"):
        role(CLUSTER, "n1", **wanted)
