from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.plugin_utils import replica_evidence, whereabouts
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster

KNOWN: dict[str, dict[str, Any]] = {
    "web1": {"primary": "node2", "up": True, "hypervisor": "kvm", "resources": ["web1-disk0"]},
    "web2": {"primary": "node3", "up": False, "hypervisor": "fake", "resources": []},
}


def running(*names: str, sides: tuple[tuple[str, str], ...] = ()) -> whereabouts.Look:
    disks = [{"sides": [{"resource": resource, "role": role} for resource, role in sides]}]
    return whereabouts.seen({"runs": [{"states": dict.fromkeys(names, "running")}], "disks": disks})


def test_what_runs_where_it_should_is_no_finding() -> None:
    looks = {"node2": running("web1", sides=(("web1-disk0", "Primary"),)), "node3": running()}
    assert whereabouts.wrong(KNOWN, looks) == []
    looks["node3"] = running(sides=(("web1-disk0", "Secondary"), ("other", "Primary")))
    assert whereabouts.wrong(KNOWN, looks) == []


def test_a_second_copy_names_both_nodes_and_the_command_that_ends_it() -> None:
    looks = {"node2": running("web1"), "node3": running("web1")}
    (text,) = whereabouts.second_copies(KNOWN, looks)["node3"]
    assert text.startswith("web1 is running on node3, and its primary is node2, where it is running too")
    assert text.endswith("on node3 with `virsh --connect qemu:///system destroy web1`")
    assert whereabouts.wrong(KNOWN, looks) == [("node3", "web1", text)]


def test_what_is_halted_elsewhere_may_run_on_and_counts() -> None:
    look = whereabouts.seen({"runs": [{"states": {"web1": "paused after an I/O error of a disk"}}]})
    (text,) = whereabouts.second_copies(KNOWN, {"node3": look})["node3"]
    assert text.startswith("web1 is paused after an I/O error of a disk on node3, and its primary is node2: decide")


def test_a_replica_that_came_back_as_primary_is_one_though_nothing_runs() -> None:
    (text,) = whereabouts.second_copies(KNOWN, {"node3": running(sides=(("web1-disk0", "Primary"),))})["node3"]
    assert "node3 may write the disk web1-disk0 of web1, whose primary is node2" in text
    assert "drbdadm secondary web1-disk0" in text


def test_a_disk_that_cannot_be_read_may_be_written_there() -> None:
    disks = [{"sides": [], "unread": {"web1-disk0": "it has 2 peers", "other": "it has 3 peers"}}]
    look = whereabouts.seen({"runs": [{"states": {}}], "disks": disks})
    text = "whether node3 may write the disk web1-disk0 of web1 is not known: it has 2 peers"
    assert whereabouts.second_copies(KNOWN, {"node3": look}) == {"node3": [text]}
    assert whereabouts.second_copies(KNOWN, {"node2": look}) == {}
    assert ("node2", "web1", text.replace("node3", "node2")) in whereabouts.wrong(KNOWN, {"node2": look})


def test_what_runs_elsewhere_only_is_not_also_missing() -> None:
    looks = {"node2": running(), "node3": running("web1")}
    assert [one.node for one in whereabouts.wrong(KNOWN, looks)] == ["node3"]


def test_what_should_run_or_should_not_and_what_nobody_knows_are_findings() -> None:
    looks = {"node2": running(), "node3": running("web2", "stray")}
    assert whereabouts.wrong(KNOWN, looks) == [
        ("node3", "stray", "stray is on node3, and the configuration has no such instance"),
        ("node2", "web1", "web1 does not run on its primary node2, and should: run `roundsman instance start web1`"),
        ("node3", "web2", "web2 is running on node3, and should be down: run `roundsman instance stop web2`"),
    ]


def test_a_node_that_nobody_could_look_at_is_the_only_finding_about_it() -> None:
    for answer, why in (
        ({"unreachable": True, "msg": "no route"}, "it does not answer"),
        ({"msg": "no virsh"}, "no virsh"),
    ):
        looks = {"node2": whereabouts.seen({"runs": [answer], "disks": [answer]}), "node3": running()}
        assert whereabouts.wrong(KNOWN, looks) == [("node2", "", f"what runs on node2 is not known: {why}")]


@pytest.mark.parametrize("broken", [None, [], "none", 0])
def test_an_answer_that_lists_nothing_is_not_the_answer_that_there_is_nothing(broken: object) -> None:
    nothing: dict[str, Any] = {"states": {}}
    for what, runs, disks in (
        ("instances", {"states": broken}, {"sides": []}),
        ("disks", nothing, {"sides": broken or None}),
    ):
        look = whereabouts.seen({"runs": [runs], "disks": [disks]})
        assert look == whereabouts.Look(trouble=f"its answer does not say which {what} are there")


def test_the_records_name_each_resource_and_an_unfinished_instance_need_not_run() -> None:
    cluster = small_cluster.make()
    told = whereabouts.records(cluster)["inst1"]
    assert (told["primary"], told["up"], told["hypervisor"]) == ("node2", True, "kvm")
    assert told["resources"] == [f"inst1-disk{number}" for number, _ in enumerate(cluster.instance("inst1").disks)]
    one = dataclasses.replace(cluster.instance("inst1"), tags=("roundsman:unfinished",))
    unfinished = dataclasses.replace(cluster, instances={one.uuid: one})
    assert not whereabouts.records(unfinished)["inst1"]["up"]


def test_a_difference_counts_after_the_second_look_only_if_nothing_was_at_work_on_it() -> None:
    looks = {"node2": running(), "node3": running("web1"), "node4": running()}
    differences = whereabouts.wrong(KNOWN, looks)
    assert whereabouts.to_look_again(differences, KNOWN, looks) == ["node2", "node3"]
    before: dict[str, Any] = {"differing": ["web1"], "busy": [], "records": {"web1": KNOWN["web1"]}}
    assert whereabouts.settled(differences, before, KNOWN, []) == differences
    assert whereabouts.settled(differences, before, KNOWN, ["web1"]) == []
    assert whereabouts.settled(differences, {**before, "busy": ["web1"]}, KNOWN, []) == []
    assert whereabouts.settled(differences, {**before, "differing": []}, KNOWN, []) == []
    moved = {**KNOWN, "web1": {**KNOWN["web1"], "primary": "node4"}}
    assert whereabouts.settled(differences, before, moved, []) == []
    silent = whereabouts.wrong(KNOWN, {"node2": whereabouts.seen({"runs": [{"msg": "no virsh"}]})})
    assert whereabouts.settled(silent, before, KNOWN, ["web1"]) == silent


def test_what_jobs_work_on_is_what_they_hold_alone() -> None:
    cluster = small_cluster.make()
    assert whereabouts.at_work(cluster, [{"instance/i1": "shared", "node/n1": "exclusive"}]) == []
    assert whereabouts.at_work(cluster, [{}, {"instance/i1": "exclusive"}]) == ["inst1"]
    everything = sorted(one.name for one in cluster.instances.values())
    assert whereabouts.at_work(cluster, [{"instance/[lockset]": "exclusive"}]) == everything


@pytest.mark.parametrize(
    ("changed", "is_told"),
    [
        ({}, True),
        ({"role": Role.SECONDARY}, False),
        ({"connection": Connection.CONNECTED}, False),
    ],
)
def test_a_report_of_a_node_that_came_back_tells_what_it_may_write_of_others(
    changed: dict[str, Any], is_told: bool
) -> None:
    made = small_cluster.make()
    first = next(one for one in made.instances.values() if one.disk_template == "drbd" and one.secondary_nodes)
    instance = dataclasses.replace(first, mtime=100.0, disks=(clusters.Disk(64, minor=0),))
    cluster = clusters.with_instance(made, instance)
    (resource,) = replica_evidence.resources(instance)[:1]
    fact = replicas.ReplicaFact(resource, 0, Role.PRIMARY, Connection.CONNECTING, Disk.UP_TO_DATE, Disk.UNKNOWN)
    facts = replicas.NodeFacts("", (dataclasses.replace(fact, **changed),))
    (other,) = instance.secondary_nodes[:1]
    fresh = replicas.followed(None, facts, at=replicas.Moment(instance.mtime + 1))

    found = whereabouts.reported(cluster, other, fresh)

    assert bool(found) is is_told
    assert all(f"may write the disk {resource} of {instance.name}" in text for text in found)
    assert whereabouts.reported(cluster, instance.primary_node, fresh) == []
    old = replicas.followed(None, facts, at=replicas.Moment(instance.mtime - 1))
    assert whereabouts.reported(cluster, other, old) == [], "it was the primary then"
    assert whereabouts.reported(cluster, other, None) == []
