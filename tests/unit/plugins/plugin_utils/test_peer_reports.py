"""What the DRBD peers of a silent node report of it."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.replicas import Moment
from ansible_collections.roundsman.cluster.plugins.plugin_utils import peer_reports, replica_evidence
from ansible_collections.roundsman.cluster.plugins.plugin_utils.cluster import cluster as clusters
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes import dead_nodes, witnesses
from ansible_collections.roundsman.cluster.plugins.plugin_utils.silent_nodes.witnesses import Word

NODES = ("n1", "n2", "n3", "n4", "n5")
CONNECTED, LOST, GIVEN_UP = Connection.CONNECTED, Connection.CONNECTING, Connection.STANDALONE
SINCE = 1000.0
"""When n2 fell silent."""
LATER = SINCE + 60


def cluster_of(*pairs: tuple[str, str]) -> clusters.Cluster:
    """Instances i1, i2 … of these pairs, each with one replicated disk."""
    instances = {
        f"i{number}": clusters.Instance(
            f"i{number}", f"instance{number}", first, (second,), disk_template="drbd", disks=(clusters.Disk(1024),)
        )
        for number, (first, second) in enumerate(pairs, start=1)
    }
    return clusters.Cluster(
        clusters.Parameters("c", "c", "n1"),
        nodegroups={"g": clusters.Group("g", "default")},
        nodes={name: clusters.Node(name, name.replace("n", "node"), "g") for name in NODES},
        instances=instances,
    )


RING = cluster_of(("n1", "n2"), ("n2", "n3"), ("n3", "n4"), ("n4", "n5"))
"""n2 has the peers n1, which has no other, and n3, which has n4."""


def track(cluster: clusters.Cluster, connections: dict[str, Connection], *, at: float = LATER) -> replicas.NodeTrack:
    """A node that reports these connections of its replicas, by instance."""
    facts = [
        replicas.ReplicaFact(name, 0, Role.SECONDARY, connection, Disk.UP_TO_DATE, Disk.UNKNOWN)
        for instance, connection in connections.items()
        for name in replica_evidence.resources(cluster.instances[instance])
    ]
    return replicas.followed(None, replicas.NodeFacts("", tuple(facts)), at=Moment(at))


def words(
    cluster: clusters.Cluster,
    tracks: dict[str, replicas.NodeTrack],
    *,
    answering: tuple[str, ...] = ("n1", "n3", "n4", "n5"),
    old: tuple[str, ...] = (),
    moving: tuple[str, ...] = (),
    mute: tuple[str, ...] = (),
) -> dict[str, witnesses.Peer]:
    """By peer (name) its word of n2."""
    silences = {"n2": dead_nodes.Silence(5, SINCE)}
    current = set(answering) - set(old)
    found = peer_reports.words(
        cluster, tracks, silences, answering=answering, current=current, moving=moving, mute={"n2": mute}
    )
    return {peer.name: peer for peer in found.get("n2", [])}


def test_a_peer_says_whether_it_is_connected_and_whether_it_reaches_and_should_reach_others() -> None:
    told = words(RING, {"n1": track(RING, {"i1": LOST}), "n3": track(RING, {"i2": LOST, "i3": CONNECTED})})
    assert told == {
        "node1": witnesses.Peer("node1", Word.LOST, LATER),
        "node3": witnesses.Peer("node3", Word.LOST, LATER, reaches=True, has_third=True),
    }
    told = words(RING, {"n1": track(RING, {"i1": CONNECTED}), "n3": track(RING, {"i2": LOST, "i3": LOST})})
    assert told == {
        "node1": witnesses.Peer("node1", Word.CONNECTED, LATER),
        "node3": witnesses.Peer("node3", Word.LOST, LATER, has_third=True),
    }


def test_a_third_node_that_does_not_answer_itself_is_none() -> None:
    told = words(RING, {"n3": track(RING, {"i2": LOST, "i3": LOST})}, answering=("n3", "n5"))
    assert told == {"node3": witnesses.Peer("node3", Word.LOST, LATER)}


def test_one_connected_volume_of_many_is_a_connection() -> None:
    cluster = cluster_of(("n2", "n3"), ("n3", "n2"), ("n3", "n4"))
    told = words(cluster, {"n3": track(cluster, {"i1": LOST, "i2": CONNECTED, "i3": CONNECTED})})
    assert told["node3"].word is Word.CONNECTED


def test_a_peer_that_lost_it_right_before_it_missed_a_question_speaks_of_the_same_fault() -> None:
    for seconds, word in ((0.0, Word.LOST), (29.0, Word.LOST), (30.0, Word.UNKNOWN)):
        tracks = {"n3": track(RING, {"i2": LOST, "i3": CONNECTED}, at=SINCE - seconds)}
        assert words(RING, tracks, answering=("n3", "n4"))["node3"].word is word


@pytest.mark.parametrize(("said", "before"), [(CONNECTED, 0.0), (LOST, 30.0)])
def test_a_report_from_before_the_silence_says_nothing_and_neither_does_none(said: Connection, before: float) -> None:
    for tracks, old in (
        ({"n3": track(RING, {"i2": said, "i3": CONNECTED}, at=SINCE - before)}, ()),
        ({"n3": track(RING, {"i2": said, "i3": CONNECTED})}, ("n3",)),
        ({}, ()),
    ):
        peer = words(RING, tracks, answering=("n3", "n4"), old=old)["node3"]
        assert peer.word is Word.UNKNOWN
        assert peer.why == (
            "node3 has not reported since node2 fell silent, so whether it is connected to it is not known"
        )


def test_a_report_without_facts_says_nothing() -> None:
    bare = replicas.followed(track(RING, {"i2": LOST}), replicas.NodeFacts(), at=Moment(LATER))
    peer = words(RING, {"n3": bare}, answering=("n3",))["node3"]
    assert (peer.word, peer.why) == (Word.UNKNOWN, "the report of node3 does not say whether it is connected to node2")


def test_a_peer_with_a_shared_resource_that_it_cannot_read_may_be_connected() -> None:
    cluster = cluster_of(("n2", "n3"), ("n3", "n2"), ("n3", "n4"))
    (own,), (foreign,) = (replica_evidence.resources(cluster.instances[name]) for name in ("i2", "i3"))
    lost = track(cluster, {"i1": LOST})
    peer = words(cluster, {"n3": dataclasses.replace(lost, unread={own: "it has 2 peers"})})["node3"]
    assert (peer.word, peer.why) == (
        Word.UNKNOWN,
        f"node3 cannot read its resource {own} (it has 2 peers), so whether it is connected to node2 is not known",
    )
    assert peer.cure == f"{own} readable on node3 again (run `drbdsetup status {own}` there)"
    assert witnesses.judge([peer]).cure == peer.cure
    told = words(cluster, {"n3": dataclasses.replace(lost, unread={foreign: ""})})
    assert told == {"node3": witnesses.Peer("node3", Word.LOST, LATER, has_third=True)}, "it may not reach node4"


def test_a_sure_connection_counts_though_another_shared_resource_cannot_be_read() -> None:
    cluster = cluster_of(("n2", "n3"), ("n3", "n2"))
    (own,) = replica_evidence.resources(cluster.instances["i2"])
    lives = dataclasses.replace(track(cluster, {"i1": CONNECTED}), unread={own: "it has 2 peers"})
    assert words(cluster, {"n3": lives})["node3"].word is Word.CONNECTED
    assert words(cluster, {"n3": lives}, moving=("i1",))["node3"].word is Word.UNKNOWN, "that may be to another node"


def test_a_peer_that_is_still_connected_right_after_may_not_have_noticed_yet() -> None:
    for seconds, word in ((1, Word.UNKNOWN), (20, Word.UNKNOWN), (21, Word.CONNECTED)):
        peer = words(RING, {"n1": track(RING, {"i1": CONNECTED}, at=SINCE + seconds)}, answering=("n1",))["node1"]
        assert peer.word is word
        assert ("DRBD notices a loss of power up to 20 s late" in peer.why) is (word is Word.UNKNOWN)


def test_a_peer_that_does_not_answer_or_has_no_replica_up_or_waits_for_no_peer_is_no_witness() -> None:
    lost = {"n3": track(RING, {"i2": LOST, "i3": CONNECTED})}
    assert words(RING, lost, answering=("n1", "n4"))["node1"].word is Word.UNKNOWN
    assert "node3" not in words(RING, lost, answering=("n1", "n4"))
    assert words(RING, {"n3": track(RING, {"i3": CONNECTED})}, answering=("n3", "n4")) == {}
    assert words(RING, {"n3": track(RING, {"i2": GIVEN_UP, "i3": CONNECTED})}, answering=("n3", "n4")) == {}
    plain = dataclasses.replace(
        RING, instances={uuid: dataclasses.replace(one, disk_template="plain") for uuid, one in RING.instances.items()}
    )
    assert words(plain, lost) == {}


def test_while_disks_are_moved_or_replaced_a_connection_may_be_to_another_node() -> None:
    left = clusters.LeftBehind("n5", RING.instances["i2"], 900.0, is_new=True)
    made = dataclasses.replace(RING, maintenance=clusters.Maintenance(left_behind=(left,)))
    for cluster, moving in ((RING, ("i2",)), (made, ())):
        for connection, word in ((CONNECTED, Word.UNKNOWN), (LOST, None)):
            told = words(
                cluster, {"n3": track(cluster, {"i2": connection, "i3": CONNECTED})}, answering=("n3",), moving=moving
            )
            assert (told["node3"].word if told else None) is word
    told = words(RING, {"n3": track(RING, {"i2": LOST, "i3": CONNECTED})}, answering=("n3", "n4"), moving=("i3",))
    assert told == {"node3": witnesses.Peer("node3", Word.LOST, LATER, has_third=True)}, "it may not reach node4"


def test_a_peer_whose_reports_do_not_count_for_long_is_mute_and_one_that_is_heard_again_is_not() -> None:
    mute, alive, silences = peer_reports.Mute(), {"n1", "n3"}, {"n2": dead_nodes.Silence(5, SINCE)}
    late = peer_reports.MUTE_AFTER + 1
    assert mute.among(silences, alive, {"n1"}, now=100.0) == {}
    assert mute.among(silences, alive, {"n1"}, now=99.0 + late) == {}
    assert mute.among(silences, alive, {"n1"}, now=100.0 + late) == {"n2": {"n3"}}
    assert mute.among(silences, alive, alive, now=800.0)["n2"] == set()
    assert mute.among(silences, alive, {"n1"}, now=801.0)["n2"] == set()
    assert mute.among(silences, {"n1"}, {"n1"}, now=1000.0)["n2"] == set(), "it does not answer"
    assert mute.among(silences, alive, {"n1"}, now=1500.0)["n2"] == set()


def test_a_peer_is_mute_by_the_silence_of_each_node_and_not_by_an_earlier_one() -> None:
    mute, late = peer_reports.Mute(), peer_reports.MUTE_AFTER + 1
    first, second = {"n2": dead_nodes.Silence(5, SINCE)}, {"n4": dead_nodes.Silence(5, SINCE)}
    assert mute.among(first, {"n3"}, (), now=0.0) == {}
    assert mute.among({**first, **second}, {"n3"}, (), now=late) == {"n2": {"n3"}}
    assert mute.among({**first, **second}, {"n3"}, (), now=2 * late) == {"n2": {"n3"}, "n4": {"n3"}}
    again = {"n2": dead_nodes.Silence(1, SINCE + 900), **second}
    assert mute.among(again, {"n3"}, (), now=2 * late + 1) == {"n4": {"n3"}}


def test_a_peer_is_mute_only_where_no_report_of_it_counts() -> None:
    tracks = {"n1": track(RING, {"i1": LOST}), "n3": track(RING, {"i2": LOST, "i3": CONNECTED})}
    told = words(RING, tracks, old=("n1",), mute=("n1", "n3"))
    assert (told["node1"].word, told["node1"].is_mute) == (Word.UNKNOWN, True)
    assert (told["node3"].word, told["node3"].is_mute) == (Word.LOST, False)
    assert not words(RING, tracks, old=("n1",))["node1"].is_mute
