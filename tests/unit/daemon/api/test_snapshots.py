from __future__ import annotations

import dataclasses

import orjson
import pytest
from ansible_collections.roundsman.cluster.daemon.api import snapshots
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import changes
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

from tests.unit import small_cluster


class Current:
    """A configuration that a test changes."""

    def __init__(self) -> None:
        self.cluster = small_cluster.make()

    def __call__(self) -> clusters.Cluster:
        return self.cluster


def test_the_same_configuration_is_the_same_snapshot_and_another_is_not() -> None:
    current = Current()
    seen = snapshots.Snapshots(current)
    first = seen.newest()
    assert seen.newest() is first
    current.cluster = dataclasses.replace(current.cluster, serial_no=9)
    assert seen.newest().cluster.serial_no == 9


def test_what_the_nodes_hold_is_found_again_only_when_an_instance_changes() -> None:
    current = Current()
    seen = snapshots.Snapshots(current)
    held = seen.newest().holdings
    current.cluster = changes.apply(current.cluster, changes.NodePowered("n3", powered=False), now=1.0)
    assert seen.newest().holdings is held
    current.cluster = changes.apply(current.cluster, changes.InstanceNodes("i1", "n3", ("n2",)), now=1.0)
    after = seen.newest().holdings
    moved = after.by_name["inst1"]
    assert (after.primaries("n3"), after.primaries("n2"), after.secondaries("n2")) == ([moved], [], [moved])
    assert (after.memory("n3"), after.disk("n2")) == (512, held.disk("n2"))


def test_an_instance_is_found_by_name_and_by_uuid() -> None:
    seen = snapshots.Snapshots(Current()).newest()
    assert seen.instance("inst1") is seen.instance("i1")
    with pytest.raises(errors.NotFound):
        seen.instance("inst2")


def test_a_list_is_made_again_only_for_other_parts() -> None:
    seen, made = snapshots.Snapshots(Current()), []

    def make() -> list[int]:
        made.append(1)
        return made

    one, other = object(), object()
    assert [seen.serialised("x", (one,), make) for _ in range(2)] == [b"[1]", b"[1]"]
    assert seen.serialised("x", (other,), make) == b"[1,1]"


def test_of_a_list_only_the_members_are_made_again_that_a_commit_changed() -> None:
    current, made = Current(), list[str]()
    seen = snapshots.Snapshots(current)

    def listed() -> list[str]:
        made.clear()
        cluster = seen.newest().cluster

        def make(node: clusters.Node) -> str:
            made.append(node.name)
            return node.name

        text = seen.joined("names", cluster.nodes.values(), parts=lambda node: (node,), make=make)
        told: list[str] = orjson.loads(text)
        return told

    names = [node.name for node in current.cluster.nodes.values()]
    assert (listed(), made) == (names, names)
    assert (listed(), made) == (names, [])
    current.cluster = changes.apply(current.cluster, changes.NodePowered("n3", powered=False), now=1.0)
    assert (listed(), made) == (names, [current.cluster.nodes["n3"].name])
    gone = dict(current.cluster.nodes)
    del gone["n3"]
    current.cluster = dataclasses.replace(current.cluster, nodes=gone)
    assert (listed(), made) == ([name for name in names if name != "node3"], [])
