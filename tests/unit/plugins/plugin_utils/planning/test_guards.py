from __future__ import annotations

import dataclasses

from ansible_collections.roundsman.cluster.plugins.plugin_utils.planning import guards

from . import tables

EIGHT = "\n".join(f"node{k} 9000 9000" for k in range(1, 9))
THREE = "\n".join(f"incident a{k} node{k} evacuate noted 100" for k in range(1, 4))


def _storm(table: str) -> bool:
    cluster = tables.read(table)
    return guards.storm(cluster, cluster.maintenance.incidents[0]) is not None


def test_a_pause_holds_everybody_with_its_text() -> None:
    cluster = tables.read("node1 9 9\nincident a1 node1 live-repair noted 1\nsettings paused=audit")
    refusal = guards.paused(cluster, cluster.maintenance.incidents[0])
    assert refusal is not None
    assert (refusal.subject, refusal.reason, refusal.permanent) == (
        "node1",
        "maintenance is paused: audit",
        False,
    )


def test_without_a_text_nothing_is_paused() -> None:
    cluster = tables.read("node1 9 9\nincident a1 node1 live-repair noted 1")
    assert guards.paused(cluster, cluster.maintenance.incidents[0]) is None


def test_three_of_eight_nodes_asking_are_a_storm_and_the_cure_is_named() -> None:
    cluster = tables.read(f"{EIGHT}\n{THREE}")
    refusal = guards.storm(cluster, cluster.maintenance.incidents[0])
    assert refusal is not None
    assert refusal.reason == "storm: 3 of 8 nodes ask for evacuation; the fault may be elsewhere"
    assert refusal.unblock == "at most 2 nodes asking: cancel incidents, or raise storm_fraction or storm_minimum"
    assert (refusal.subject, refusal.incident, refusal.permanent) == ("node1", "a1", False)


def test_a_fraction_that_is_reached_but_not_exceeded_is_no_storm() -> None:
    twelve = EIGHT + "".join(f"\nnode{k} 9 9" for k in range(9, 13))
    assert not _storm(f"{twelve}\n{THREE}")
    assert _storm(f"{twelve.replace('node12 9 9', '')}\n{THREE}")


def test_fewer_nodes_than_the_minimum_are_no_storm() -> None:
    assert not _storm(f"node1 9 9\nnode2 9 9\n{THREE.rsplit(chr(10), 1)[0]}")


def test_a_node_that_asks_twice_counts_once() -> None:
    assert not _storm(f"{EIGHT}\n{THREE.replace('node3', 'node2')}")


def test_live_repairs_and_finished_incidents_ask_for_no_evacuation() -> None:
    assert not _storm(f"{EIGHT}\n{THREE.replace('a3 node3 evacuate', 'a3 node3 live-repair')}")
    assert not _storm(f"{EIGHT}\n{THREE.replace('a3 node3 evacuate noted', 'a3 node3 evacuate failed')}")


def test_offline_and_incapable_nodes_do_not_count_among_all_unless_they_ask() -> None:
    many = EIGHT + "".join(f"\nnode{k} 9 9 offline\nnode{k + 10} 9 9 incapable" for k in range(9, 13))
    assert _storm(f"{many}\n{THREE}")
    asking_offline = many.replace("node1 9000 9000", "node1 9000 9000 offline")
    cluster = tables.read(f"{asking_offline}\n{THREE}")
    refusal = guards.storm(cluster, cluster.maintenance.incidents[0])
    assert refusal is not None
    assert "3 of 8" in refusal.reason


def test_the_limits_are_settings() -> None:
    assert not _storm(f"{EIGHT}\n{THREE}\nsettings storm_minimum=4")
    assert not _storm(f"{EIGHT}\n{THREE}\nsettings storm_fraction=0.5")


def test_an_evacuation_that_is_at_work_holds_the_others_back_even_when_it_is_canceled() -> None:
    cluster = tables.read(
        "node1 9 9\nnode2 9 9\nincident a1 node1 evacuate canceled 1\nincident b1 node2 evacuate noted 2"
    )
    second = cluster.maintenance.incidents[1]
    refusal = guards.at_work(cluster, second, unfinished={"a1": True})
    assert refusal is not None
    assert refusal.reason == "waits: the evacuation of node1 (incident a1) has unfinished jobs"
    assert guards.at_work(cluster, second, unfinished={"a1": False}) is None


def test_a_live_repair_at_work_uses_no_room_and_holds_nobody_back() -> None:
    cluster = tables.read(
        "node1 9 9\nnode2 9 9\nincident a1 node1 live-repair pending 1\nincident b1 node2 evacuate noted 2"
    )
    assert guards.at_work(cluster, cluster.maintenance.incidents[1], unfinished={"a1": True}) is None


def test_a_node_that_left_the_cluster_asks_for_nothing() -> None:
    cluster = tables.read(f"{EIGHT}\n{THREE}")
    nodes = {uuid: one for uuid, one in cluster.nodes.items() if uuid != "u-node3"}
    left = dataclasses.replace(cluster, nodes=nodes)
    assert guards.storm(left, left.maintenance.incidents[0]) is None
