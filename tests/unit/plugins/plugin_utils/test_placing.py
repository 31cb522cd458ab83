from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import changes, errors, instance_making, tree
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils import allocator_programs, placing
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.allocation import allocator
from ansible_collections.roundsman.cluster.plugins.plugin_utils.placement.protocol import own_allocator

from tests.unit import small_cluster

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = small_cluster.make()
LARGE = 10**6


def cluster_with_room() -> clusters.Cluster:
    nodes = {uuid: small_cluster.node(uuid, one.name, dtotal=LARGE) for uuid, one in CLUSTER.nodes.items()}
    return clusters.Cluster(CLUSTER.cluster, CLUSTER.nodegroups, nodes)


ROOMY = cluster_with_room()


def draft(cluster: clusters.Cluster = ROOMY, **fields: Any) -> clusters.Instance:
    wanted = {"name": "web", "disk_template": "drbd", "disks": [2048], "memory": 512, **fields}
    return instance_making.draft(cluster, "new", wanted)


def placed(*nodes: str, group: str = "", cluster: clusters.Cluster = ROOMY, **fields: Any) -> list[str]:
    by = own_allocator.make()
    return placing.place(cluster, draft(cluster, **fields), placing.Wish(group, nodes), by=by)


def test_a_pair_goes_to_two_nodes_and_what_is_asked_for_is_kept() -> None:
    assert len(set(placed())) == 2
    assert placed("n3")[0] == "n3"
    assert placed("n3", "n10") == ["n3", "n10"]
    assert placed("n3", disk_template="plain") == ["n3"]
    assert len(placed(disk_template="diskless", disks=[])) == 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"memory": 32000}, "web has no place: "),
        ({"group": "other"}, "web has no place: "),
        ({"memory": 64}, "web has no place: "),
    ],
)
def test_why_there_is_no_place_is_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(errors.Refused) as refused:
        placed(**fields)
    assert str(refused.value).startswith(told)
    assert len(str(refused.value)) > len(told)


def test_more_nodes_than_it_has_copies_are_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="nodes: an instance with the disk template plain has 1"):
        placed("n1", "n2", disk_template="plain")


def test_what_is_being_made_keeps_its_memory_for_those_that_come_after_it() -> None:
    cluster, by = ROOMY, own_allocator.make()
    for number in range(5):
        wanted = {"name": f"w{number}", "disk_template": "diskless", "memory": 2048}
        one = instance_making.draft(cluster, f"u{number}", wanted)
        if number == len(ROOMY.nodes):
            with pytest.raises(errors.Refused, match="no node has 2048 MiB free"):
                placing.place(cluster, one, placing.Wish(), by=by)
            return
        nodes = placing.place(cluster, one, placing.Wish(), by=by)
        cluster = changes.apply_all(cluster, instance_making.reserve(cluster, one, nodes), now=1.0)


def test_the_allocator_is_the_one_named_else_the_cluster_s_else_ours(tmp_path: Path) -> None:
    where = tree.Tree(tmp_path)
    where.allocators.mkdir(parents=True, mode=0o755)
    program = where.allocators / "hail"
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    assert isinstance(placing.chosen(ROOMY, "", where=where), allocator.Own)
    assert placing.chosen(ROOMY, "hail", where=where) == allocator_programs.Program(program)
    own = clusters.Parameters("c", "c1", "n1", default_iallocator="hail")
    named = clusters.Cluster(own, ROOMY.nodegroups, ROOMY.nodes)
    assert placing.chosen(named, "", where=where) == allocator_programs.Program(program)
    for name in ("other", "../hail", "a/b"):
        with pytest.raises(errors.InvalidInput, match="iallocator: there is no program"):
            placing.chosen(ROOMY, name, where=where)


def test_an_allocator_that_names_too_few_nodes_is_not_believed() -> None:
    class Odd:
        def decide(self, *_: object) -> allocator.Result:
            return allocator.Result((allocator.Placement("web", ("node1",)),))

    with pytest.raises(errors.InvalidInput, match="the allocator gives web the nodes node1, and it has 2"):
        placing.place(ROOMY, draft(), placing.Wish(), by=Odd())
