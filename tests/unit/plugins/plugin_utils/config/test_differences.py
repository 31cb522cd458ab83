from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes, incidents, job_filters, tagging
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.config import differences, document

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
FILTER = job_filters.Filter("f", 0, 0, (), job_filters.Action.PAUSE)
Found = differences.Difference


def between(before: clusters.Cluster, after: clusters.Cluster) -> list[Found]:
    return differences.between(json.loads(document.dump(before)), json.loads(document.dump(after)))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (changes.NodePowered("n2", powered=False), Found("nodes", changed={"node2": ("not powered",)})),
        (
            changes.NodeRole("n2", drained=True, offline=False, master_candidate=False),
            Found("nodes", changed={"node2": ("not master_candidate", "drained")}),
        ),
        (
            changes.InstanceNodes("i1", "n3", ("n2",)),
            Found("instances", changed={"inst1": ("primary_node node3", "secondary_nodes")}),
        ),
        (changes.InstanceState("i1", "down"), Found("instances", changed={"inst1": ("admin_state down",)})),
        (tagging.Tagged("group", "g2", "x", present=True), Found("nodegroups", changed={"other": ("tags",)})),
        (tagging.Tagged("cluster", "", "x", present=True), Found("cluster", changed={"": ("tags",)})),
        (changes.RoundStands(4, (7, 8)), Found("maintenance", changed={"": ("round 4",)})),
        (
            changes.SettingsStand(clusters.Settings(round_interval=5.0, diagnose_command="x" * 41)),
            Found("settings", changed={"": ("diagnose_command", "round_interval 5.0")}),
        ),
        (changes.FilterStands(FILTER), Found("filters", added=("f",))),
        (changes.IncidentForgotten("aaaa-1"), Found("incidents", removed=("aaaa-1 of node3",))),
        (
            changes.IncidentStands(incidents.submit(small_cluster.INCIDENT, [9], now=50.0)),
            Found("incidents", changed={"aaaa-1 of node3": ("repair_status pending", "jobs")}),
        ),
    ],
)
def test_a_change_is_told_by_the_name_of_its_object_and_what_holds_of_it_now(
    change: changes.Change, found: differences.Difference
) -> None:
    assert between(CLUSTER, changes.apply(CLUSTER, change, now=99.0)) == [found]


def test_objects_that_come_and_go_are_told() -> None:
    left = {uuid: one for uuid, one in CLUSTER.nodes.items() if uuid != "n10"}
    after = dataclasses.replace(CLUSTER, nodes={**left, "n4": small_cluster.node("n4", "node4")})
    assert between(CLUSTER, after) == [Found("nodes", added=("node4",), removed=("node10",))]


def test_nothing_differs_between_a_version_and_one_with_another_serial_number() -> None:
    assert between(CLUSTER, dataclasses.replace(CLUSTER, serial_no=77, mtime=5.0)) == []


def test_a_field_that_only_one_schema_knows_is_no_difference() -> None:
    raw: dict[str, Any] = json.loads(document.dump(CLUSTER))
    older = json.loads(document.dump(CLUSTER))
    del older["nodes"]["n2"]["powered"], older["cluster"]["tags"], older["filters"]
    assert differences.between(older, raw) == []
    assert differences.between(raw, older) == []
