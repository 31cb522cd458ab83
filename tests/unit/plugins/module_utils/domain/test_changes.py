from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import (
    changes,
    dead_nodes,
    errors,
    membership,
    tagging,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import cluster as clusters

from tests.unit import small_cluster

CLUSTER = small_cluster.make()
EVERY: list[changes.Change] = [
    changes.InstanceNodes("i1", "n3", ("n10",)),
    changes.InstanceState("i1", "down"),
    changes.NodeRole("n3", drained=True, offline=False, master_candidate=False),
    changes.NodePowered("n3", powered=False),
    tagging.Tagged("cluster", "", "new", present=True),
    tagging.Tagged("group", "g1", "new", present=True),
    tagging.Tagged("node", "node2", "rack:1", present=False),
    tagging.Tagged("instance", "i1", "new", present=True),
    changes.IncidentStands(dataclasses.replace(small_cluster.INCIDENT, reason="other")),
    changes.IncidentStands(dataclasses.replace(small_cluster.INCIDENT, uuid="bbbb")),
    changes.IncidentForgotten("aaaa-1"),
    changes.RoundStands(4, (9,)),
    changes.SettingsStand(clusters.Settings(paused="tea")),
]


def objects(cluster: clusters.Cluster) -> dict[str, tuple[int, float]]:
    found: list[clusters.Object] = [
        cluster.cluster,
        *cluster.nodegroups.values(),
        *cluster.nodes.values(),
        *cluster.instances.values(),
    ]
    dated = {one.uuid: (one.serial_no, one.mtime) for one in found}
    return {**dated, "maintenance": (cluster.maintenance.serial_no, cluster.maintenance.mtime)}


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_counts_once_on_its_object_and_on_the_whole(change: changes.Change) -> None:
    after = changes.apply(CLUSTER, change, now=99.0)
    assert (after.serial_no, after.mtime) == (6, 99.0)
    touched = {uuid for uuid, dated in objects(after).items() if objects(CLUSTER)[uuid] != dated}
    assert len(touched) == 1
    assert objects(after)[touched.pop()] == (2, 99.0)


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_that_is_true_already_changes_nothing(change: changes.Change) -> None:
    once = changes.apply(CLUSTER, change, now=99.0)
    assert changes.apply(once, change, now=100.0) is once


def test_the_last_of_several_changes_stands() -> None:
    stated: list[changes.Change] = [changes.InstanceNodes("i1", "n3", ()), changes.InstanceNodes("i1", "n2", ("n10",))]
    found = changes.apply_all(CLUSTER, stated, now=9.0).instances["i1"]
    assert (found.primary_node, found.secondary_nodes, found.serial_no) == ("n2", ("n10",), 3)


def test_an_incident_keeps_its_place_when_it_changes() -> None:
    second = dataclasses.replace(small_cluster.INCIDENT, uuid="bbbb")
    first = dataclasses.replace(small_cluster.INCIDENT, reason="why")
    stated: list[changes.Change] = [changes.IncidentStands(second), changes.IncidentStands(first)]
    assert changes.apply_all(CLUSTER, stated, now=9.0).maintenance.incidents == (first, second)


@pytest.mark.parametrize(
    "change",
    [
        changes.InstanceNodes("i9", "n2"),
        changes.InstanceNodes("i1", "n9"),
        changes.InstanceNodes("i1", "n2", ("n9",)),
        changes.InstanceState("i9", "up"),
        changes.NodeRole("n9", drained=True, offline=False, master_candidate=False),
        changes.NodePowered("n9", powered=True),
        tagging.Tagged("group", "g9", "t", present=True),
        tagging.Tagged("node", "n9", "t", present=True),
        tagging.Tagged("instance", "i9", "t", present=True),
    ],
    ids=str,
)
def test_an_unknown_object_is_refused(change: changes.Change) -> None:
    with pytest.raises(errors.NotFound, match="9"):
        changes.apply(CLUSTER, change, now=1.0)


@pytest.mark.parametrize(
    "change",
    [
        changes.InstanceNodes("inst1", "n3"),
        changes.InstanceNodes("i1", "node3"),
        changes.InstanceState("inst1", "down"),
        changes.NodePowered("node3", powered=False),
    ],
    ids=str,
)
def test_a_name_where_a_uuid_belongs_is_refused_and_never_stored(change: changes.Change) -> None:
    with pytest.raises(errors.NotFound, match="UUID"):
        changes.apply(CLUSTER, change, now=1.0)


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="admin_state 'paused'"):
        changes.apply(CLUSTER, changes.InstanceState("i1", "paused"), now=1.0)


def test_a_node_is_off_since_it_was_first_known_to_be_and_anew_after_a_sign_of_life() -> None:
    off, lived = changes.NodePowered("n2", powered=False), changes.NodeLived("n2")

    def after(*stated: tuple[float, changes.Change]) -> tuple[float, float]:
        cluster = CLUSTER
        for now, change in stated:
            cluster = changes.apply(cluster, change, now=now)
        node = cluster.node("n2")
        return dead_nodes.seen_off(node), node.alive_at

    assert after(
        (5.0, off), (7.0, off), (8.0, changes.NodeRole("n2", drained=True, offline=True, master_candidate=False))
    ) == (
        5.0,
        0.0,
    )
    assert after((5.0, off), (6.0, lived), (7.0, off)) == (7.0, 6.0)
    assert after((5.0, lived), (5.0, off)) == (5.0, 5.0), "it was on, and was powered off"
    assert after((5.0, off), (6.0, changes.NodePowered("n2", powered=True))) == (0.0, 0.0)
    assert after((5.0, changes.NodeOffConfirmed("n2", 4.5)), (6.0, off)) == (4.5, 0.0)
    assert (
        after((5.0, off), (6.0, changes.NodeOffConfirmed("n2", 6.0)), (7.0, changes.NodeOffConfirmed("n2", 0.0)))[0]
        == 5.0
    )
    assert after((5.0, changes.NodeOffConfirmed("n2", 5.0)), (7.0, changes.NodeOffConfirmed("n2", 0.0)))[0] == 0.0


def test_what_is_confirmed_after_the_clock_was_set_back_comes_after_the_signs_of_life_before_that() -> None:
    lived = changes.apply(CLUSTER, changes.NodeLived("n2"), now=3600.0)
    off = changes.apply(lived, changes.NodePowered("n2", powered=False), now=10.0).node("n2")
    assert (dead_nodes.is_known_off(off), off.off_since, off.alive_at) == (True, 3600.0, 3600.0), "the later one counts"
    stated = changes.apply(lived, changes.NodeOffConfirmed("n2", 9.5), now=10.0).node("n2")
    assert (dead_nodes.is_stated_off(stated), dead_nodes.is_known_off(stated)) == (True, True)
    assert stated.off_confirmed == 9.5, "what ends it is dated by the same clock"


@pytest.mark.parametrize("by_person", [False, True], ids=["by its BMC", "by a person"])
@pytest.mark.parametrize("ahead", ["sign of life", "confirmation"])
def test_a_sign_of_life_after_the_clock_was_set_back_counts_at_once(ahead: str, *, by_person: bool) -> None:
    def confirmed(cluster: clusters.Cluster, now: float) -> clusters.Cluster:
        stated = changes.NodeOffConfirmed("n2", now) if by_person else changes.NodePowered("n2", powered=False)
        return changes.apply(cluster, stated, now=now)

    before = changes.apply(CLUSTER, changes.NodeLived("n2"), now=3600.0 if ahead == "sign of life" else 5.0)
    off = confirmed(before, 10.0 if ahead == "sign of life" else 3600.0)
    assert dead_nodes.is_known_off(off.node("n2"))
    lived = changes.apply(off, changes.NodeLived("n2", at=15.0), now=20.0)
    node = lived.node("n2")
    assert (dead_nodes.has_lived(node), dead_nodes.is_stated_off(node)) == (True, False)
    assert 3600.0 < node.alive_at < 3600.1, "never pulled back, and no further than needed"
    again = confirmed(lived, 30.0)
    assert dead_nodes.is_known_off(again.node("n2"))
    assert dead_nodes.has_lived(changes.apply(again, changes.NodeLived("n2"), now=40.0).node("n2"))


@pytest.mark.parametrize("ahead", [0.0, 3600.0], ids=["", "after the clock was ahead"])
def test_the_sign_of_life_that_a_statement_ended_stands_again_when_it_is_taken_back(ahead: float) -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n2", powered=False), now=5.0)
    lived = changes.apply(off, changes.NodeLived("n2"), now=6.0 + ahead)
    stated = changes.apply(lived, changes.NodeOffConfirmed("n2", 7.0), now=7.0)
    assert dead_nodes.is_known_off(stated.node("n2"))
    node = changes.apply(stated, changes.NodeOffConfirmed("n2", 0.0), now=8.0).node("n2")
    assert (node.powered, dead_nodes.has_lived(node), dead_nodes.is_known_off(node)) == (False, True, False)
    again = changes.apply(stated, changes.NodePowered("n2", powered=True), now=8.0)
    assert dead_nodes.seen_off(changes.apply(again, changes.NodeOffConfirmed("n2", 0.0), now=9.0).node("n2")) == 0.0


@pytest.mark.parametrize("powered_off", [True, False], ids=["by its BMC", "on record"])
def test_a_statement_that_a_sign_of_life_has_ended_does_not_count_again_when_the_power_is_recorded(
    *, powered_off: bool
) -> None:
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 5.0), now=5.0)
    lived = changes.apply(stated, changes.NodeLived("n2"), now=6.0)
    corrected = membership.NodeStands(dataclasses.replace(lived.node("n2"), powered=False))
    off = changes.NodePowered("n2", powered=False) if powered_off else corrected
    node = changes.apply(lived, off, now=7.0).node("n2")
    assert (dead_nodes.is_known_off(node), dead_nodes.is_stated_off(node)) == (True, False)


def test_a_person_who_records_a_node_as_on_takes_back_every_statement_that_it_is_off() -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n2", powered=False), now=5.0)
    stated = changes.apply(off, changes.NodeOffConfirmed("n2", 6.0), now=6.0)
    on = membership.NodeStands(dataclasses.replace(stated.node("n2"), powered=True))
    node = changes.apply(stated, on, now=7.0).node("n2")
    assert (node.powered, node.off_confirmed, dead_nodes.is_off(node)) == (True, 0.0, False)


def test_a_statement_that_a_sign_of_life_overtook_does_not_count() -> None:
    lived = changes.apply(CLUSTER, changes.NodeLived("n2"), now=9.8)
    stated = changes.apply(lived, changes.NodeOffConfirmed("n2", 9.5), now=10.0).node("n2")
    assert (dead_nodes.is_stated_off(stated), dead_nodes.has_lived(stated)) == (False, True)


def test_a_sign_of_life_is_dated_when_it_was_and_never_after_its_record() -> None:
    def alive_at(*times: float) -> float:
        cluster = CLUSTER
        for at in times:
            cluster = changes.apply(cluster, changes.NodeLived("n2", at=at), now=9.0)
        return cluster.node("n2").alive_at

    assert [alive_at(0.0), alive_at(5.0), alive_at(12.0), alive_at(6.0, 5.0)] == [9.0, 5.0, 9.0, 6.0]


def test_a_person_who_corrects_the_record_of_a_nodes_power_states_it_now() -> None:
    off = dataclasses.replace(CLUSTER.node("n2"), offline=True, powered=False)
    known = changes.apply(CLUSTER, membership.NodeStands(off), now=5.0)
    assert dead_nodes.seen_off(known.node("n2")) == 5.0
    renamed = dataclasses.replace(known.node("n2"), name="other")
    assert changes.apply(known, membership.NodeStands(renamed), now=9.0).node("n2").off_since == 5.0


def test_what_a_person_corrects_of_a_node_that_lived_since_it_was_known_to_be_off_leaves_that_as_it_is() -> None:
    off = changes.apply(CLUSTER, changes.NodePowered("n2", powered=False), now=5.0)
    lived = changes.apply(off, changes.NodeLived("n2"), now=6.0)
    renamed = dataclasses.replace(lived.node("n2"), name="other")
    node = changes.apply(lived, membership.NodeStands(renamed), now=9.0).node("n2")
    assert (node.off_since, dead_nodes.has_lived(node)) == (5.0, True)


def test_no_other_change_of_a_node_says_again_that_it_is_off() -> None:
    """Of one that was recorded off before that moment was kept, too."""
    off = clusters.with_node(CLUSTER, dataclasses.replace(CLUSTER.node("n2"), powered=False, mtime=1000.0))
    read = dead_nodes.with_off_since(off)
    assert dead_nodes.seen_off(read.node("n2")) == 1000.0
    drained = changes.NodeRole("n2", drained=True, offline=False, master_candidate=False)
    for cluster in (off, read):
        lived = changes.apply(cluster, changes.NodeLived("n2"), now=2000.0)
        assert dead_nodes.has_lived(changes.apply(lived, drained, now=3000.0).node("n2"))


def test_a_reading_of_off_confirms_nothing_of_a_node_that_lived_since_it_was_known_to_be_off() -> None:
    read = changes.NodePowered("n2", powered=False, confirms=False)
    off = changes.apply(CLUSTER, read, now=5.0)
    assert dead_nodes.seen_off(off.node("n2")) == 5.0
    lived = changes.apply(off, changes.NodeLived("n2"), now=6.0)
    assert changes.apply(lived, read, now=7.0) is lived
    stated = changes.apply(CLUSTER, changes.NodeOffConfirmed("n2", 5.0), now=5.0)
    doubted = changes.apply(changes.apply(stated, changes.NodeLived("n2"), now=6.0), read, now=7.0).node("n2")
    assert (doubted.powered, doubted.off_since, dead_nodes.has_lived(doubted)) == (False, 5.0, True)
    on = changes.NodePowered("n2", powered=True, confirms=False)
    assert not dead_nodes.is_off(changes.apply(lived, on, now=7.0).node("n2"))


HELD = ("00000000000000a0",)
PAIR = clusters.with_instance(CLUSTER, dataclasses.replace(CLUSTER.instance("i1"), disks=(clusters.Disk(64),)))
MAKING = changes.ReplicaLeft("i1", "n10", present=True, is_new=True, generations=HELD)


def held(*stated: changes.Change, cluster: clusters.Cluster = PAIR) -> tuple[str, ...]:
    """What is known of the generations of i1's secondary after some changes."""
    return clusters.judged_generations(changes.apply_all(cluster, list(stated), now=9.0), "i1")


def test_the_generations_that_a_replacement_judged_stay_on_record_while_it_has_not_ended() -> None:
    without = dataclasses.replace(MAKING, generations=())
    other = dataclasses.replace(MAKING, generations=("00000000000000b0",))
    assert held() == held(without) == ()
    assert held(MAKING) == held(MAKING, without) == held(without, MAKING) == held(other, MAKING) == HELD
    once = changes.apply(PAIR, MAKING, now=9.0)
    for again in (MAKING, without):
        assert changes.apply(once, again, now=10.0) is once
    elsewhere = dataclasses.replace(without, node="n1")
    assert held(MAKING, elsewhere) == HELD, "a replacement to a third node did not ask the secondary"
    # Whoever looks for the instance after a replacement that broke off records the same nodes.
    assert held(MAKING, changes.InstanceNodes("i1", "n2", ("n3",))) == HELD


@pytest.mark.parametrize(
    "end",
    [
        # A failover, also one that ignores whether the replica is in sync, and the way back.
        [changes.InstanceNodes("i1", "n3", ("n2",))],
        [changes.InstanceNodes("i1", "n3", ("n2",)), changes.InstanceNodes("i1", "n2", ("n3",))],
        [changes.InstanceNodes("i1", "n2", ("n10",))],
        [changes.InstanceNodes("i1", "n2", ("n1",))],
        [changes.ReplicaLeft("i1", "n10", present=False)],
        [changes.ReplicaLeft("i1", "n10", present=True)],
        [changes.ReplicaLeft("i1", "n10", present=True), dataclasses.replace(MAKING, generations=())],
        [membership.InstanceGone("i1")],
        [membership.NodeGone("n10")],
    ],
    ids=str,
)
def test_no_generation_counts_once_the_replacement_ended_or_the_nodes_changed(end: list[changes.Change]) -> None:
    assert held(MAKING, *end) == ()
    after = changes.apply_all(PAIR, [MAKING, *end], now=9.0)
    assert not [left for left in after.maintenance.left_behind if left.generations and "i1" in after.instances]


def test_generations_of_other_nodes_than_those_of_record_do_not_count() -> None:
    made = changes.apply(PAIR, MAKING, now=9.0)
    moved = dataclasses.replace(made.instance("i1"), primary_node="n3", secondary_nodes=("n2",))
    assert held(membership.InstanceStands(moved), cluster=made) == ()


@pytest.mark.parametrize(
    "stated",
    [HELD * 2, ("a0",), ("00000000000000A0",), ("0x000000000000a0",), ("00000000000000a0\n",), ("00000000000000g0",)],
)
def test_what_a_node_says_instead_of_a_generation_is_left_out_and_the_replica_recorded(stated: tuple[str, ...]) -> None:
    wrong = dataclasses.replace(MAKING, generations=stated)
    after = changes.apply(PAIR, wrong, now=9.0)
    assert [(left.node, left.generations) for left in clusters.being_made(after, "i1")] == [("n10", ())]
    assert held(MAKING, wrong) == HELD
    assert held(dataclasses.replace(MAKING, is_new=False)) == ()
