"""The rule for a failover from a dead node, by its clauses: which one refuses, and that nothing else is let through."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import evidence, replicas
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.drbd import Connection, Disk, Role
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.replicas import Moment
from hypothesis import given
from hypothesis import strategies as st

INTERVAL = 10.0
OLD, NEW = 0x10, 0x20
POLLED = evidence.Asked(Moment(0.0), Moment(200.0))
"""Nobody has missed anything of the source: it was asked all the time."""
LIFE = evidence.Life(Moment(200.0), Moment(100.0), POLLED)
ASKED = evidence.Question("web1", ("r0",), "s", "t", "node1", "node2", LIFE, INTERVAL)


def fact(*, joined: bool, disk: Disk = Disk.UP_TO_DATE, current: int | None = OLD) -> replicas.ReplicaFact:
    """What a node reports of r0 while it has its peer, or has lost it."""
    state = Connection.CONNECTED if joined else Connection.CONNECTING
    return replicas.ReplicaFact(
        "r0", 0, Role.SECONDARY, state, disk, Disk.UP_TO_DATE if joined else Disk.UNKNOWN, current
    )


IN_SYNC, APART = fact(joined=True), fact(joined=False)


def node(*reports: tuple[float, replicas.ReplicaFact | None]) -> replicas.NodeTrack:
    """A node after its reports at these times; None is one without facts."""
    found: replicas.NodeTrack | None = None
    for at, said in reports:
        told = replicas.UNKNOWN if said is None else replicas.NodeFacts("", (said,))
        found = replicas.followed(found, told, at=Moment(at))
    assert found is not None
    return found


def judged(
    source: replicas.NodeTrack | None, target: replicas.NodeTrack | None, asked: evidence.Question = ASKED
) -> evidence.Evidence:
    known = {"s": source, "t": target}
    return evidence.judge(asked, {uuid: one for uuid, one in known.items() if one is not None})


def test_a_replica_counts_as_in_sync_though_it_lost_its_peer_after_the_last_sign_of_life() -> None:
    found = judged(node((95, IN_SYNC)), node((96, IN_SYNC), (105, APART), (115, APART)))
    assert (found.counts_as_in_sync, found.last_in_sync) == (True, 96.0)
    found = judged(node((95, IN_SYNC)), node((105, APART)))
    assert (found.counts_as_in_sync, found.last_in_sync) == (True, 95.0)


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (node((95, IN_SYNC)), None, "node2 has not reported"),
        (node((95, IN_SYNC)), node((96, None)), "the last report of node2 has no facts"),
        (node((95, IN_SYNC)), node((96, IN_SYNC), (97, None)), "the last report of node2 has no facts"),
        (None, node((105, APART)), "neither node has ever reported it in sync"),
        (node((95, APART)), node((105, APART)), "neither node has ever reported it in sync"),
        (node((79, IN_SYNC)), node((105, APART)), "21 s before the last sign of life of node1 .at most 20 s count"),
        (
            node((90, IN_SYNC), (95, APART)),
            node((105, APART)),
            "node1 reported at 1970-01-01 00:01:35 UTC that the pair",
        ),
        (node((90, IN_SYNC), (95, APART)), node((91, IN_SYNC)), "node1 reported at"),
        (node((95, IN_SYNC)), node((90, IN_SYNC), (99, APART)), "node2 reported .* while node1 was alive"),
        (node((95, IN_SYNC)), node((90, IN_SYNC), (99, APART), (120, APART)), "while node1 was alive"),
        (node((95, IN_SYNC)), node((93, APART), (120, APART)), "while node1 was alive"),
        (node((95, IN_SYNC)), node((105, fact(joined=False, disk=Disk.OUTDATED))), "it is Outdated on node2"),
        (node((95, IN_SYNC)), node((105, fact(joined=False, disk=Disk.INCONSISTENT))), "it is Inconsistent on node2"),
        (node((95, IN_SYNC)), node((105, fact(joined=False, disk=Disk.CONSISTENT))), "it is Consistent on node2"),
        (node((95, IN_SYNC)), node((105, fact(joined=False, current=None))), "its generation is not known"),
        (node((95, fact(joined=True, current=None))), node((105, APART)), "its generation is not known"),
        (
            node((95, IN_SYNC)),
            node((105, fact(joined=False, current=NEW))),
            "its generation is 0{14}20, and was 0{14}10",
        ),
    ],
)
def test_what_is_not_known_to_be_in_sync_is_refused_with_what_helps(
    source: replicas.NodeTrack | None, target: replicas.NodeTrack | None, text: str
) -> None:
    found = judged(source, target)
    assert not found.counts_as_in_sync
    assert re.search(text, found.reason)
    assert found.reason.startswith("the replica of web1 on node2 is not known to be in sync: ")
    assert "\n" not in found.reason + found.unblock
    assert "`roundsman instance failover web1 --ignore-consistency`" in found.unblock


def test_a_target_that_was_promoted_alone_since_is_still_the_replica_that_was_in_sync() -> None:
    """A failover that was killed after the promotion leaves a new generation there, whose bitmap is of the old one."""
    promoted = dataclasses.replace(fact(joined=False, current=NEW), bitmap=OLD)
    assert judged(node((95, IN_SYNC)), node((105, APART), (115, promoted))).counts_as_in_sync
    older = dataclasses.replace(promoted, bitmap=0x30)
    assert "its generation is" in judged(node((95, IN_SYNC)), node((105, older))).reason
    unknown = dataclasses.replace(promoted, bitmap=None)
    assert "its generation is" in judged(node((95, IN_SYNC)), node((105, unknown))).reason
    nothing = fact(joined=True, current=0), dataclasses.replace(promoted, bitmap=0)
    assert "its generation is" in judged(node((95, nothing[0])), node((105, nothing[1]))).reason


def test_a_resource_that_is_down_on_the_target_is_refused() -> None:
    target = replicas.followed(None, replicas.NodeFacts("", ()), at=Moment(105))
    assert "r0 is down on node2" in judged(node((95, IN_SYNC)), target).reason


def test_a_source_that_was_never_heard_of_is_refused() -> None:
    never = dataclasses.replace(ASKED, life=evidence.Life(Moment(200.0), None, POLLED))
    assert "nothing is known of when node1 was last alive" in judged(None, node((96, IN_SYNC)), never).reason


def living(**known: Any) -> evidence.Question:
    """The question about a source of whose life something else is known."""
    return dataclasses.replace(ASKED, life=dataclasses.replace(LIFE, **known))


def polled(since: float, last: float) -> evidence.Asked:
    """A time in which it was asked."""
    return evidence.Asked(Moment(since), Moment(last))


def test_a_time_in_which_nobody_asked_counts_as_life_for_the_age_and_not_for_the_target() -> None:
    nodes = node((95, IN_SYNC)), node((105, APART))
    assert judged(*nodes, living(asked=polled(114, 200))).counts_as_in_sync
    restarted = judged(*nodes, living(asked=polled(116, 200)))
    assert "21 s before 1970-01-01 00:01:56 UTC, until when nobody knows of a silence of node1" in restarted.reason
    assert not judged(*nodes, living(asked=None)).counts_as_in_sync, "it may live now"
    assert judged(*nodes, living(asked=None, off=Moment(114.0))).counts_as_in_sync
    assert not judged(*nodes, living(asked=None, off=Moment(116.0))).counts_as_in_sync


@pytest.mark.parametrize(
    ("last", "off", "fine"),
    [
        (112.0, None, False),  # It answered the last question, and nobody has asked since.
        (112.0, 113.0, True),
        (112.0, 116.0, False),
        (115.0, 120.0, True),  # It did not answer the last one, and was soon known to be off.
        (115.0, 136.0, False),
        (115.0, None, False),
        (160.0, 150.0, True),  # It is off, and was asked all the same.
    ],
)
def test_a_node_that_is_not_asked_any_more_has_lived_until_it_is_known_to_be_off(
    last: float, off: float | None, fine: bool
) -> None:
    alive = last if last == 112.0 else 100.0
    seen_off = None if off is None else Moment(off)
    asked = living(alive=Moment(alive), asked=polled(0, last), is_asked=False, off=seen_off)
    assert judged(node((95, IN_SYNC)), node((116, APART)), asked).counts_as_in_sync == fine


def test_any_sign_of_life_counts_and_none_before_it_is_a_death() -> None:
    """Its agent has been silent since 100, its replica is stale since 104, and its BMC read on at 150."""
    nodes = node((95, IN_SYNC)), node((105, APART), (160, APART))
    assert judged(*nodes).counts_as_in_sync
    found = judged(*nodes, living(alive=Moment(150.0), off=Moment(170.0)))
    assert "55 s before the last sign of life of node1" in found.reason
    assert found.seen_off == 170.0
    assert judged(nodes[0], node((145, IN_SYNC), (160, APART)), living(alive=Moment(150.0))).counts_as_in_sync
    revived = judged(*nodes, living(alive=Moment(150.0), off=Moment(110.0)))
    assert (revived.counts_as_in_sync, revived.seen_off) == (False, 0.0), "it lived after it was known to be off"


def test_a_source_that_lived_after_it_was_known_to_be_off_is_to_be_confirmed_again_whatever_the_replica_says() -> None:
    nodes = node((195, IN_SYNC)), node((196, IN_SYNC))
    assert judged(*nodes, living(alive=Moment(195.0), off=Moment(198.0))).counts_as_in_sync
    lived = dataclasses.replace(living(alive=Moment(195.0), off=Moment(190.0)), confirm_again="confirm it again")
    found = judged(*nodes, lived)
    assert (found.counts_as_in_sync, found.seen_off) == (False, 0.0)
    assert "node1 showed that it lives, although node1 was known to be off since" in found.reason
    assert found.unblock.startswith("confirm it again, or `roundsman instance failover web1 --ignore-consistency`")
    assert "which starts a second copy if node1 runs" in found.unblock
    assert "starts a second copy" not in judged(node((80, IN_SYNC)), node((80, IN_SYNC))).unblock


def test_a_gap_between_two_questions_begins_the_asking_anew() -> None:
    asked = polled(0, 100).again(Moment(120.0), gap=20.0)
    assert asked == polled(0, 120)
    assert asked.again(Moment(141.0), gap=20.0) == polled(141, 141)


@pytest.mark.parametrize("later", [Moment(7320.0, 110.0), Moment(110.0, 7320.0), Moment(-7000.0, 110.0)])
def test_a_pause_that_only_one_clock_counts_and_a_step_begin_the_asking_anew(later: Moment) -> None:
    asked = evidence.Asked(Moment(0.0, 0.0), Moment(100.0, 100.0))
    assert asked.again(later, gap=20.0) == evidence.Asked(later, later)
    assert asked.again(Moment(112.0, 110.0), gap=20.0).since == asked.since


def test_a_target_that_was_connected_long_after_the_source_was_known_to_be_off_proves_that_it_was_not() -> None:
    """DRBD takes seconds to notice, and a clock that is ahead up to an interval: that much proves nothing."""
    life = living(alive=Moment(100.0), off=Moment(101.0), is_asked=False)
    within = 101.0 + INTERVAL + evidence.NOTICED
    assert judged(node((95, IN_SYNC)), node((within, IN_SYNC), (within + 10, APART)), life).counts_as_in_sync
    found = judged(node((95, IN_SYNC)), node((within + 1, IN_SYNC), (within + 10, APART)), life)
    assert (
        "node2 reported at 1970-01-01 00:02:12 UTC that it was connected to node1, although node1 was known to be off"
        in found.reason
    )
    assert evidence.loss(found, now=500.0) == pytest.approx(500.0 - 132.0), "it may write still"
    again = living(alive=Moment(132.0), off=Moment(140.0), is_asked=False)
    assert judged(node((95, IN_SYNC)), node((within + 1, IN_SYNC), (within + 10, APART)), again).counts_as_in_sync


@pytest.mark.parametrize("polls", [0, 1, 2])
def test_a_pause_of_the_controller_that_its_monotonic_clock_does_not_count_is_no_silence_of_the_source(
    polls: int,
) -> None:
    """The controller is suspended for two hours, and the source writes on; its secondary loses it then."""
    last = Moment(95.0, 95.0)
    asked = evidence.Asked(Moment(0.0, 0.0), Moment(100.0, 100.0))
    for number in range(polls):
        asked = asked.again(Moment(7310.0 + 5 * number, 110.0 + 5 * number), gap=ASKED.gap)
    source = replicas.followed(None, replicas.NodeFacts("", (IN_SYNC,)), at=last)
    target = replicas.followed(None, replicas.NodeFacts("", (APART,)), at=Moment(7312.0, 112.0))
    life = evidence.Life(Moment(7318.0, 118.0), Moment(100.0, 100.0), asked)
    for off in (None, Moment(7317.0)):
        stopped = dataclasses.replace(life, is_asked=off is None, off=off)
        found = judged(source, target, dataclasses.replace(ASKED, life=stopped))
        assert "until when nobody knows of a silence of node1" in found.reason


def test_a_refusal_that_only_the_clock_of_the_target_causes_names_that_clock() -> None:
    """Its clock is 45 s behind: it lost its peer at 105, after the source's last sign of life, and says 60."""
    target = node((50, IN_SYNC), (60, APART))
    slow = dataclasses.replace(target, lag=45.0)
    text = (
        "while node1 was alive, by the clock of node2: its last report is dated 45 s before it came, so see that clock"
    )
    assert text in judged(node((95, IN_SYNC)), slow).reason
    assert "clock" not in judged(node((95, IN_SYNC)), dataclasses.replace(target, lag=39.0)).reason


def test_a_parting_on_record_stands_until_the_source_itself_reports_in_sync_later() -> None:
    parted = dataclasses.replace(ASKED, parted=replicas.Parted(97.0, 90.0, "s"))
    for source in (node((95, IN_SYNC)), None):
        for target in (node((96, IN_SYNC), (105, APART)), node((98, IN_SYNC), (105, APART)), node((99, IN_SYNC))):
            assert "node1 reported at 1970-01-01 00:01:37 UTC" in judged(source, target, parted).reason
    assert judged(node((98, IN_SYNC)), node((105, APART)), parted).counts_as_in_sync


@pytest.mark.parametrize("target", [node((96, IN_SYNC)), node((99, IN_SYNC), (105, APART))])
def test_no_report_of_the_target_cancels_that_the_source_writes_alone(target: replicas.NodeTrack) -> None:
    """It lies, noticed the cut later, or the source's clock is behind."""
    found = judged(node((90, IN_SYNC), (95, APART)), target)
    assert "node1 reported at 1970-01-01 00:01:35 UTC that the pair is not in sync" in found.reason
    assert found.last_in_sync == 90.0, "the possible loss begins there"
    recorded = dataclasses.replace(ASKED, parted=replicas.Parted(95.0, 89.0, "s"))
    assert judged(None, target, recorded).last_in_sync == 89.0
    other = dataclasses.replace(recorded, parted=replicas.Parted(95.0, 89.0, "t"))
    assert judged(node((95, APART)), target, other).last_in_sync == 0.0, "the target wrote alone before it failed over"


def test_one_volume_that_is_not_in_sync_is_enough() -> None:
    asked = dataclasses.replace(ASKED, resources=("r0", "r1"))
    assert "r1 is down on node2" in judged(node((95, IN_SYNC)), node((105, APART)), asked).reason
    other = dataclasses.replace(IN_SYNC, volume=1)
    source = replicas.followed(None, replicas.NodeFacts("", (IN_SYNC, other)), at=Moment(95))
    assert "r0: node2 does not say how it is" in judged(source, node((105, APART))).reason
    assert (
        "no disk of it is known" in judged(source, node((96, IN_SYNC)), dataclasses.replace(ASKED, resources=())).reason
    )


def test_of_several_disks_the_one_that_was_in_sync_longest_ago_says_which_writes_may_be_lost() -> None:
    for old, new in ((0, 1), (1, 0)):
        first, second = (dataclasses.replace(IN_SYNC, volume=number) for number in (old, new))
        lost = dataclasses.replace(APART, volume=old)
        source = replicas.followed(None, replicas.NodeFacts("", (first, second)), at=Moment(85))
        source = replicas.followed(source, replicas.NodeFacts("", (lost, second)), at=Moment(95))
        assert judged(source, node((105, APART))).last_in_sync == 85.0
    asked = dataclasses.replace(ASKED, resources=("r0", "r1"))
    found = judged(node((95, IN_SYNC)), node((105, APART)), asked)
    assert evidence.loss_text(found, now=500.0) == "possible loss: all writes since an unknown time", "r1 never was"
    target = None
    for at, second in ((90, IN_SYNC), (95, APART)):
        both = replicas.NodeFacts("", (IN_SYNC, dataclasses.replace(second, resource="r1")))
        target = replicas.followed(target, both, at=Moment(at))
    assert judged(None, target, asked).last_in_sync == 90.0, "r0 was later than r1"


WORDS = [IN_SYNC, APART, fact(joined=True, disk=Disk.INCONSISTENT), None]
HISTORIES = list(itertools.product(WORDS, repeat=2))


@pytest.mark.parametrize("last", [*WORDS, fact(joined=False, disk=Disk.OUTDATED), fact(joined=False, current=NEW)])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("behind", [0.0, 6.0])
def test_of_all_histories_only_those_of_the_rule_are_let_through(
    last: replicas.ReplicaFact | None, late: bool, behind: float
) -> None:
    """Two reports of each node while the source lived (90, 95), and one of the target then (late: after it died).

    The source's clock may be behind by some seconds.
    """
    for ours, theirs in itertools.product(HISTORIES, HISTORIES):
        at = 105.0 if late else 99.0
        source, target = node(*zip((90 - behind, 95 - behind), theirs, strict=True)), node((90, ours[0]), (95, ours[1]))
        target = replicas.followed(
            target, replicas.UNKNOWN if last is None else replicas.NodeFacts("", (last,)), at=Moment(at)
        )
        found = judged(source, target).counts_as_in_sync
        assert found == _is_fine(theirs, ours, last, late=late), (theirs, ours, last)
        words = [said for said in theirs if said is not None]
        assert not (found and words[-1:] not in ([], [IN_SYNC])), "its newest word is that it is alone"


def _is_fine(
    theirs: tuple[replicas.ReplicaFact | None, ...],
    ours: tuple[replicas.ReplicaFact | None, ...],
    last: replicas.ReplicaFact | None,
    *,
    late: bool,
) -> bool:
    """The rule in the words of the issue, on histories and not on tracks."""
    timed = [*zip((90.0, 95.0, 105.0 if late else 99.0), (*ours, last), strict=True)]
    if IN_SYNC not in {*theirs, *ours, last} or last is None:
        return False
    if last.disk is not Disk.UP_TO_DATE or last.current != OLD:
        return False
    if next((said for said in reversed(theirs) if said is not None), IN_SYNC) != IN_SYNC:
        return False
    own = [at for at, said in timed if said == IN_SYNC]
    return not any(said not in {None, IN_SYNC} and at > max(own, default=0.0) and at <= 100.0 for at, said in timed)


@given(st.floats(0, 200), st.floats(0, 200))
def test_the_age_counts_from_the_last_sign_of_life_and_not_from_now(synced: float, life: float) -> None:
    asked = living(alive=Moment(life))
    target = node((synced, IN_SYNC), (10**6, APART))
    assert judged(None, target, asked).counts_as_in_sync == (life - synced <= evidence.window(INTERVAL))


@pytest.mark.parametrize(
    ("found", "now", "seconds", "text"),
    [
        (evidence.Evidence(last_in_sync=90.0, seen_off=104.2), 500.0, 14.2, "possible loss: writes of the last 15 s"),
        (evidence.Evidence(last_in_sync=90.0), 100.0, 10.0, "possible loss: writes of the last 10 s"),
        (evidence.Evidence(last_in_sync=110.0, seen_off=104.0), 500.0, 0.0, "possible loss: writes of the last 0 s"),
        (evidence.Evidence(), 100.0, None, "possible loss: all writes since an unknown time"),
    ],
)
def test_the_possible_loss_is_from_the_last_fact_in_sync_to_the_moment_the_source_was_seen_off(
    found: evidence.Evidence, now: float, seconds: float | None, text: str
) -> None:
    assert evidence.loss(found, now=now) == (None if seconds is None else pytest.approx(seconds))
    assert evidence.loss_text(found, now=now) == text


MAKING = dataclasses.replace(ASKED, made_on=("node3",), made_since=85.0)


def test_a_secondary_does_not_count_while_its_primary_may_write_to_a_replica_that_is_being_made() -> None:
    target = node((84, IN_SYNC), (95, APART))
    for source in (node((99, IN_SYNC)), node((80, IN_SYNC), (99, IN_SYNC)), node((99, APART)), None):
        found = judged(source, target, MAKING)
        assert not found.counts_as_in_sync
        assert found.reason == (
            "the replica of web1 on node2 is not known to be in sync: node1 may have written to a new replica on node3 "
            "and not to node2 any more since 1970-01-01 00:01:25 UTC, because replace-disks has not ended"
        )
        assert found.unblock == (
            "node1 back in service, then `roundsman instance replace-disks web1 --to node3` (if node3 does not come "
            "back, with `--to` another node, or with `--to node2`, which replaces the replica there); or `roundsman "
            "instance failover web1 --ignore-consistency`, which loses what was written since. Keep the replica on "
            "node3: it may have what node2 lacks"
        )


def test_what_a_primary_reports_in_sync_while_a_new_replica_is_made_does_not_lower_the_loss_of_its_secondary() -> None:
    target = node((84, IN_SYNC), (95, APART))
    assert judged(node((99, IN_SYNC)), target, MAKING).last_in_sync == 84.0, "its peer may be the new one"
    assert judged(node((99, IN_SYNC)), node((95, APART)), MAKING).last_in_sync == 0.0
    assert judged(node((82, IN_SYNC)), node((95, APART)), MAKING).last_in_sync == 82.0
    assert judged(node((82, IN_SYNC)), node((92, IN_SYNC)), MAKING).last_in_sync == 92.0, "it was its peer then"
    assert judged(node((83, IN_SYNC), (90, APART)), node((86, IN_SYNC), (95, APART)), MAKING).last_in_sync == 83.0
