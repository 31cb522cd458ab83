from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import errors
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.locks import Mode
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
    assert (found["instance_primary"]["name"], found["instance_secondary"]["name"]) == ("node-1", "node-2")
    assert found["instance"]["disks"][0]["minor"] == 3


def test_only_replicated_disks_are_repaired(cluster: clusters.Cluster) -> None:
    plain = dataclasses.replace(cluster.instances["i"], disk_template="plain", secondary_nodes=())
    made = disk_repair.RepairDisks("i")
    assert made.moot(cluster) == ""
    fake = dataclasses.replace(cluster.instances["i"], hypervisor="fake")
    assert "simulated" in made.moot(dataclasses.replace(cluster, instances={"i": fake}))
    changed = dataclasses.replace(cluster, instances={"i": plain})
    assert made.moot(changed) == "web1 has no replicated disks"
    with pytest.raises(errors.Refused, match="web1 has 0 secondaries, and not one"):
        made.variables(changed)


def test_a_node_that_may_not_be_contacted_is_not_repaired(cluster: clusters.Cluster) -> None:
    off = dataclasses.replace(cluster.nodes["2"], offline=True)
    changed = dataclasses.replace(cluster, nodes={**cluster.nodes, "2": off})
    with pytest.raises(errors.Refused, match="node-2 is offline: it is not contacted"):
        disk_repair.RepairDisks("i").variables(changed)
