from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.plugins.plugin_utils.rounds import room, unfinished, work

from . import tables

if TYPE_CHECKING:
    from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters

TABLE = """
node1 16384 100000 own=1024
node2 16384 100000
node3 16384 100000
instance1 drbd 4096 10000 node1 node2
instance2 drbd 2048 10000 node1 node2 down
instance3 plain 1024 5000 node1
instance4 file 1024 3000 node1
instance5 sharedfile 512 90000 node1
instance6 drbd 2000 1000 node3 node2
"""


def test_free_memory_is_what_the_node_itself_and_its_running_primaries_leave() -> None:
    assert room.Room(tables.read(TABLE)).nodes["u-node1"].memory == 16384 - 1024 - 4096 - 1024 - 1024 - 512


def test_free_disk_is_what_all_copies_of_drbd_plain_and_file_leave() -> None:
    stands = room.Room(tables.read(TABLE))
    assert stands.nodes["u-node1"].disk == 100000 - 10000 - 10000 - 5000 - 3000
    assert stands.nodes["u-node2"].disk == 100000 - 10000 - 10000 - 1000


def test_reserved_memory_is_that_of_the_worst_single_failure() -> None:
    node2 = room.Room(tables.read(TABLE)).nodes["u-node2"]
    assert node2.reserved == {"u-node1": 4096, "u-node3": 2000}
    assert node2.peak == 4096


def test_the_reservation_sinks_to_the_next_worst_failure_when_an_instance_moves() -> None:
    cluster = tables.read(TABLE)
    stands = room.Room(cluster)
    stands.move(cluster.instance("instance1"), primary="u-node2", secondaries=("u-node3",))
    assert stands.nodes["u-node2"].peak == 2000
    assert stands.nodes["u-node3"].reserved["u-node2"] == 4096
    assert stands.nodes["u-node3"].peak == 4096


def test_an_old_primary_that_keeps_a_copy_survives_what_it_survived_before() -> None:
    cluster = tables.read("node1 4096 9\nnode2 9000 9\ninstance1 drbd 4096 1 node1 node2")
    stands = room.Room(cluster)
    stands.move(cluster.instance("instance1"), primary="u-node2", secondaries=("u-node1",))
    node1 = stands.nodes["u-node1"]
    assert (node1.memory, node1.spare, node1.reserved) == (0, 4096, {"u-node2": 4096})
    assert node1.deficits() == {}


def test_an_overfull_old_primary_that_keeps_a_copy_lacks_what_it_is_overfull_by() -> None:
    cluster = tables.read("node1 4000 9\nnode2 9000 9\ninstance1 drbd 4096 1 node1 node2")
    stands = room.Room(cluster)
    stands.move(cluster.instance("instance1"), primary="u-node2", secondaries=("u-node1",))
    assert stands.nodes["u-node1"].deficits() == {"u-node2": 96}


def test_what_a_move_frees_is_not_free() -> None:
    cluster = tables.read(TABLE)
    stands = room.Room(cluster)
    before = (stands.nodes["u-node1"].memory, stands.nodes["u-node1"].disk)
    stands.move(cluster.instance("instance1"), primary="u-node2", secondaries=("u-node3",))
    assert (stands.nodes["u-node1"].memory, stands.nodes["u-node1"].disk) == before


def test_a_move_takes_memory_at_the_new_primary_and_disk_at_the_new_secondary() -> None:
    cluster = tables.read(TABLE)
    stands = room.Room(cluster)
    stands.move(cluster.instance("instance1"), primary="u-node2", secondaries=("u-node3",))
    assert stands.nodes["u-node2"].memory == 16384 - 4096
    assert stands.nodes["u-node2"].disk == 79000
    assert stands.nodes["u-node3"].disk == 99000 - 10000
    assert stands.nodes["u-node3"].memory == 16384 - 2000


def test_what_needs_nothing_fits_on_an_overfull_node() -> None:
    cluster = tables.read("node1 1024 1000\ninstance1 sharedfile 2048 9 node1")
    node = room.Room(cluster).nodes["u-node1"]
    assert node.has_room(memory=0, disk=0)
    assert not node.has_room(memory=1, disk=0)


def test_an_instance_of_a_node_that_left_the_cluster_takes_no_room_there() -> None:
    stands = room.Room(tables.read("node1 4096 9000\ninstance1 drbd 1024 1000 node1 node7"))
    assert stands.nodes["u-node1"].memory == 3072
    assert [one.name for one in stands.held("u-node7")] == ["instance1"]


def _claims(cluster: clusters.Cluster, *opcodes: work.Opcode) -> unfinished.Claims:
    return unfinished.claims(cluster, [unfinished.Job(7, opcodes)])


def _copies(old: str, new: str) -> work.Opcode:
    return work.Opcode("replace_disks", {"instance": "u-instance1", "old": f"u-{old}", "new": f"u-{new}"})


def _migrates(source: str, target: str) -> work.Opcode:
    return work.Opcode("migrate", {"instance": "u-instance1", "source": f"u-{source}", "target": f"u-{target}"})


def test_what_an_unfinished_job_moves_takes_its_room_on_both_sides() -> None:
    cluster = tables.read(TABLE)
    bare = room.Room(cluster).nodes
    claims = _claims(cluster, _copies("node2", "node3"), _migrates("node1", "node3"), _copies("node1", "node2"))
    stands = room.Room(cluster, claims)
    assert [stands.nodes[f"u-node{k}"].memory - bare[f"u-node{k}"].memory for k in (1, 2, 3)] == [0, 0, -4096]
    assert [stands.nodes[f"u-node{k}"].disk - bare[f"u-node{k}"].disk for k in (1, 2, 3)] == [0, 0, -10000]
    assert stands.places == {"u-instance1": ("u-node3", ("u-node2",))}
    assert "u-instance1" in {one.uuid for one in stands.held("u-node3")}


def test_where_a_job_may_leave_an_instance_in_between_its_room_is_taken_too() -> None:
    cluster = tables.read(TABLE)
    stands = room.Room(cluster, _claims(cluster, _migrates("node1", "node2"), _copies("node1", "node3")))
    bare = room.Room(cluster).nodes
    assert stands.nodes["u-node2"].memory == bare["u-node2"].memory - 4096
    assert stands.nodes["u-node1"].returned == 4096, "it can start in its own memory again"
    assert stands.nodes["u-node3"].reserved == {"u-node2": 4096}
    assert stands.nodes["u-node2"].reserved == bare["u-node2"].reserved, "it may still be there when node1 fails"


def test_where_an_instance_only_runs_for_a_while_its_memory_is_taken_too() -> None:
    cluster = tables.read(TABLE)
    bare = room.Room(cluster).nodes
    claims = _claims(cluster, _migrates("node1", "node2"), _copies("node1", "node3"), _migrates("node2", "node3"))
    stands = room.Room(cluster, claims)
    assert [stands.nodes[f"u-node{k}"].memory - bare[f"u-node{k}"].memory for k in (1, 2, 3)] == [0, -4096, -4096]


def test_a_step_that_is_on_record_already_or_goes_to_a_node_that_left_takes_nothing_more() -> None:
    cluster = tables.read(TABLE)
    bare = room.Room(cluster)
    done = room.Room(cluster, _claims(cluster, _copies("node3", "node2"), _migrates("node2", "node1")))
    gone = room.Room(cluster, _claims(cluster, _migrates("node1", "node9")))
    for stands in (done, gone):
        assert {node.name: node.memory for node in stands.nodes.values()} == {
            node.name: node.memory for node in bare.nodes.values()
        }
