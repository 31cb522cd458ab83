from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import hypothesis
import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.models import model
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import (
    allocator_json,
    allocator_requests,
)

from ...rounds import kinds, requests, small_models

ALONE = model.Instance("new1", 512, 148, 2, "running", True, "", tags=("service:a",), spindles=3)
NEW = dataclasses.replace(ALONE, networks=("net-1",))
WANTED = allocator.Wanted(NEW, disks=(10, 10), group="b", only=("node3", "node4"))
EVACUATE = allocator.Evacuate(("web1", "rbd1"), allocator.Scope.ALL)
REQUESTS: list[allocator.Request] = [
    allocator.Allocate(WANTED),
    allocator.Allocate(dataclasses.replace(WANTED, instance=ALONE, group="", only=None)),
    allocator.MultiAllocate((WANTED, dataclasses.replace(WANTED, instance=dataclasses.replace(NEW, name="new2")))),
    allocator.AllocateSecondary("lone1"),
    allocator.Relocate("web1", ("node2",)),
    EVACUATE,
    allocator.ChangeGroup(("web1",), ("b",)),
    allocator.ChangeGroup(("web1",)),
]


def _read(document: Any) -> tuple[model.Model, allocator.Request]:
    return allocator_json.read(json.dumps(document))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_what_is_written_for_an_allocator_is_what_it_reads(request_: allocator.Request) -> None:
    cluster = small_models.make(requests.CLUSTER)
    found, asked = _read(requests.document(request_))
    assert asked == request_
    gone: dict[str, Any] = {
        "t_mem": 0,
        "n_mem": 0,
        "f_mem": 0,
        "t_disk": 0,
        "f_disk": 0,
        "pcpus": 0,
        "os_vcpus": 0,
        "is_known": False,
    }
    nodes = [dataclasses.replace(node, **gone) if node.offline else node for node in cluster.nodes]
    assert found == dataclasses.replace(cluster, nodes=tuple(nodes))


def test_a_drained_node_takes_nothing_and_keeps_its_numbers() -> None:
    document = requests.document(EVACUATE)
    document["nodes"]["node1"]["drained"] = True
    node = _read(document)[0].nodes[0]
    assert (node.offline, node.is_known, node.t_mem) == (True, True, 8192)


def test_nodes_that_are_offline_or_not_vm_capable_need_no_numbers() -> None:
    document = requests.document(EVACUATE)
    for name, flags in [("node1", {"vm_capable": False}), ("node2", {"offline": True})]:
        kept = {key: document["nodes"][name][key] for key in ("group", "offline", "drained", "ndparams")}
        document["nodes"][name] = {**kept, **flags}
    first, second, third, _ = _read(document)[0].nodes
    assert [(node.offline, node.is_known, node.t_mem, node.spindles) for node in (first, second)] == [
        (True, False, 0, 1),
        (True, False, 0, 1),
    ]
    assert third.is_known


def test_on_kvm_the_memory_of_the_node_itself_is_not_what_it_reports() -> None:
    document = requests.document(EVACUATE)
    document["nodes"]["node1"]["reserved_memory"] = 7000
    assert _read(document)[0].nodes[0].n_mem == 7000
    document["enabled_hypervisors"] = ["kvm", "xen-pvm"]
    assert _read(document)[0].nodes[0].n_mem == 4096
    document["enabled_hypervisors"] = ["xen-pvm", "kvm"]
    assert _read(document)[0].nodes[0].n_mem == 7000


def test_on_exclusive_storage_spindles_are_those_the_node_reports() -> None:
    document = requests.document(EVACUATE)
    document["nodes"]["node1"] |= {"total_spindles": 12, "free_spindles": 5}
    document["nodes"]["node1"]["ndparams"] = {"exclusive_storage": True, "spindle_count": 3}
    node = _read(document)[0].nodes[0]
    assert (node.exclusive_storage, node.spindles, node.free_spindles) == (True, 12, 5)
    document["nodes"]["node1"]["ndparams"]["exclusive_storage"] = False
    assert _read(document)[0].nodes[0].spindles == 3


def _without(*path: str) -> Any:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def _with(value: Any, *path: str) -> Any:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_with(1, "version"), "version: version 2 of the protocol was expected, not 1"),
        (_without("nodegroups"), "the document: the key 'nodegroups' is missing"),
        (_without("request", "type"), "request: the key 'type' is missing"),
        (
            _with("multi-evacuate", "request", "type"),
            (
                "request.type: one of allocate, multi-allocate, allocate-secondary, relocate, node-evacuate, "
                'change-group was expected, not "multi-evacuate"'
            ),
        ),
        (_with("x", "nodes", "node1", "group"), 'nodes.node1.group: the UUID of a node group was expected, not "x"'),
        (_without("nodes", "node1", "total_memory"), "nodes.node1: the key 'total_memory' is missing"),
        (_with("1", "nodes", "node1", "free_disk"), 'nodes.node1.free_disk: a whole number was expected, not "1"'),
        (
            _with([], "instances", "web1", "nodes"),
            "instances.web1.nodes: a list with at least a primary was expected, not []",
        ),
        (
            _with(["x"], "instances", "web1", "nodes"),
            'instances.web1.nodes[0]: the name of a node was expected, not "x"',
        ),
        (
            _with("paused", "instances", "web1", "admin_state"),
            'instances.web1.admin_state: one of up, down, offline was expected, not "paused"',
        ),
        (
            _with(-1, "instances", "web1", "memory"),
            "instances.web1.memory: a whole number of at least 0 was expected, not -1",
        ),
        (
            _with("some", "nodegroups", "a", "alloc_policy"),
            'nodegroups.a.alloc_policy: one of preferred, last_resort, unallocable was expected, not "some"',
        ),
        (
            _without("nodegroups", "a", "ipolicy", "std", "cpu-count"),
            "nodegroups.a.ipolicy.std: the key 'cpu-count' is missing",
        ),
        (
            _with(["web9"], "request", "instances"),
            'request.instances[0]: the name of an instance was expected, not "web9"',
        ),
        (
            _with("both", "request", "evac_mode"),
            'request.evac_mode: one of primary-only, secondary-only, all was expected, not "both"',
        ),
    ],
)
def test_a_request_that_is_none_is_refused_in_one_line_with_place_and_expectation(change: Any, expected: str) -> None:
    document = requests.document(EVACUATE)
    change(document)
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(expected)}$"):
        _read(document)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("name", "web1", 'request.name: the name of a new instance was expected, not "web1"'),
        ("required_nodes", 1, "request.required_nodes: 2, as drbd needs, was expected, not 1"),
        ("group_name", "c", 'request.group_name: the name of a node group was expected, not "c"'),
        ("disk_template", "mixed", "request.disk_template: one of diskless, "),
    ],
)
def test_a_new_instance_that_cannot_be_is_refused(key: str, value: Any, expected: str) -> None:
    document = requests.document(allocator.Allocate(WANTED))
    document["request"][key] = value
    with pytest.raises(errors.InvalidInput, match=f"^{re.escape(expected)}"):
        _read(document)


def test_the_clusters_policy_is_not_looked_at() -> None:
    document = requests.document(EVACUATE)
    document["ipolicy"] = {"of": "another time"}
    assert _read(document)[1] == EVACUATE


def test_a_version_that_is_not_given_is_not_asked_for() -> None:
    document = requests.document(EVACUATE)
    del document["version"]
    assert _read(document)[1] == EVACUATE


def _written(request: allocator.Request, result: allocator.Result) -> Any:
    return json.loads(allocator_json.write(request, result))


def test_a_place_is_answered_by_its_nodes() -> None:
    result = allocator.Result((allocator.Placement("new1", ("node2", "node1")),), info="group a")
    assert _written(REQUESTS[0], result) == {
        "success": True,
        "info": "Request successful: group a",
        "result": ["node2", "node1"],
    }
    assert _written(REQUESTS[3], result)["result"] == "node1"
    assert _written(REQUESTS[4], result)["result"] == ["node1"]
    shared = allocator.Result((allocator.Placement("rbd1", ("node4",)),))
    assert _written(REQUESTS[4], shared)["result"] == ["node4"]


def test_no_place_for_a_single_instance_is_no_success() -> None:
    refusal = allocator.Result(unplaced=(allocator.Unplaced("new1", {"": "no node has 512 MiB free"}),))
    with pytest.raises(errors.Refused, match=r"^no node has 512 MiB free$"):
        allocator_json.write(REQUESTS[0], refusal)
    assert json.loads(allocator_json.refused("no")) == {"success": False, "info": "Request failed: no", "result": []}


def test_of_several_new_instances_those_without_a_place_are_named() -> None:
    result = allocator.Result(
        (allocator.Placement("new1", ("node2", "node1")),), (allocator.Unplaced("new2", {"": "full"}),)
    )
    assert _written(REQUESTS[2], result)["result"] == [[["new1", ["node2", "node1"]]], ["new2"]]


def test_moves_are_jobs_of_opcodes_that_wait_for_the_jobs_they_need() -> None:
    migrate, failover = allocator.Step(allocator.Action.MIGRATE), allocator.Step(allocator.Action.FAILOVER, "node4")
    replace = allocator.Step(allocator.Action.REPLACE_SECONDARY, "node3")
    result = allocator.Result(
        (
            allocator.Placement("web1", ("node1", "node3"), "a", (replace, migrate)),
            allocator.Placement("web2", ("node1",), "a"),
            allocator.Placement("rbd1", ("node4",), "b", (failover,), after=("web1",)),
        ),
        (allocator.Unplaced("lone1", {"": "plain"}),),
    )
    answer = _written(EVACUATE, result)
    assert answer["info"] == "Request successful: 3 instances moved, 1 not"
    moved, failed, jobs = answer["result"]
    assert moved == [["web1", "a", ["node1", "node3"]], ["web2", "a", ["node1"]], ["rbd1", "b", ["node4"]]]
    assert failed == [["lone1", "plain"]]
    assert jobs == [
        [
            {
                "OP_ID": "OP_INSTANCE_REPLACE_DISKS",
                "instance_name": "web1",
                "mode": "replace_new_secondary",
                "disks": [],
                "remote_node": "node3",
            },
            {
                "OP_ID": "OP_INSTANCE_MIGRATE",
                "instance_name": "web1",
                "allow_failover": True,
                "ignore_hvversions": True,
            },
        ],
        [
            {
                "OP_ID": "OP_INSTANCE_FAILOVER",
                "instance_name": "rbd1",
                "target_node": "node4",
                "depends": [[-1, ["success"]]],
            }
        ],
    ]


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(kinds.clusters())
def test_any_cluster_comes_through_the_protocol_but_for_what_it_has_no_word_for(cluster: model.Model) -> None:
    found, _ = allocator_json.read(allocator_requests.write(cluster, allocator.MultiAllocate(())))
    nodes = [dataclasses.replace(one, master=False) for one in cluster.nodes if not one.offline]
    assert [one for one in found.nodes if not one.offline] == nodes
    assert [one.name for one in found.nodes] == [one.name for one in cluster.nodes]
    instances = tuple(dataclasses.replace(one, auto_balance=True, load=model.Load()) for one in cluster.instances)
    assert found.instances == instances
    assert (found.groups, found.tags) == (cluster.groups, cluster.tags)
