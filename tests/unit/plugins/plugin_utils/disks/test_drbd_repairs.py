from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd import (
    Connection,
    Disk,
    Generation,
    Replication,
    Role,
    Side,
    Volume,
)
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_generations import Relation, relation
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.disks.drbd_pairs import (
    DESTRUCTIVE,
    Action,
    Kind,
    Pair,
    Step,
    Told,
    Unread,
    Verdict,
    Where,
)
from ansible_collections.roundsman.cluster.plugins.plugin_utils.disks.drbd_repairs import decide

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECTED, ALONE, CONNECTING = Connection.CONNECTED, Connection.STANDALONE, Connection.CONNECTING
GOOD = Disk.UP_TO_DATE
BASE = 0x10
SAME = (Generation(BASE), Generation(BASE))
OURS_NEWER = (Generation(0x20, BASE), Generation(BASE))
THEIRS_NEWER = (Generation(BASE), Generation(0x30, BASE))
SPLIT = (Generation(0x20, BASE), Generation(0x30, BASE))
UNRELATED = (Generation(0x20), Generation(0x30))
# The history keeps the identifier of the resync to another node, which followed the generation of the older one.
WENT_ON = Generation(0x20, history=(BASE + 0x0001000000000000, 0x40))
FORGOTTEN = (WENT_ON, Generation(BASE))
SPLIT_BEFORE = (Generation(0x20, 0x50, history=(BASE, 0x40)), Generation(0x30, BASE, history=(BASE, 0x40)))
"""Ours was in sync with another node after the generation that the two have in common."""
GIVEN_UP = (
    "the secondary replaced (roundsman instance replace-disks NAME --to SECONDARY), which removes its snapshots, too"
)
FORGOTTEN_SPLIT = (WENT_ON, Generation(BASE, history=(0x40,)))


def _side(
    disk: Disk = GOOD,
    connection: Connection = CONNECTED,
    *,
    role: Role = Role.SECONDARY,
    replication: Replication = Replication.ESTABLISHED,
    generation: Generation | None = None,
    **more: object,
) -> Side:
    replication = replication if connection is CONNECTED else Replication.OFF
    volume = Volume(0, disk, replication=replication, generation=generation)
    return Side("r0", role, connection, (dataclasses.replace(volume, **more),))  # type: ignore[arg-type] # passed on


def _runs(disk: Disk = GOOD, connection: Connection = CONNECTED, **more: object) -> Side:
    return _side(disk, connection, **{"role": Role.PRIMARY, **more})  # type: ignore[arg-type] # passed on


def _decided(primary: Told, secondary: Told, *failed: Step) -> Verdict:
    return decide(Pair(primary, secondary, frozenset(failed)))


def _steps(verdict: Verdict) -> list[tuple[Action, str]]:
    assert verdict.kind is Kind.REPAIR
    return [(step.action, step.where.value) for step in verdict.steps]


def test_two_good_connected_copies_are_healthy() -> None:
    assert _decided(_runs(), _side()) == Verdict(Kind.HEALTHY)


def test_nothing_is_decided_about_a_node_that_could_not_be_asked() -> None:
    for pair in ((Unread.UNHEARD, _side()), (_runs(), Unread.UNHEARD), (Unread.UNHEARD, Unread.DOWN)):
        assert _decided(*pair).kind is Kind.REFUSED


def test_a_resource_that_is_down_on_one_node_is_brought_up_there() -> None:
    assert _steps(_decided(_runs(connection=CONNECTING), Unread.DOWN)) == [(Action.UP, "secondary")]
    assert _steps(_decided(Unread.DOWN, _side(connection=CONNECTING))) == [(Action.UP, "primary")]
    assert _decided(Unread.DOWN, Unread.DOWN).kind is Kind.REFUSED


def test_a_secondary_that_does_not_come_up_is_replaced_while_the_primary_is_good() -> None:
    tried = Step(Action.UP, Where.SECONDARY)
    assert _steps(_decided(_runs(connection=CONNECTING), Unread.DOWN, tried)) == [(Action.REPLACE, "secondary")]
    assert _decided(_runs(Disk.INCONSISTENT, CONNECTING), Unread.DOWN, tried).kind is Kind.REFUSED
    assert _decided(Unread.DOWN, _side(), Step(Action.UP, Where.PRIMARY)).kind is Kind.REFUSED


def test_a_detached_disk_is_attached_again_on_its_node() -> None:
    assert _steps(_decided(_runs(), _side(Disk.DISKLESS))) == [(Action.ATTACH, "secondary")]
    assert _steps(_decided(_runs(Disk.FAILED), _side())) == [(Action.ATTACH, "primary")]


def test_a_secondary_whose_disk_stays_away_is_replaced_and_a_primary_is_moved_by_a_person() -> None:
    tried = Step(Action.ATTACH, Where.SECONDARY)
    assert _steps(_decided(_runs(), _side(Disk.DISKLESS), tried)) == [(Action.REPLACE, "secondary")]
    refused = _decided(_runs(Disk.DISKLESS), _side(), Step(Action.ATTACH, Where.PRIMARY))
    assert (refused.kind, refused.unblock) == (Kind.REFUSED, "the instance migrated to its secondary")


def test_a_primary_without_disk_and_connection_is_not_touched() -> None:
    assert _decided(_runs(Disk.DISKLESS, CONNECTING), _side(connection=CONNECTING)).kind is Kind.REFUSED
    assert _decided(_runs(Disk.DISKLESS), _side(Disk.DISKLESS)).kind is Kind.REFUSED


def test_the_disk_of_a_primary_is_attached_only_while_the_replica_it_works_on_is_up_to_date() -> None:
    for disk in set(Disk) - {GOOD}:
        verdict = _decided(_runs(Disk.DISKLESS), _side(disk))
        assert verdict.kind is Kind.REFUSED, disk


@pytest.mark.parametrize("disk", [Disk.ATTACHING, Disk.NEGOTIATING])
def test_a_disk_that_is_being_attached_is_waited_for(disk: Disk) -> None:
    for pair in ((_runs(), _side(disk)), (_runs(disk), _side())):
        assert _decided(*pair) == Verdict(Kind.WAITING, "a disk is being attached")


def test_nothing_is_decided_while_the_nodes_do_not_list_the_same_volumes() -> None:
    one, two = _side(connection=ALONE), _runs(connection=ALONE)
    more = dataclasses.replace(two, volumes=(*two.volumes, Volume(1, GOOD)))
    for pair in ((more, one), (dataclasses.replace(one, role=Role.PRIMARY), dataclasses.replace(more, role=one.role))):
        verdict = _decided(*pair)
        assert verdict.kind is Kind.REFUSED
        assert verdict.unblock.startswith(
            "the same volumes on both nodes (`drbdadm adjust r0` there takes over its file)"
        )


def test_a_resync_that_somebody_paused_is_resumed_where_it_was_paused() -> None:
    paused = _side(Disk.INCONSISTENT, replication=Replication.PAUSED_SYNC_T, paused_by_user=True)
    assert _steps(_decided(_runs(replication=Replication.PAUSED_SYNC_S), paused)) == [(Action.RESUME, "secondary")]


def test_a_resync_under_way_is_waited_for_and_its_progress_told() -> None:
    verdict = _decided(
        _runs(replication=Replication.SYNC_SOURCE, done=12.5),
        _side(Disk.INCONSISTENT, replication=Replication.SYNC_TARGET),
    )
    assert (verdict.kind, verdict.reason) == (Kind.WAITING, "its replicas are being resynced (SyncSource, 12.5 % done)")


def test_a_connected_copy_that_nothing_mends_is_copied_anew_from_the_good_one() -> None:
    assert _steps(_decided(_runs(), _side(Disk.OUTDATED))) == [(Action.INVALIDATE, "secondary")]
    assert _steps(_decided(_runs(Disk.INCONSISTENT), _side())) == [(Action.INVALIDATE, "primary")]
    assert _decided(_runs(Disk.INCONSISTENT), _side(Disk.OUTDATED)).kind is Kind.REFUSED
    assert _decided(_runs(), _side(Disk.OUTDATED), Step(Action.INVALIDATE, Where.SECONDARY)).kind is Kind.REFUSED


def test_where_each_side_has_one_good_volume_nothing_is_copied_anew() -> None:
    good, bad = Volume(0, GOOD, replication=Replication.ESTABLISHED), Volume(1, Disk.INCONSISTENT)
    swapped = (dataclasses.replace(bad, number=0), dataclasses.replace(good, number=1))
    primary = Side("r0", Role.PRIMARY, CONNECTED, (good, bad))
    assert _decided(primary, Side("r0", Role.SECONDARY, CONNECTED, swapped)).kind is Kind.REFUSED


def test_copies_that_a_comparison_found_different_are_for_a_person() -> None:
    assert _decided(_runs(out_of_sync=4), _side()).kind is Kind.REFUSED


def test_whoever_stands_alone_is_connected_again() -> None:
    pair = [(ALONE, CONNECTING, ["primary"]), (CONNECTING, ALONE, ["secondary"]), (ALONE, ALONE, [*_names()])]
    for ours, theirs, expected in pair:
        for first, second in (SAME, OURS_NEWER, (None, None)):
            verdict = _decided(_runs(connection=ours, generation=first), _side(connection=theirs, generation=second))
            assert _steps(verdict) == [(Action.CONNECT, name) for name in expected]


def test_a_pair_that_does_not_connect_gets_a_new_secondary_only_if_the_old_one_has_no_data() -> None:
    tried = [Step(Action.CONNECT, where) for where in Where]
    cases = [
        (GOOD, Disk.INCONSISTENT, True),
        (GOOD, GOOD, False),
        (GOOD, Disk.OUTDATED, False),
        (Disk.OUTDATED, Disk.INCONSISTENT, False),
    ]
    for ours, theirs, is_replaced in cases:
        verdict = _decided(_runs(ours, ALONE), _side(theirs, ALONE), *tried)
        assert verdict.kind is Kind.REFUSED
        assert ("roundsman instance replace-disks NAME --to SECONDARY" in verdict.unblock) is is_replaced
        assert ("DRBD's log says on both nodes" in verdict.unblock) is not is_replaced


@pytest.mark.parametrize(
    ("generations", "ours", "theirs", "named"),
    [
        (SAME, GOOD, GOOD, "the secondary replaced (roundsman instance replace-disks NAME --to SECONDARY)"),
        (
            OURS_NEWER,
            GOOD,
            Disk.OUTDATED,
            "the secondary replaced (roundsman instance replace-disks NAME --to SECONDARY)",
        ),
        (THEIRS_NEWER, GOOD, GOOD, "the instance failed over to its secondary (roundsman instance failover NAME --ign"),
        (
            SAME,
            Disk.OUTDATED,
            GOOD,
            "the instance failed over to its secondary (roundsman instance failover NAME --ign",
        ),
        (SAME, Disk.OUTDATED, Disk.OUTDATED, "what DRBD's log says on both nodes fixed; where the data of the primary"),
        ((None, None), GOOD, GOOD, "what DRBD's log says on both nodes fixed; where the data of the primary"),
    ],
)
def test_of_two_whole_replicas_that_refuse_each_other_the_one_that_is_not_newer_is_replaced(
    generations: tuple[Generation | None, Generation | None], ours: Disk, theirs: Disk, named: str
) -> None:
    primary, secondary = (
        _side(disk, ALONE, generation=one) for disk, one in zip((ours, theirs), generations, strict=True)
    )
    verdict = _decided(primary, secondary, *(Step(Action.CONNECT, where) for where in Where))
    assert verdict.kind is Kind.REFUSED
    assert verdict.unblock.startswith(named)


def _names() -> list[str]:
    return [where.value for where in Where]


def test_a_cut_cable_is_the_networks_to_mend() -> None:
    verdict = _decided(_runs(connection=CONNECTING), _side(connection=CONNECTING))
    assert (verdict.kind, verdict.unblock) == (Kind.REFUSED, "the network between them")


@pytest.mark.parametrize("primary", [_runs, _side])
def test_after_split_brain_nothing_is_discarded_unless_a_person_names_the_node(primary: Callable[..., Side]) -> None:
    pair = primary(connection=ALONE, generation=SPLIT[0]), _side(connection=ALONE, generation=SPLIT[1])
    verdict = _decided(*pair)
    assert verdict.kind is Kind.REFUSED
    assert "roundsman instance repair-disks NAME --discard NODE" in verdict.unblock
    chosen = decide(Pair(*pair, discard=Where.SECONDARY))
    assert _steps(chosen) == [(Action.DISCARD, "secondary"), (Action.CONNECT, "primary")]


def test_the_newer_of_two_replicas_counts_on_either_node_once_a_person_says_so() -> None:
    pair = _side(connection=ALONE, generation=SPLIT[0]), _side(connection=CONNECTING, generation=SPLIT[1])
    chosen = decide(Pair(*pair, discard=Where.PRIMARY))
    assert _steps(chosen) == [(Action.DISCARD, "primary"), (Action.CONNECT, "secondary")]


@pytest.mark.parametrize(
    ("primary", "discard"),
    [
        (_runs(Disk.INCONSISTENT, ALONE, generation=SPLIT[0]), Where.SECONDARY),
        (_runs(Disk.DISKLESS, ALONE, generation=SPLIT[0]), Where.SECONDARY),
    ],
)
def test_a_person_cannot_discard_what_a_primary_writes_or_the_only_good_replica(primary: Side, discard: Where) -> None:
    verdict = decide(Pair(primary, _side(connection=ALONE, generation=SPLIT[1]), discard=discard))
    assert verdict.kind is Kind.REFUSED


@pytest.mark.parametrize("secondary", [_side, _runs])
def test_a_primary_that_a_person_gives_up_is_closed_first_which_drbd_refuses_while_a_guest_uses_it(
    secondary: Callable[..., Side],
) -> None:
    """A failover that was killed after its promotion leaves a primary without a guest, and so may both nodes be."""
    pair = _runs(connection=ALONE, generation=SPLIT[0]), secondary(connection=ALONE, generation=SPLIT[1])
    closing = decide(Pair(*pair, discard=Where.PRIMARY))
    assert _steps(closing) == [(Action.DEMOTE, "primary")]
    in_use = decide(Pair(*pair, frozenset(closing.steps), discard=Where.PRIMARY))
    assert (in_use.kind, "its disk is in use" in in_use.reason) == (Kind.REFUSED, True)
    assert "roundsman instance stop NAME" in in_use.unblock
    closed = decide(Pair(_side(connection=ALONE, generation=SPLIT[0]), pair[1], discard=Where.PRIMARY))
    assert _steps(closed) == [(Action.DISCARD, "primary"), (Action.CONNECT, "secondary")]


def test_a_choice_that_a_cut_link_hinders_names_the_command_that_uses_the_other_side_now() -> None:
    pair = _side(connection=CONNECTING, generation=SPLIT[0]), _side(connection=CONNECTING, generation=SPLIT[1])
    assert "roundsman instance failover NAME --ignore-consistency" in decide(Pair(*pair, discard=Where.PRIMARY)).unblock
    assert decide(Pair(*pair, discard=Where.SECONDARY)).unblock == "the network between them"


def test_a_person_may_keep_the_replica_that_was_outdated_when_the_two_lost_each_other() -> None:
    pair = _side(connection=ALONE, generation=SPLIT[0]), _side(Disk.OUTDATED, ALONE, generation=SPLIT[1])
    chosen = decide(Pair(*pair, discard=Where.PRIMARY))
    assert _steps(chosen) == [(Action.DISCARD, "primary"), (Action.CONNECT, "secondary")]


@pytest.mark.parametrize(("newer", "discard"), [(THEIRS_NEWER, Where.SECONDARY), (OURS_NEWER, Where.PRIMARY)])
def test_where_one_volume_is_split_and_another_newer_on_the_side_to_discard_nothing_is_done(
    newer: tuple[Generation, Generation], discard: Where
) -> None:
    pair = _two_volumes(SPLIT, newer)
    assert decide(Pair(*pair, discard=discard)).kind is Kind.REFUSED
    other = Where.PRIMARY if discard is Where.SECONDARY else Where.SECONDARY
    assert _steps(decide(Pair(*pair, discard=other)))[0] == (Action.DISCARD, other.value)


def _two_volumes(
    first: tuple[Generation | None, Generation | None], second: tuple[Generation | None, Generation | None]
) -> tuple[Side, Side]:
    """Two sides that stand alone, with two volumes of these generations."""
    pairs = zip(first, second, strict=True)
    one, other = ((Volume(0, GOOD, generation=low), Volume(1, GOOD, generation=high)) for low, high in pairs)
    return Side("r0", Role.SECONDARY, ALONE, one), Side("r0", Role.SECONDARY, ALONE, other)


@pytest.mark.parametrize("discard", list(Where))
@pytest.mark.parametrize("unnoted", [SPLIT_BEFORE, SPLIT_BEFORE[::-1]])
def test_one_volume_of_which_drbd_would_copy_a_part_keeps_all_from_being_connected(
    unnoted: tuple[Generation, Generation], discard: Where
) -> None:
    for volumes in ((SPLIT, unnoted), (unnoted, SPLIT), (unnoted, unnoted)):
        verdict = decide(Pair(*_two_volumes(*volumes), discard=discard))
        assert [step.action for step in verdict.steps] == [Action.GIVE_UP] * (discard is Where.SECONDARY)
        assert "DRBD has not noted all that differs" in verdict.reason
    assert decide(Pair(*_two_volumes(SPLIT, SPLIT), discard=discard)).steps[0] == Step(Action.DISCARD, discard)


@pytest.mark.parametrize("discard", [None, *Where])
@pytest.mark.parametrize("unknown", [(None, None), (SPLIT[0], None), (None, SPLIT[1])])
def test_while_the_generations_of_one_volume_are_not_known_nothing_is_concluded_from_the_others(
    unknown: tuple[Generation | None, Generation | None], discard: Where | None
) -> None:
    # DRBD finds out when it connects, and stands alone again where it must.
    for volumes in ((SPLIT, unknown), (unknown, SPLIT)):
        verdict = decide(Pair(*_two_volumes(*volumes), discard=discard))
        assert {action for action, _ in _steps(verdict)} == {Action.CONNECT}


def test_what_drbd_would_copy_a_part_of_is_not_connected_by_a_persons_choice() -> None:
    # It copies what is in the bitmaps, and one of them is of another peer: the rest would differ, and count as in sync.
    both = Generation(0x20, history=(BASE, 0x40)), Generation(0x30, history=(BASE, 0x40))
    for one, other in (SPLIT_BEFORE, SPLIT_BEFORE[::-1], both):
        ours, theirs = _side(connection=ALONE, generation=one), _side(connection=ALONE, generation=other)
        verdict = decide(Pair(ours, theirs, discard=Where.PRIMARY))
        assert verdict.kind is Kind.REFUSED
        assert verdict.unblock == (
            "the instance failed over to its secondary (roundsman instance failover NAME --ignore-consistency), then "
            "its old primary invalidated (there, `drbdadm disconnect` of the resource unless it is StandAlone, then "
            "`drbdadm invalidate`), then replaced (roundsman instance replace-disks NAME --to OLD_PRIMARY)"
        )
        # Invalidated, it still may have another node's secret: it is replaced, and never connected.
        empty = _side(Disk.INCONSISTENT, ALONE, generation=one), _side(Disk.INCONSISTENT, ALONE, generation=other)
        assert decide(Pair(empty[0], theirs, discard=Where.PRIMARY)) == verdict
        given_up = decide(Pair(ours, theirs, discard=Where.SECONDARY))
        assert _steps(given_up) == [(Action.GIVE_UP, "secondary")]
        unchosen = _decided(ours, theirs).unblock
        assert "--discard SECONDARY); to give up what the primary wrote, the instance failed over to its" in unchosen
        refused = decide(Pair(ours, empty[1], frozenset(given_up.steps), discard=Where.SECONDARY))
        assert (refused.kind, refused.unblock) == (Kind.REFUSED, GIVEN_UP)
        assert decide(Pair(ours, empty[1], discard=Where.SECONDARY)) == refused
        by_hand = decide(Pair(ours, theirs, frozenset(given_up.steps), discard=Where.SECONDARY))
        assert by_hand.unblock.startswith("the secondary invalidated (there, `drbdadm disconnect` of the resource")


def test_a_primary_that_was_outdated_is_made_up_to_date_before_it_is_copied_in_full() -> None:
    ours, theirs = (
        _side(disk, ALONE, generation=one) for disk, one in zip((Disk.OUTDATED, GOOD), SPLIT_BEFORE, strict=True)
    )
    forced = (
        "the replica of the primary made up to date (`drbdadm primary --force`, then `drbdadm secondary` there), then "
    )
    assert decide(Pair(ours, theirs, discard=Where.SECONDARY)).unblock.startswith(forced)
    assert forced not in decide(Pair(theirs, ours, discard=Where.PRIMARY)).unblock
    assert forced not in decide(Pair(theirs, ours, discard=Where.SECONDARY)).unblock


def test_without_split_brain_a_persons_choice_discards_nothing() -> None:
    assert decide(Pair(_runs(), _side(), discard=Where.SECONDARY)) == Verdict(Kind.HEALTHY)
    newer = _runs(connection=ALONE, generation=OURS_NEWER[0]), _side(connection=ALONE, generation=OURS_NEWER[1])
    assert {action for action, _ in _steps(decide(Pair(*newer, discard=Where.SECONDARY)))} == {Action.CONNECT}


def test_after_a_discard_that_did_not_help_what_is_given_up_is_copied_in_full() -> None:
    pair = _runs(connection=ALONE, generation=SPLIT[0]), _side(connection=ALONE, generation=SPLIT[1])
    failed = frozenset({Step(Action.DISCARD, Where.SECONDARY), Step(Action.CONNECT, Where.PRIMARY)})
    verdict = decide(Pair(*pair, failed, discard=Where.SECONDARY))
    assert verdict.reason.startswith("split brain, and its nodes do not connect again")
    assert _steps(verdict) == [(Action.GIVE_UP, "secondary")]
    empty = _side(Disk.INCONSISTENT, ALONE, generation=SPLIT[1])
    refused = decide(Pair(pair[0], empty, failed | {*verdict.steps}, discard=Where.SECONDARY))
    assert (refused.kind, refused.unblock) == (Kind.REFUSED, GIVEN_UP)


def test_an_instance_on_older_data_than_its_secondary_has_is_for_a_person() -> None:
    newer = _side(connection=ALONE, generation=THEIRS_NEWER[1])
    assert _decided(_runs(connection=ALONE, generation=THEIRS_NEWER[0]), newer).kind is Kind.REFUSED
    assert _decided(_side(connection=ALONE, generation=THEIRS_NEWER[0]), newer).kind is Kind.REPAIR


def test_unrelated_copies_are_never_connected() -> None:
    pair = (_runs(connection=ALONE, generation=UNRELATED[0]), _side(connection=ALONE, generation=UNRELATED[1]))
    verdict = _decided(*pair)
    assert (verdict.kind, verdict.reason) == (Kind.REFUSED, "its replicas have no data in common")
    assert "the secondary set offline (roundsman node offline SECONDARY), then its replica replaced" in verdict.unblock


@pytest.mark.parametrize(("newer", "older"), [FORGOTTEN, FORGOTTEN_SPLIT])
@pytest.mark.parametrize("role", [*Role])
@pytest.mark.parametrize("discard", [None, *Where])
def test_an_older_replica_that_drbd_would_not_connect_is_named_with_what_replaces_it(
    newer: Generation, older: Generation, role: Role, discard: Where | None
) -> None:
    def verdict(ours: Generation, theirs: Generation) -> Verdict:
        pair = _side(connection=ALONE, role=role, generation=ours), _side(connection=ALONE, generation=theirs)
        return decide(Pair(*pair, discard=discard))

    found = verdict(newer, older)
    assert "the replica of the secondary is older than that of the primary" in found.reason
    assert found.unblock == "the secondary replaced (roundsman instance replace-disks NAME --to SECONDARY)"
    assert not found.steps
    found = verdict(older, newer)
    assert "the replica of the primary is older than that of the secondary" in found.reason
    assert "roundsman instance failover NAME --ignore-consistency" in found.unblock
    assert "then its old primary replaced" in found.unblock
    assert not found.steps


@pytest.mark.parametrize("other", [FORGOTTEN[::-1], SPLIT, UNRELATED])
def test_where_each_side_has_an_older_volume_that_drbd_would_not_connect_a_person_decides(
    other: tuple[Generation, Generation],
) -> None:
    primary, secondary = (
        Side("r0", Role.SECONDARY, ALONE, (Volume(0, GOOD, generation=one), Volume(1, GOOD, generation=two)))
        for one, two in zip(FORGOTTEN, other, strict=True)
    )
    for discard in (None, *Where):
        verdict = decide(Pair(primary, secondary, discard=discard))
        assert verdict.kind is Kind.REFUSED
        assert "where the data of the primary count, the secondary set offline" in verdict.unblock


def test_a_primary_that_is_connected_to_another_node_is_no_cut_link() -> None:
    verdict = _decided(_runs(), _side(connection=CONNECTING))
    assert verdict.kind is Kind.REFUSED
    assert "it has another peer, as where replace-disks has not ended" in verdict.reason
    assert "which names a new replica and how to finish it" in verdict.unblock


def test_two_primaries_are_a_migration_while_connected_and_a_refusal_apart() -> None:
    assert _decided(_runs(), _runs()).kind is Kind.WAITING
    assert _decided(_runs(connection=ALONE), _runs(connection=ALONE)).kind is Kind.REFUSED
    assert _decided(_side(), _runs()).kind is Kind.REFUSED


@pytest.mark.parametrize(
    ("generations", "node"),
    [
        (SPLIT, "NODE"),
        (SAME, ""),
        (OURS_NEWER, ""),
        (UNRELATED, ""),
        ((None, None), ""),
        (SPLIT_BEFORE, "SECONDARY"),
        (FORGOTTEN_SPLIT, ""),
    ],
)
@pytest.mark.parametrize("role", [*Role])
def test_a_node_to_discard_is_named_only_where_that_is_not_refused(
    generations: tuple[Generation | None, Generation | None], node: str, role: Role
) -> None:
    ours, theirs = (_side(connection=ALONE, role=role, generation=one) for one in generations)
    text = _decided(ours, theirs).unblock
    assert (f"(roundsman instance repair-disks NAME --discard {node})" in text) is bool(node)
    if role is Role.PRIMARY and not node:
        assert "(there, `drbdadm secondary r0`), then the two connected (roundsman instance repair-disks NAME)" in text


def test_of_a_split_brain_with_one_whole_side_only_the_other_can_be_given_up() -> None:
    ours, theirs = _side(connection=ALONE, generation=SPLIT[0]), _side(Disk.INCONSISTENT, ALONE, generation=SPLIT[1])
    assert _decided(ours, theirs).unblock.endswith("(roundsman instance repair-disks NAME --discard SECONDARY)")
    assert _decided(theirs, ours).unblock.endswith("(roundsman instance repair-disks NAME --discard PRIMARY)")


def test_the_sides_of_a_split_brain_that_drbd_would_copy_a_part_of_are_given_up_by_hand_where_none_is_up_to_date() -> (
    None
):
    ours, theirs = (_side(Disk.OUTDATED, ALONE, generation=one) for one in SPLIT_BEFORE)
    text = _decided(ours, theirs).unblock
    assert "to give up what the primary wrote, the instance failed over to its secondary" in text
    assert "; to give up what the secondary wrote, the replica of the primary made up to date" in text


ROLES = (Role.PRIMARY, Role.SECONDARY)
DISKS = (GOOD, Disk.DISKLESS, Disk.INCONSISTENT, Disk.OUTDATED, Disk.CONSISTENT)
CONNECTIONS = (CONNECTED, ALONE, CONNECTING, Connection.NETWORK_FAILURE)
SIDES = [
    _side(disk, connection, role=role, replication=replication)
    for disk, connection, role in itertools.product(DISKS, CONNECTIONS, ROLES)
    for replication in (Replication.ESTABLISHED, Replication.SYNC_TARGET)
]
FAILED: tuple[frozenset[Step], ...] = (
    frozenset(),
    frozenset(Step(action, where) for action in Action for where in Where),
)


def _every_pair() -> list[Pair]:
    found: list[Pair] = []
    told: list[Told] = [*SIDES, *Unread]
    related = (SAME, OURS_NEWER, THEIRS_NEWER, SPLIT, SPLIT_BEFORE, SPLIT_BEFORE[::-1], FORGOTTEN, FORGOTTEN[::-1])
    relations = (*related, UNRELATED, (None, None))
    for ours, theirs, (first, second), failed in itertools.product(told, told, relations, FAILED):
        pair = Pair(_with(ours, first), _with(theirs, second), failed)
        found += [pair, *(dataclasses.replace(pair, discard=where) for where in Where)]
    return found


def _with(told: Told, generation: Generation | None) -> Told:
    if isinstance(told, Unread):
        return told
    return dataclasses.replace(told, volumes=(dataclasses.replace(told.volumes[0], generation=generation),))


def test_in_no_state_at_all_is_the_only_good_copy_thrown_away() -> None:
    destroyed = discarded = 0
    for pair in _every_pair():
        verdict = decide(pair)
        assert bool(verdict.steps) == (verdict.kind is Kind.REPAIR)
        assert bool(verdict.unblock) == (verdict.kind is Kind.REFUSED)
        for step in verdict.steps:
            if step.action in DESTRUCTIVE:
                kept = pair.secondary if step.where is Where.PRIMARY else pair.primary
                assert isinstance(kept, Side)
                whole = {Disk.OUTDATED, Disk.CONSISTENT} if step.action is Action.DISCARD else set()
                assert kept.volumes[0].disk in {GOOD, *whole}
                destroyed += 1
            if step.action in {Action.DISCARD, Action.GIVE_UP}:
                discarded += 1
                _check_discard(pair, step)
            if step == Step(Action.ATTACH, Where.PRIMARY):
                assert isinstance(pair.secondary, Side)
                assert pair.secondary.volumes[0].disk is GOOD
                assert pair.secondary.connection is CONNECTED
            assert step not in pair.failed or verdict.steps == (Step(Action.REPLACE, Where.SECONDARY),)
    assert destroyed > discarded > 0


def _check_discard(pair: Pair, step: Step) -> None:
    """Nothing is discarded but what a person named, on a side that is not primary, after a split brain."""
    assert step.where is pair.discard
    assert isinstance(pair.primary, Side)
    assert isinstance(pair.secondary, Side)
    lost = pair.primary if step.where is Where.PRIMARY else pair.secondary
    assert lost.role is Role.SECONDARY
    ours, theirs = pair.primary.volumes[0].generation, pair.secondary.volumes[0].generation
    assert ours is not None
    assert theirs is not None
    assert relation(ours, theirs) is Relation.SPLIT
    assert ours.bitmap == theirs.bitmap or step.action is Action.GIVE_UP
