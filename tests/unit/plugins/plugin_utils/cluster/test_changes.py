from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
EVERY: list[changes.Change] = [
    changes.InstanceNodes("i1", "n3", ("n10",)),
    changes.InstanceState("i1", "down"),
    changes.NodeRole("n3", drained=True, offline=False, master_candidate=False),
    changes.NodePowered("n3", powered=False),
    tagging.Tagged("cluster", "", "new", present=True),
    tagging.Tagged("group", "g1", "new", present=True),
    tagging.Tagged("node", "node2", "rack:1", present=False),
    tagging.Tagged("instance", "i1", "new", present=True),
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
        tagging.Tagged("group", "g9", "t", present=True),
        tagging.Tagged("node", "n9", "t", present=True),
        tagging.Tagged("instance", "i9", "t", present=True),
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


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="admin_state 'paused'"):
        changes.apply(CLUSTER, changes.InstanceState("i1", "paused"), now=1.0)
