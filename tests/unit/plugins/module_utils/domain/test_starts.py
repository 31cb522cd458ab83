from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import starts
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd import Generation
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.replacements import Node, Replica

BEFORE = Generation(0x10)
OURS, THEIRS = Generation(0x20, bitmap=0x10), Generation(0x30, bitmap=0x10)
ALONE = Replica("Secondary, Connecting, UpToDate/DUnknown", "UpToDate", role="Secondary", generation=BEFORE)
TOGETHER = dataclasses.replace(
    ALONE, text="Secondary, Connected, UpToDate/UpToDate", peer_disk="UpToDate", is_connected=True
)


def refusal(mine: Replica, other: Replica) -> str:
    return starts.objection("web1", Node("node1", (ALONE, mine)), Node("node2", (ALONE, other)))


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
    assert (
        "on node1 on purpose, set the other node offline first with `roundsman node offline node2`, then retry" in text
    )
    assert "run `roundsman instance failover web1 --ignore-consistency`" in text


@pytest.mark.parametrize("connected", [False, True])
def test_what_may_run_on_the_other_node_is_not_started_here(connected: bool) -> None:
    peer = dataclasses.replace(TOGETHER if connected else ALONE, role="Primary", text="Primary, ...")
    assert "node2 has the disks of web1 open for writing (Primary, ...), so it may run there" in refusal(ALONE, peer)
    plain = "run `roundsman instance failover web1`, then retry"
    assert (plain in refusal(ALONE, peer)) is connected


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (ALONE, ALONE),
        (replica(OURS), ALONE),
        # Both were written since: a failover to a stale replica must remain startable, and a person decides.
        (replica(OURS), replica(THEIRS)),
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


@pytest.mark.parametrize("peer", [None, Node("node2", None, "timed out"), Node("node2", ())])
def test_a_peer_that_cannot_be_asked_hinders_nothing(peer: Node | None) -> None:
    assert starts.objection("web1", Node("node1", (ALONE,)), peer) == ""
