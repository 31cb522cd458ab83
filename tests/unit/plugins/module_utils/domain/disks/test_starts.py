from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import starts
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.replacements import Node, Replica

BEFORE = Generation(0x10)
OURS, THEIRS = Generation(0x20, bitmap=0x10), Generation(0x30, bitmap=0x10)
ALONE = Replica("Secondary, Connecting, UpToDate/DUnknown", "UpToDate", role="Secondary", generation=BEFORE)
TOGETHER = dataclasses.replace(
    ALONE, text="Secondary, Connected, UpToDate/UpToDate", peer_disk="UpToDate", is_connected=True
)


def refusal(mine: Replica, other: Replica, *, discards: bool = False) -> str:
    primary, peer = Node("node1", (ALONE, mine)), Node("node2", (ALONE, other))
    return starts.objection("web1", primary, peer, discards=discards)


@pytest.mark.parametrize(
    "peer",
    [
        Node("node2", None, "the kernel has no DRBD"),
        Node("node2", ()),
        Node("node2", (ALONE,)),
        Node("node2", (ALONE, dataclasses.replace(ALONE, generation=None))),
        Node("node2", (ALONE, dataclasses.replace(ALONE, role=""))),
    ],
    ids=["no answer", "no replica", "one of two", "no generation", "down"],
)
def test_a_peer_that_may_have_run_the_instance_has_to_say_what_its_replicas_have(peer: Node) -> None:
    primary = Node("node1", (ALONE, ALONE))
    text = starts.objection("web1", primary, peer, peer_may_have_run_it=True)
    assert "a migration may have taken web1 to node2, whose replica cannot be compared with the one on node1 (" in text
    assert "run `roundsman node power off node2 --force`, then retry" in text
    assert peer.why in text
    assert "()" not in text
    assert starts.objection("web1", primary, peer, peer_may_have_run_it=True, discards=True) == ""


def test_a_peer_that_may_have_run_the_instance_hinders_nothing_once_it_was_compared() -> None:
    for mine, other in ((ALONE, ALONE), (TOGETHER, dataclasses.replace(TOGETHER, generation=None))):
        primary, peer = Node("node1", (ALONE, mine)), Node("node2", (ALONE, other))
        assert starts.objection("web1", primary, peer, peer_may_have_run_it=True) == ""
    primary, peer = Node("node1", (ALONE, ALONE)), Node("node2", (ALONE, replica(THEIRS)))
    assert "is older than the one on node2" in starts.objection("web1", primary, peer, peer_may_have_run_it=True)


def replica(generation: Generation | None, disk: str = "UpToDate") -> Replica:
    return dataclasses.replace(ALONE, generation=generation, disk=disk)


@pytest.mark.parametrize("disk", ["UpToDate", "Outdated", "Consistent"])
def test_the_older_replica_is_not_started_and_the_text_says_what_helps(disk: str) -> None:
    text = refusal(ALONE, replica(THEIRS, disk))
    assert (
        "the replica of web1 on node1 (Secondary, Connecting, UpToDate/DUnknown) is older than the one on node2" in text
    )
    assert "`roundsman instance repair-disks web1`" in text
    assert "`roundsman instance failover web1 --ignore-consistency`. " in text
    assert "replace-disks" not in text


def test_replicas_without_data_in_common_are_for_a_person() -> None:
    text = refusal(ALONE, replica(Generation(0x40)))
    assert "has no data in common with the one on node2" in text
    assert "repair-disks" not in text, "DRBD refuses to connect them"
    assert "replace-disks" not in text


def test_a_replica_is_started_that_went_on_from_the_other_though_drbd_would_not_connect_the_two() -> None:
    # The history keeps the identifier of the resync to another node, which followed the generation of the other one.
    went_on = Generation(0x20, 0, (0x50, 0x10 + 0x0001000000000000))
    assert refusal(replica(went_on), replica(BEFORE)) == ""
    text = refusal(replica(BEFORE), replica(went_on))
    assert "is older than the one on node2" in text
    assert "repair-disks" not in text, "DRBD refuses to connect them"
    assert "--ignore-consistency`, and then `roundsman instance replace-disks web1 --to node1`, because" in text


@pytest.mark.parametrize("theirs", [THEIRS, Generation(0x40)])
def test_who_knows_that_the_primary_is_right_is_told_how_to_start_it(theirs: Generation) -> None:
    text = refusal(ALONE, replica(theirs))
    assert "on node1 on purpose, run `roundsman instance start web1 --discard node2`, which gives up" in text
    assert "run `roundsman instance failover web1 --ignore-consistency`" in text
    assert refusal(ALONE, replica(theirs), discards=True) == ""


def test_where_both_were_written_since_they_parted_nothing_starts_until_a_person_names_the_side_that_is_lost() -> None:
    mine = dataclasses.replace(replica(OURS), out_of_sync=8, alone=312.4)
    text = refusal(mine, dataclasses.replace(replica(THEIRS), out_of_sync=4096))
    assert text == (
        "both replicas of web1 were written since they disconnected, the one on node1 (Secondary, Connecting, "
        "UpToDate/DUnknown; 8 KiB differ; last seen in sync 312 s ago), and the one on node2 (Secondary, Connecting, "
        "UpToDate/DUnknown; 4096 KiB differ): it is not started. Choose the node whose writes are lost, then run "
        "`roundsman instance start web1 --discard node2` or `roundsman instance start web1 --discard node1`"
    )
    assert refusal(mine, replica(THEIRS), discards=True) == ""
    assert "KiB" not in refusal(replica(OURS), replica(THEIRS)), "DRBD does not always say it"


@pytest.mark.parametrize("replicas", [None, (Replica("is down on this node", ""),)])
def test_an_outdated_replica_is_started_once_a_person_gives_up_what_the_other_node_has(
    replicas: tuple[Replica, ...] | None,
) -> None:
    """DRBD would refuse it, and the other node may be gone for good."""
    primary, peer = Node("node1", (replica(BEFORE, "Outdated"),)), Node("node2", replicas, "timed out")
    text = starts.objection("web1", primary, peer)
    assert "is outdated, because web1 was written on node2 without it: it is not started there" in text
    assert "run `roundsman instance start web1 --discard node2`, which gives up what node2 has" in text
    assert starts.objection("web1", primary, peer, discards=True) == ""


@pytest.mark.parametrize("connected", [False, True])
def test_what_may_run_on_the_other_node_is_not_started_here(connected: bool) -> None:
    peer = dataclasses.replace(TOGETHER if connected else ALONE, role="Primary", text="Primary, ...")
    assert "node2 has the disks of web1 open for writing (Primary, ...), so it may run there" in refusal(ALONE, peer)
    plain = "run `roundsman instance failover web1`, then retry"
    assert (plain in refusal(ALONE, peer)) is connected
    assert "data are on node1, run `roundsman instance start web1 --discard node2`" in refusal(ALONE, peer)
    assert "so it may run there" in refusal(ALONE, peer, discards=True), "what it has open was not closed"


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (ALONE, ALONE),
        (replica(OURS), ALONE),
        (replica(BEFORE), replica(Generation(4))),
        (replica(BEFORE), replica(THEIRS, "Inconsistent")),
        (replica(BEFORE), replica(THEIRS, "Diskless")),
        (replica(None), replica(THEIRS)),
        (replica(BEFORE), replica(None)),
        (replica(BEFORE), Replica("is down on this node", "")),
        # DRBD has compared them itself: the older one is being copied anew, and reads from its peer.
        (TOGETHER, dataclasses.replace(TOGETHER, generation=THEIRS)),
    ],
)
def test_what_is_as_new_or_cannot_be_compared_is_started(mine: Replica, other: Replica) -> None:
    assert refusal(mine, other) == ""


@pytest.mark.parametrize("peer", [Node("node2", None), Node("node2", None, "timed out")])
def test_a_peer_that_cannot_be_asked_hinders_nothing(peer: Node) -> None:
    assert starts.objection("web1", Node("node1", (ALONE,)), peer) == ""


@pytest.mark.parametrize(
    ("peer", "why"),
    [
        (Node("node2", None, "the kernel has no DRBD", answers=True), "the kernel has no DRBD"),
        (Node("node2", (), answers=True), "it lists 0 of 1 disks"),
        (Node("node2", (ALONE, ALONE), answers=True), "it lists 2 of 1 disks"),
        (Node("node2", (replica(THEIRS, "uptodate"),), answers=True), "it is not in DRBD's words: Secondary"),
        (Node("node2", (dataclasses.replace(ALONE, role="primary"),), answers=True), "it is not in DRBD's words"),
    ],
)
def test_a_peer_that_answers_and_cannot_be_read_may_run_it_and_is_given_up_only_once_it_is_off(
    peer: Node, why: str
) -> None:
    primary = Node("node1", (ALONE,))
    text = starts.objection("web1", primary, peer)
    assert f"node2 answers, and what its replica of web1 has cannot be read ({why}" in text
    assert "Repair what fails on node2, or power it off with `roundsman node power off node2 --force`" in text
    is_listed = not why.startswith("it lists")
    assert starts.objection("web1", primary, peer, discards=True) == (text if is_listed else "")


@pytest.mark.parametrize("discards", [True, False])
def test_a_primary_that_cannot_be_read_is_not_started(discards: bool) -> None:
    text = starts.objection("web1", Node("node1", None, "garbage"), Node("node2", (ALONE,)), discards=discards)
    assert text == "the disks of web1 on node1 cannot be read (garbage): it is not started"


@pytest.mark.parametrize(("peer", "starts_it"), [("node3", True), ("node2", False), ("", False)])
@pytest.mark.parametrize(("disk", "is_outdated"), [("Outdated", True), ("UpToDate", False), ("Consistent", False)])
def test_an_outdated_replica_holds_no_start_up_where_the_primary_is_in_sync_with_one_on_another_node(
    peer: str, disk: str, *, starts_it: bool, is_outdated: bool
) -> None:
    """A replacement of disks to node3 broke off after its resync; node2 is the secondary of record."""
    mine = dataclasses.replace(TOGETHER, peer=peer)
    for theirs in (replica(Generation(0x40), disk), replica(THEIRS, disk)):
        assert (refusal(mine, theirs) == "") is (starts_it and is_outdated)
    syncing = dataclasses.replace(mine, peer_disk="Inconsistent")
    assert "no data in common" in refusal(syncing, replica(Generation(0x40), disk))


def apart(mine: Replica, other: Replica | None) -> str:
    peer = Node("node2", None if other is None else (TOGETHER, other))
    return starts.objection_apart("web1", Node("node1", (TOGETHER, mine)), peer)


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (TOGETHER, None),
        (dataclasses.replace(ALONE, role=""), replica(THEIRS)),
        (ALONE, ALONE),
        (replica(OURS), ALONE),
        (ALONE, replica(THEIRS, "Inconsistent")),
        (replica(None), replica(None, "Diskless")),
        (ALONE, dataclasses.replace(replica(None, ""), exists=False)),
    ],
    ids=["connected", "down here", "the same", "newer", "not whole", "no disk", "no replica"],
)
def test_a_replica_without_its_peer_is_started_at_a_return_if_it_is_not_older_than_a_whole_one(
    mine: Replica, other: Replica | None
) -> None:
    assert apart(mine, other) == ""


@pytest.mark.parametrize(
    ("mine", "other", "text"),
    [
        (replica(OURS), replica(THEIRS), "`roundsman instance start web1 --discard node1`"),
        (ALONE, replica(THEIRS), "is older than the one on node2"),
        (replica(OURS), None, "may be older than the one on node2 (it lists no replica)"),
        (replica(OURS), replica(None), "compare them with `roundsman instance start web1`"),
        (replica(OURS), dataclasses.replace(ALONE, disk="", role=""), "may be older"),
        (replica(None), ALONE, "may be older"),
        (replica(OURS), dataclasses.replace(ALONE, role="Primary"), "so it may run there"),
    ],
)
def test_a_replica_that_may_be_older_waits_for_a_person_at_a_return(
    mine: Replica, other: Replica | None, text: str
) -> None:
    assert text in apart(mine, other)
