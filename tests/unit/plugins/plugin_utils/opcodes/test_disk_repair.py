from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster.locks import Mode
from ansible_collections.roundsman.cluster.plugins.plugin_utils.opcodes import disk_repair, registry


@pytest.fixture
def cluster() -> clusters.Cluster:
    nodes = {uuid: clusters.Node(uuid, f"node-{uuid}", "g", primary_ip=f"192.0.2.{uuid}") for uuid in ("1", "2")}
    instance = clusters.Instance("i", "web1", "1", ("2",), disks=(clusters.Disk(64, minor=3),))
    return clusters.Cluster(
        cluster=clusters.Parameters("c", "u", "1"),
        nodegroups={"g": clusters.Group("g", "default")},
        nodes=nodes,
        instances={"i": instance},
    )


def test_the_instance_is_held_alone_and_its_nodes_are_shared(cluster: clusters.Cluster) -> None:
    made = registry.make("repair_disks", {"instance": "i"})
    assert made.wants(cluster) == {"instance/i": Mode.EXCLUSIVE, "node/1": Mode.SHARED, "node/2": Mode.SHARED}
    assert isinstance(made, disk_repair.RepairDisks)
    assert made.hosts(cluster) == ["1", "2"]
    assert made.about() == ("i",)
    found = made.variables(cluster)
    assert (found["primary"]["name"], found["secondary"]["name"]) == ("node-1", "node-2")
    assert found["discard"] == ""
    assert found["instance"]["disks"][0]["minor"] == 3


def test_only_replicated_disks_are_repaired(cluster: clusters.Cluster) -> None:
    plain = dataclasses.replace(cluster.instances["i"], disk_template="plain", secondary_nodes=())
    made = disk_repair.RepairDisks("i")
    assert made.moot(cluster) == ""
    changed = dataclasses.replace(cluster, instances={"i": plain})
    assert made.moot(changed) == "web1 has no replicated disks"
    with pytest.raises(errors.Refused, match="web1 has 0 secondaries, and not one"):
        made.variables(changed)


def test_what_a_person_gives_up_is_that_of_a_node_with_a_replica(cluster: clusters.Cluster) -> None:
    assert registry.make("repair_disks", {"instance": "i", "discard": "2"}).variables(cluster)[  # type: ignore[union-attr]
        "discard"
    ] == ("node-2")
    other = clusters.Node("3", "node-3", "g", primary_ip="192.0.2.3")
    changed = dataclasses.replace(cluster, nodes={**cluster.nodes, "3": other})
    with pytest.raises(errors.Refused, match="node-3 has no replica of web1: discard what node-1 or node-2 wrote"):
        disk_repair.RepairDisks("i", "3").variables(changed)


def test_a_node_that_may_not_be_contacted_is_not_repaired(cluster: clusters.Cluster) -> None:
    off = dataclasses.replace(cluster.nodes["2"], offline=True)
    changed = dataclasses.replace(cluster, nodes={**cluster.nodes, "2": off})
    with pytest.raises(errors.Refused, match="node-2 is offline: it is not contacted"):
        disk_repair.RepairDisks("i").variables(changed)


def parted(cluster: clusters.Cluster, **fields: Any) -> clusters.Cluster:
    """The cluster whose instance has lost its secondary."""
    known = {"parted": replicas.Parted(5.0, 4.0, "1"), **fields}
    return dataclasses.replace(cluster, instances={"i": dataclasses.replace(cluster.instances["i"], **known)})


def test_a_replica_is_outdated_under_the_locks_of_its_instance_and_its_node(cluster: clusters.Cluster) -> None:
    cluster = parted(cluster, disks=(clusters.Disk(10), clusters.Disk(10)))
    made = disk_repair.OutdateReplica("i", "2")
    assert made.moot(cluster) == ""
    assert made.wants(cluster) == {"instance/i": Mode.EXCLUSIVE, "node/2": Mode.SHARED}
    told = made.variables(cluster)
    assert (told["member"]["uuid"], told["resources"]) == ("2", ["web1-disk0", "web1-disk1"])


@pytest.mark.parametrize(
    ("node", "fields", "text"),
    [
        ("2", {"parted": None}, "web1 is in sync again"),
        ("1", {}, "node-1 is not the secondary of web1 any more"),
        ("2", {"primary_node": "2", "secondary_nodes": ("1",)}, "node-2 is not the secondary of web1 any more"),
    ],
)
def test_nothing_is_outdated_that_is_no_lost_secondary_any_more(
    cluster: clusters.Cluster, node: str, fields: dict[str, Any], text: str
) -> None:
    assert disk_repair.OutdateReplica("i", node).moot(parted(cluster, **fields)) == f"nothing to do: {text}"
    assert "has been removed" in disk_repair.OutdateReplica("i9", node).moot(cluster)
