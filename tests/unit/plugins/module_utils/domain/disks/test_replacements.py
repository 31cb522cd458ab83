from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks import replacements
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import Generation
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.replacements import Node, Replica

if TYPE_CHECKING:
    from collections.abc import Sequence

BEFORE = Generation(0x10)
OURS = Generation(0x20, bitmap=0x10)
THEIRS = Generation(0x30, bitmap=0x10)
STRANGE = Generation(0x40)


def disk(disk: str, peer: str = "DUnknown", *, generation: Generation | None = None) -> Replica:
    return Replica(f"{disk}/{peer}", disk, peer, is_connected=peer != "DUnknown", generation=generation)


def refusal(mine: Replica, *others: Replica, **changed: Any) -> str:
    old = changed.get("old", Node("node2", others))
    primary = changed.get("primary", Node("node1", (mine,)))
    return replacements.objection("web1", primary, old, changed.get("recorded", ()))


@pytest.mark.parametrize("worth", ["Inconsistent", "Outdated", "Diskless", "Consistent", "DUnknown", ""])
def test_nothing_is_removed_while_the_primary_is_not_up_to_date(worth: str) -> None:
    text = refusal(disk(worth, "UpToDate"), disk("UpToDate", worth or "DUnknown"))
    assert "the primary node1 is not up to date" in text
    assert "roundsman instance repair-disks web1" in text
    assert "the primary node1 is not up to date" in refusal(disk(worth), old=None)


@pytest.mark.parametrize(
    "other",
    [
        disk("UpToDate", "UpToDate"),
        *map(disk, ["Inconsistent", "Diskless", "Failed"]),
        Replica("is down on this node", "", exists=False),
    ],
)
def test_a_replica_goes_that_the_primary_has_in_sync_or_that_is_none(other: Replica) -> None:
    mine = disk("UpToDate", other.disk if other.is_connected else "DUnknown")
    assert refusal(mine, other) == ""


@pytest.mark.parametrize(("generation", "goes"), [(BEFORE, True), (OURS, True), (THEIRS, False), (STRANGE, False)])
@pytest.mark.parametrize("worth", ["UpToDate", "Outdated", "Consistent", ""])
def test_of_a_replica_that_is_not_connected_the_generation_says_whether_it_was_written_too(
    worth: str, generation: Generation, goes: bool
) -> None:
    text = refusal(disk("UpToDate", generation=OURS), disk(worth, generation=generation))
    assert (text == "") is goes
    assert goes or "may have data that node1 has not" in text
    # The primary may have its next secondary already, in a second try.
    assert (refusal(disk("UpToDate", "UpToDate", generation=OURS), disk(worth, generation=generation)) == "") is goes


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (disk("UpToDate", "UpToDate", generation=OURS), disk("UpToDate", "Inconsistent", generation=THEIRS)),
        (disk("UpToDate", generation=OURS), disk("UpToDate", "UpToDate", generation=THEIRS)),
    ],
    ids=["the old secondary sees a peer that is not up to date", "the old secondary is connected to another node"],
)
def test_a_connection_proves_nothing_unless_both_are_connected_and_the_old_secondary_sees_its_peer_up_to_date(
    mine: Replica, other: Replica
) -> None:
    assert "may have data that node1 has not" in refusal(mine, other)


def test_what_drbd_cannot_connect_is_kept_with_what_helps() -> None:
    text = refusal(disk("UpToDate", generation=OURS), disk("UpToDate", generation=STRANGE))
    assert "`roundsman node offline node2`" in text
    assert "`roundsman instance repair-disks web1 --discard node2`" in text
    assert "node offline" not in refusal(disk("UpToDate", generation=OURS), disk("UpToDate", generation=THEIRS))


def test_a_replica_that_is_down_and_whose_generations_are_not_known_is_kept_with_what_helps() -> None:
    text = refusal(disk("UpToDate", generation=OURS), Replica("is down on this node", ""))
    assert "the replica of web1 on node2 (is down on this node) may have data that node1 has not" in text
    assert "`roundsman node offline node2`" in text
    assert "`roundsman instance repair-disks web1 --discard node2`" in text


STRANGERS = ["0000000000000040"]


@pytest.mark.parametrize("worth", ["UpToDate", "Outdated", "Consistent", ""])
def test_a_replica_goes_that_was_not_written_since_it_was_recorded(worth: str) -> None:
    mine, other = disk("UpToDate", "UpToDate", generation=OURS), disk(worth, generation=Generation(0x41))
    assert "it is kept" in refusal(mine, other)
    assert refusal(mine, other, recorded=STRANGERS) == ""
    assert "the primary node1 is not up to date" in refusal(disk("Outdated"), other, recorded=STRANGERS)


@pytest.mark.parametrize(
    "other",
    [
        disk("UpToDate", generation=Generation(0x50, history=(0x40,))),
        # DRBD begins no generation where the bitmap has one: it may have been primary since.
        disk("UpToDate", generation=Generation(0x40, bitmap=0x10)),
        disk("UpToDate", generation=Generation(0x40, crashed_primary=True)),
        # Somebody else may write to it.
        disk("UpToDate", "UpToDate", generation=STRANGE),
        disk("UpToDate"),
    ],
)
def test_a_replica_that_may_have_been_written_since_it_was_recorded_is_kept(other: Replica) -> None:
    mine = disk("UpToDate", generation=OURS)
    assert "it is kept" in refusal(mine, other, recorded=STRANGERS)
    assert judged(mine, other, recorded=STRANGERS) == ()


@pytest.mark.parametrize("recorded", [[], [""], ["40"], ["000000000000004 "], STRANGERS * 2, ["0000000000000041"]])
def test_only_the_recorded_generation_of_each_disk_counts(recorded: list[str]) -> None:
    assert "it is kept" in refusal(disk("UpToDate"), disk("UpToDate", generation=STRANGE), recorded=recorded)


def judged(mine: Replica, *others: Replica, recorded: Sequence[str] = ()) -> tuple[str, ...]:
    return replacements.judged(Node("node1", (mine,) * len(others)), Node("node2", others), recorded)


def test_what_is_recorded_is_what_the_primary_has_all_data_of() -> None:
    mine = disk("UpToDate", "UpToDate", generation=Generation(0x2F, bitmap=0x10))
    assert judged(mine, disk("Outdated", generation=Generation(0x11))) == ("0000000000000010",)
    together = disk("UpToDate", "UpToDate", generation=Generation(0x2E))
    assert judged(mine, together, disk("", generation=BEFORE)) == ("000000000000002e", "0000000000000010")
    for other in (THEIRS, STRANGE, None, Generation(0x10, bitmap=0x8), Generation(0x10, crashed_primary=True)):
        assert judged(mine, disk("UpToDate", generation=BEFORE), disk("UpToDate", generation=other)) == ()


@pytest.mark.parametrize("identifier", [1 << 64, -16])
def test_what_is_no_generation_is_not_recorded(identifier: int) -> None:
    one = disk("UpToDate", "UpToDate", generation=Generation(identifier))
    assert judged(one, one) == ()


def test_what_was_recorded_stays_where_the_old_secondary_is_not_contacted() -> None:
    primary = Node("node1", (disk("UpToDate", generation=OURS),))
    assert replacements.judged(primary, None, STRANGERS) == tuple(STRANGERS)
    assert replacements.judged(primary, Node("node2", None, "silent"), STRANGERS) == ()
    assert replacements.judged(Node("node1", None), Node("node2", (disk("UpToDate", generation=BEFORE),))) == ()


def left_refusal(mine: Replica, *others: Replica) -> str:
    return replacements.objection_to_removal("web1", Node("node1", (mine,)), Node("node3", others))


@pytest.mark.parametrize(
    ("generation", "goes"), [(BEFORE, True), (OURS, True), (THEIRS, False), (STRANGE, False), (None, False)]
)
@pytest.mark.parametrize("worth", ["UpToDate", "Outdated", "Diskless", ""])
def test_of_what_was_left_behind_only_an_ancestor_is_removed(
    worth: str, generation: Generation | None, goes: bool
) -> None:
    mine = disk("UpToDate", "UpToDate", generation=OURS)
    text = left_refusal(mine, disk(worth, generation=generation))
    assert (text == "") is goes
    assert goes or "may hold writes that no other replica has: it is kept" in text
    assert goes or "`roundsman instance repair-disks web1 --discard node3`" in text
    assert left_refusal(mine, disk("Inconsistent", generation=generation)) == ""
    assert left_refusal(mine, Replica("down", "", exists=False)) == ""
    assert "not the same disks" in left_refusal(mine)
    assert "cannot be read (hangs)" in replacements.objection_to_removal(
        "web1", Node("node1", (mine,)), Node("node3", None, "hangs")
    )


def test_what_an_older_configuration_has_as_left_behind_is_kept_while_the_primary_replicates_to_it() -> None:
    synced = disk("UpToDate", "UpToDate", generation=OURS)
    for mine, other in (
        (dataclasses.replace(synced, peer="node3"), disk("UpToDate", generation=OURS)),
        (synced, synced),
    ):
        text = left_refusal(mine, other)
        assert "node1 replicates web1 to node3, so its replica there is in use: it is kept" in text
        assert text.endswith("to make it the secondary, run `roundsman instance replace-disks web1 --to node3`")
    assert left_refusal(dataclasses.replace(synced, peer="node2"), disk("UpToDate", generation=OURS)) == ""


@pytest.mark.parametrize(("mine", "theirs"), [(None, BEFORE), (OURS, None), (None, None)])
def test_what_is_not_known_is_kept(mine: Generation | None, theirs: Generation | None) -> None:
    assert "it is kept" in refusal(disk("UpToDate", generation=mine), disk("UpToDate", generation=theirs))
    assert "cannot be read (lvs hangs)" in refusal(disk("UpToDate"), old=Node("node2", None, "lvs hangs"))
    assert "cannot be read (timed out)" in refusal(disk("UpToDate"), primary=Node("node1", None, "timed out"))
    assert "not the same disks" in refusal(disk("UpToDate"), disk("Diskless"), disk("UpToDate"))


def test_an_old_secondary_that_is_not_contacted_is_no_reason() -> None:
    assert refusal(disk("UpToDate"), old=None) == ""


PAIRED = dataclasses.replace(disk("UpToDate", "UpToDate", generation=OURS), peer="node3")


@pytest.mark.parametrize(
    ("ours", "theirs", "is_made"),
    [
        ({}, {}, True),
        ({}, {"generation": Generation(0x21, bitmap=0x10)}, True),
        # DRBD 8.4 does not tell which node is connected: the primary may be in sync with its old secondary.
        ({}, {"is_connected": False}, False),
        ({}, {"peer": "node2"}, False),
        ({"peer": "node2"}, {}, False),
        ({"is_connected": False}, {}, False),
        *(({}, {"disk": worth}, False) for worth in ("Inconsistent", "Outdated", "Diskless", "")),
        ({}, {"peer_disk": "Inconsistent"}, False),
        ({"peer_disk": "Inconsistent"}, {}, False),
        ({"disk": "Inconsistent"}, {}, False),
        *(({}, {"generation": one}, False) for one in (BEFORE, THEIRS, None)),
        ({"generation": None}, {}, False),
    ],
)
def test_a_new_secondary_counts_once_both_nodes_say_that_they_are_in_sync_with_each_other(
    ours: dict[str, Any], theirs: dict[str, Any], is_made: bool
) -> None:
    primary = Node("node1", (dataclasses.replace(PAIRED, **ours),))
    new = Node("node3", (dataclasses.replace(PAIRED, **{"peer": "node1", **theirs}),))
    assert (replacements.objection_to_new("web1", primary, new) == "") is is_made


@pytest.mark.parametrize("silent", ["node1", "node3"])
def test_a_new_secondary_does_not_count_where_a_node_does_not_answer_or_has_other_disks(silent: str) -> None:
    made = {"node1": PAIRED, "node3": dataclasses.replace(PAIRED, peer="node1")}
    for why, found in (("it is silent", None), ("", ())):
        nodes = [Node(name, found if name == silent else (one,), why) for name, one in made.items()]
        text = replacements.objection_to_new("web1", *nodes)
        assert why in text
        assert silent in text


def test_a_replica_that_was_never_promoted_since_it_had_its_peer_holds_no_replacement_up_and_stays() -> None:
    """DRBD's history is too short to say that it is older; nobody outdated it, because its node was off."""
    mine = dataclasses.replace(disk("UpToDate", "UpToDate", generation=OURS), peer="node3")
    idle = dataclasses.replace(disk("UpToDate", generation=STRANGE), role="Secondary")
    primary, secondary = Node("node1", (mine,)), Node("node2", (idle,))
    assert replacements.objection("web1", primary, secondary), "nothing of it is removed"
    assert replacements.objection("web1", primary, secondary, may_stay=True) == ""
    assert "`roundsman instance repair-disks web1 --discard node2`" in replacements.kept("web1", primary, secondary)
    assert replacements.kept("web1", primary, secondary, STRANGERS) == "", "it was not written since it was recorded"
    assert replacements.kept("web1", primary, secondary, STRANGERS * 2), "it has one disk"
    for changed in (
        {"role": "Primary"},
        {"generation": THEIRS},
        {"generation": Generation(0x40, crashed_primary=True)},
        {"generation": None},
        {"is_connected": True},
    ):
        other = dataclasses.replace(idle, **changed)
        assert replacements.objection("web1", primary, Node("node2", (other,)), may_stay=True), changed
    for paired in ({"peer": "node2"}, {"peer": ""}, {"is_connected": False}, {"peer_disk": "Inconsistent"}):
        alone = Node("node1", (dataclasses.replace(mine, **paired),))
        assert replacements.objection("web1", alone, secondary, may_stay=True), paired


def test_an_outdated_replica_that_the_primary_has_gone_on_without_holds_no_replacement_up_and_stays() -> None:
    """The primary is connected and in sync with a new replica on node3; node2 was outdated, and may have writes."""
    mine = dataclasses.replace(disk("UpToDate", "UpToDate", generation=OURS), peer="node3")
    old = disk("Outdated", generation=STRANGE)
    assert "may have data that node1 has not" in refusal(mine, old), "on its own node it would be removed"
    primary, secondary = Node("node1", (mine,)), Node("node2", (old,))
    assert replacements.objection("web1", primary, secondary, may_stay=True) == ""
    text = replacements.kept("web1", primary, secondary)
    assert text.startswith("the replica of web1 on node2 (Outdated/DUnknown) may have writes that no other replica has")
    assert "`roundsman instance repair-disks web1 --discard node2`" in text
    for other in (disk("UpToDate", generation=STRANGE), disk("Consistent", generation=STRANGE)):
        assert replacements.objection("web1", primary, Node("node2", (other,)), may_stay=True), "it may be open there"
    alone = dataclasses.replace(disk("UpToDate", generation=OURS), peer="node3")
    assert replacements.objection("web1", Node("node1", (alone,)), secondary, may_stay=True)
    assert replacements.kept("web1", primary, Node("node2", (disk("Outdated", generation=BEFORE),))) == ""
    assert replacements.kept("web1", primary, None) == ""
