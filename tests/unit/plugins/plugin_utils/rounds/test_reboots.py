from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import reboots

from tests.unit import small_cluster

CLUSTER = small_cluster.make()


def told(cluster: clusters.Cluster, *, is_offline: bool = False) -> dict[str, str]:
    return {entry.node: entry.text for entry in reboots.left_out(cluster, is_offline=is_offline)}


def with_node(name: str, **fields: Any) -> clusters.Cluster:
    return clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node(name), **fields))


def with_instance(name: str, **fields: Any) -> clusters.Cluster:
    changed = dataclasses.replace(CLUSTER.instance(name), **fields)
    return dataclasses.replace(CLUSTER, instances={**CLUSTER.instances, changed.uuid: changed})


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"offline": True}, "it is offline"),
        ({"powered": False, "ndparams": {"oob_program": "/bin/oob"}}, "it is recorded as powered off"),
        ({"drained": True}, "it is drained"),
        ({"vm_capable": False}, "it takes no instances"),
    ],
)
def test_a_node_out_of_service_is_left_out_and_its_peer_would_stop_what_it_runs(
    fields: dict[str, Any], text: str
) -> None:
    assert told(with_node("node10", **fields)) == {"node10": text}
    stays = f"inst1 would stop, because its secondary node3 {text.removeprefix('it ')}"
    assert told(with_node("node3", **fields)) == {"node2": stays, "node3": text}
    assert told(with_node("node3", **fields), is_offline=True) == {"node3": text}


@pytest.mark.parametrize(
    ("fields", "told_of"),
    [
        ({}, ""),
        ({"hvparams": {"migratable": "no"}}, "it can never be migrated"),
        ({"hvparams": {"migratable": "false"}}, "it can never be migrated"),
        (
            {"parted": replicas.Parted(0.0, 0.0, "n2", ())},
            "it is degraded since 1970-01-01 00:00:00 UTC: run `roundsman",
        ),
        ({"admin_state": "down", "parted": replicas.Parted(0.0, 0.0, "n2", ())}, ""),
        ({"secondary_nodes": ()}, ""),
    ],
)
def test_no_node_is_rebooted_whose_reboot_would_stop_an_instance(fields: dict[str, Any], told_of: str) -> None:
    found = reboots.left_out(with_instance("inst1", **fields), is_offline=False)
    assert [(entry.node, entry.stops) for entry in found] == ([("node2", "inst1")] if told_of else [])
    assert all(entry.text.startswith(f"inst1 would stop, because {told_of}") for entry in found)
