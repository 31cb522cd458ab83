from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.plan import Refusal
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds.basis import Basis
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds.room import Room
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds.targets import Choice, Demand, Targets, Unfit

from . import tables
from .tables import u

GROUP = u("default")
TABLE = """
node1 8192 1000
node2 8192 1000
node3 4096 2000
"""


def targets(cluster: clusters.Cluster, *, avoid: tuple[str, ...] = (), leaving: tuple[str, ...] = ()) -> Targets:
    basis = Basis(cluster, avoid=[u(name) for name in avoid], leaving=[u(name) for name in leaving])
    return Targets(basis, room=Room(cluster))


def best(table: str, *, without: tuple[str, ...] = ("node1",), **more: Any) -> Choice | None:
    """The best target; `scores` (by name) decide, and where none are given nobody asks for them."""
    scores = more.pop("scores", None)
    returning = u(more.pop("returning", ""))

    def known() -> dict[str, float]:
        assert scores is not None, "the scores are asked for only where there is a choice"
        return {u(name): score for name, score in scores.items()}

    found = targets(tables.read(table))
    demand = Demand("instance9", **more)
    choice = found.choose(demand, group=GROUP, without=[u(name) for name in without], scores=known, returning=returning)
    return None if isinstance(choice, Refusal) else choice


@pytest.mark.parametrize(
    ("fields", "unfit"),
    [
        ({}, None),
        ({"vm_capable": False}, Unfit.INCAPABLE),
        ({"offline": True}, Unfit.OFFLINE),
        ({"drained": True}, Unfit.DRAINED),
        ({"powered": False, "ndparams": {"oob_program": "/oob"}}, Unfit.UNREACHABLE),
        ({"powered": False}, None),
        ({"offline": True, "drained": True, "vm_capable": False}, Unfit.INCAPABLE),
    ],
)
def test_a_node_that_is_unfit_says_first_what_it_is(fields: dict[str, Any], unfit: Unfit | None) -> None:
    cluster = tables.read(TABLE)
    node = dataclasses.replace(cluster.nodes[u("node2")], **fields)
    cluster = clusters.with_node(cluster, node)
    found = targets(cluster)
    assert found.unfit(node) is unfit
    assert (u("node2") in {member.uuid for member in found.members(GROUP)}) is (unfit is None)
    assert targets(cluster, avoid=("node2",)).unfit(node) is Unfit.INCIDENT
    assert targets(cluster, avoid=("node2",), leaving=("node2",)).unfit(node) is Unfit.LEAVING
    silent = targets(clusters.observed(cluster, silent=[node.uuid]))
    assert silent.unfit(node) is (unfit or Unfit.SILENT)


@pytest.mark.parametrize(
    ("table", "demand", "node"),
    [
        (TABLE, {"memory": 4097}, "node2"),
        (TABLE, {"memory": 8193}, None),
        (TABLE, {"disk": 1001}, "node3"),
        (TABLE, {"memory": 4097, "disk": 1001}, None),
        ("node1 9 9\nnode2 99 99 cpus=1\nnode3 99 99 cpus=8", {"vcpus": 5}, "node3"),
        (
            "tags htools:iextags:dns\nnode1 9 9\nnode2 99 99\nnode3 99 99\ninstance1 plain 1 1 node2 tags=dns:1",
            {"tags": ("dns:1",)},
            "node3",
        ),
        (
            "tags htools:migration:cpu\nnode1 9 9 tags=cpu:a\nnode2 99 99 tags=cpu:b\nnode3 99 99 tags=cpu:a",
            {"source": "u-node1"},
            "node3",
        ),
        ("node1 9 9\nnode2 9 9 group=b\nnode3 9 9", {"memory": 1}, "node3"),
    ],
)
def test_each_part_of_a_demand_has_to_be_met(table: str, demand: dict[str, Any], node: str | None) -> None:
    found = best(table, **demand)
    assert (found and found.node) == (node and u(node))


def test_a_node_that_keeps_n1_is_preferred_then_the_best_score_then_the_first_name() -> None:
    loaded = TABLE.replace("node3 4096", "node3 8192") + "instance1 drbd 6000 10 node1 node2\n"
    assert best(loaded, memory=4000) == Choice(u("node3"), keeps=True, among=2)
    assert best(loaded, memory=4000, without=("node1", "node3")) == Choice(u("node2"), keeps=False, among=1)
    assert best(loaded, reserve=3000, peer="u-node1") == Choice(u("node3"), keeps=True, among=2)
    equal: dict[str, Any] = {"memory": 1000, "without": (), "scores": {"node1": 3.0, "node2": 2.0, "node3": 1.0}}
    assert best(TABLE, **equal) == Choice(u("node3"), keeps=True, among=3)
    assert best(TABLE, **{**equal, "scores": {"node2": 9.0}}) == Choice(u("node2"), keeps=True, among=3)
    assert best(TABLE, **{**equal, "scores": {}}) == Choice(u("node1"), keeps=True, among=3)


def test_a_replica_that_returns_needs_no_further_disk_unless_its_node_is_overfull() -> None:
    full = "node1 99 9000\nnode2 99 1000\ninstance1 drbd 1 {} node1 node2"
    assert best(full.format(900), disk=900) is None
    assert best(full.format(900), disk=900, returning="node2") == Choice(u("node2"), keeps=True, among=1)
    assert best(full.format(1100), disk=900, returning="node2") is None


@pytest.mark.parametrize(
    ("table", "demand", "without", "reason", "unblock"),
    [
        (
            TABLE,
            {"memory": 9000},
            ["node1"],
            "no node has 9000 MiB free: best is node2 with 8192",
            "808 MiB more memory on node2",
        ),
        (
            TABLE,
            {"disk": 3000},
            ["node1"],
            "no node has 3000 MiB of disk free: best is node3 with 2000",
            "1000 MiB more disk on node3",
        ),
        (
            TABLE,
            {"memory": 5000, "disk": 1500},
            ["node1"],
            "no node has both 5000 MiB of memory and 1500 MiB of disk free: best is node3 with 4096 MiB of memory",
            "904 MiB more memory on node3",
        ),
        (
            TABLE.replace("node2 8192 1000", "node2 9999 1000 drained"),
            {"memory": 9000},
            ["node1"],
            "no node has 9000 MiB free: best is node3 with 4096",
            "4904 MiB more memory on node3, or node2 back from drained (`roundsman node undrain node2`)",
        ),
        (
            TABLE,
            {},
            ["node1", "node2", "node3"],
            "no third node in group default (node1 and node2 and node3 holds its other replica)",
            "another node in group default",
        ),
    ],
)
def test_nowhere_says_what_the_nearest_node_lacks_and_what_would_help(
    table: str, demand: dict[str, Any], without: list[str], reason: str, unblock: str
) -> None:
    found = targets(tables.read(table))
    outside = [u(name) for name in without]
    refusal = found.choose(Demand("instance9", **demand), group=GROUP, without=outside, scores=dict)
    assert refusal == Refusal("instance9", reason, unblock)
