from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import digests

from tests.unit import small_cluster


def test_the_digest_is_the_same_whatever_the_order_and_the_bookkeeping() -> None:
    first = small_cluster.make()
    nodes = {
        uuid: dataclasses.replace(one, serial_no=9, mtime=7.0) for uuid, one in reversed(list(first.nodes.items()))
    }
    nodes["n2"] = dataclasses.replace(nodes["n2"], hostvars={"ansible_port": "22"}, master_candidate=False)
    again = dataclasses.replace(first, nodes=nodes, serial_no=99)
    assert digests.digest(first) == digests.digest(again)
    assert digests.digest(first).startswith("sha256:")


@pytest.mark.parametrize(
    "changed",
    [
        {"memory": 513},
        {"primary_node": "n3", "secondary_nodes": ("n2",)},
        {"admin_state": "down"},
        {"tags": ()},
        {"disks": (clusters.Disk(10), clusters.Disk(21))},
        {"hvparams": {"migratable": "no"}},
    ],
)
def test_whatever_changes_an_instance_changes_the_digest(changed: dict[str, Any]) -> None:
    first = small_cluster.make()
    again = clusters.with_instance(first, dataclasses.replace(first.instances["i1"], **changed))
    assert digests.digest(first) != digests.digest(again)


@pytest.mark.parametrize("changed", [{"drained": True}, {"mtotal": 1}, {"powered": False}, {"group": "g2"}])
def test_whatever_changes_a_node_changes_the_digest(changed: dict[str, Any]) -> None:
    first = small_cluster.make()
    again = clusters.with_node(first, dataclasses.replace(first.nodes["n3"], **changed))
    assert digests.digest(first) != digests.digest(again)


def test_an_incident_and_the_limit_of_moves_change_the_digest() -> None:
    first = small_cluster.make()
    kept = dataclasses.replace(first.maintenance, round=9, jobs=())
    assert digests.digest(dataclasses.replace(first, maintenance=kept)) == digests.digest(first)
    without = dataclasses.replace(first.maintenance, incidents=())
    assert digests.digest(dataclasses.replace(first, maintenance=without)) != digests.digest(first)
    settings = dataclasses.replace(first.maintenance.settings, moves_per_node=1)
    limited = dataclasses.replace(first.maintenance, settings=settings)
    assert digests.digest(dataclasses.replace(first, maintenance=limited)) != digests.digest(first)
