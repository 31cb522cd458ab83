from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import losses, orders

from tests.unit.daemon.lab import written

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILOVER = {"instance": "web1", "source": "node2", "target": "node3"}
YESTERDAY = {"possible_loss": {"seconds": 86_400.0, "last_in_sync": 1.0, "ignored": False}}


def fail_over(journal: written.Journal, *, died: float, lost: int) -> None:
    """Let web1 die on node2 with write 5000, and start on node3 ten seconds later without its last writes."""
    journal.web1(died, "node2", "stopped", "power off", why="power", counter=5000)
    journal.answers(died, "node2", "not")
    journal.web1(died + 10, "node3", "started", "1/0", counter=5000 - lost)


def ordered(started: float, **params: object) -> orders.Orders:
    failed_over = written.opcode(
        "failover", started=started, ended=started + 20, result=YESTERDAY, **{**FAILOVER, **params}
    )
    return written.ordered(failed_over)


def found(
    journal: written.Journal, limits: Mapping[str, float] | None = None, *, started: float, **params: object
) -> list[str]:
    return losses.writes(journal.events, ordered(started, **params), journal.seen, limits or {})


def counted(journal: written.Journal, **params: object) -> list[losses.Lost]:
    return losses.lost(journal.events, ordered(302, **params), journal.seen, {})


@pytest.mark.parametrize(
    ("lost", "limits", "accepted", "count"),
    [
        (20, {}, None, 0),
        (5 * 120, {}, None, 0),
        (5 * 120 + 1, {}, None, 1),
        (5 * 120 + 1, {}, 121, 0),
        (5 * 122, {}, 121, 1),
        (20, {"web1": 3.0}, None, 1),
        (20, {"web1": 4.0}, None, 0),
        (1, {"web1": 0.0}, None, 1),
        (1, {"web1": 0.0}, 1, 0),
        (20, {"other": 0.0}, None, 0),
    ],
)
def test_more_than_the_limit_is_lost_only_where_a_person_accepted_it_whatever_was_stated(
    lost: int, limits: dict[str, float], accepted: int | None, count: int
) -> None:
    journal = written.Journal()
    journal.report("node2", 0, 300)
    fail_over(journal, died=300, lost=lost)
    wrong = found(journal, limits, started=302, max_loss=accepted)
    assert len(wrong) == count
    if count:
        assert wrong[0].startswith(f"web1 lost {lost} acknowledged writes ({lost / 5:g} s): it started on node3")
        assert found(journal, limits, started=302, ignore_consistency=True) == []


def test_that_a_node_was_silent_or_the_controller_frozen_is_no_excuse_for_more_than_the_limit() -> None:
    journal = written.Journal()
    journal.report("node2", 0, 300)
    journal.answers(100, "node2", "not")
    journal.deaf(205, until=298)
    fail_over(journal, died=300, lost=5 * 200)
    (wrong,) = found(journal, started=302)
    assert wrong.endswith("; nobody accepted more than the limit of 120 s")


@pytest.mark.parametrize(("stated", "count"), [(3.7, 1), (4.0, 0)])
def test_what_is_stated_is_not_less_than_what_is_lost_though_a_person_accepts_more(stated: float, count: int) -> None:
    journal = written.Journal()
    fail_over(journal, died=300, lost=20)
    result = {"possible_loss": {"seconds": stated, "last_in_sync": 1.0, "ignored": False}}
    order = written.opcode("failover", started=302, ended=322, result=result, **FAILOVER, max_loss=600)
    wrong = losses.writes(journal.events, written.ordered(order), journal.seen, {})
    assert [text.rpartition("; ")[2] for text in wrong] == [f"only the loss of {stated:g} s was stated"] * count


def test_every_loss_is_counted_in_writes_and_seconds_the_allowed_ones_too() -> None:
    journal = written.Journal()
    fail_over(journal, died=300, lost=20)
    (lost,) = counted(journal)
    assert (lost.writes, lost.seconds, lost.stated, lost.limit, lost.problem) == (20, 4.0, 86_400.0, 120.0, "")
    assert lost.text.endswith("(opcode 1/0); 86400 s were stated, and the limit is 120 s")
    (lost,) = counted(journal, max_loss=600)
    assert lost.text.endswith("; 86400 s were stated, and a person accepted 600 s")
    (lost,) = counted(journal, ignore_consistency=True)
    assert lost.text.endswith("; a person gave them up")
    kept = written.Journal()
    fail_over(kept, died=300, lost=0)
    assert counted(kept) == []


def test_writes_of_a_primary_that_had_reported_that_it_is_alone_are_not_lost_unasked() -> None:
    journal = written.Journal()
    journal.report("node2", 0, 280)
    journal.part(280)
    journal.report("node2", 280, 292, alone=True)
    fail_over(journal, died=292, lost=60)
    (wrong,) = found(journal, started=294)
    assert wrong.endswith("node2 had reported for 11 s that it wrote web1 without its secondary")
    assert found(journal, started=294, ignore_consistency=True) == []
    assert found(journal, started=282) == [], "it had begun before that was reported"


@pytest.mark.parametrize(("ignores", "stopped", "count"), [(True, 90, 0), (False, 90, 1), (True, 110, 1)])
def test_the_first_start_after_a_failover_while_it_was_down_loses_what_that_gave_up(
    ignores: bool, stopped: float, count: int
) -> None:
    journal = written.Journal()
    journal.web1(stopped, "node2", "stopped", "9/0", counter=5000)
    journal.web1(130, "node3", "started", "2/0", counter=4000)
    failed_over = written.opcode("failover", started=100, ended=105, ignore_consistency=ignores, **FAILOVER)
    start = written.opcode("startup", started=125, ended=131, instance="web1")
    assert len(losses.writes(journal.events, written.ordered(failed_over, start), journal.seen, {})) == count


@pytest.mark.parametrize(("failed", "target", "count"), [(False, "node3", 0), (True, "node3", 1), (False, "node4", 1)])
def test_only_a_failover_that_succeeded_and_led_to_this_node_gave_writes_up_for_a_later_start(
    failed: bool, target: str, count: int
) -> None:
    journal = written.Journal()
    journal.web1(90, "node2", "stopped", "9/0", counter=5000)
    journal.web1(130, "node3", "started", "2/0", counter=4000)
    given = {**FAILOVER, "target": target}
    order = written.opcode("failover", started=100, ended=105, ignore_consistency=True, **given)
    order = dataclasses.replace(order, status=values.Status.ERROR) if failed else order
    start = written.opcode("startup", started=125, ended=131, instance="web1")
    assert len(losses.writes(journal.events, written.ordered(order, start), journal.seen, {})) == count


def test_the_last_failover_while_an_instance_was_down_decides_what_its_start_may_lose() -> None:
    journal = written.Journal()
    journal.web1(90, "node2", "stopped", "9/0", counter=5000)
    journal.web1(130, "node3", "started", "3/0", counter=4000)
    first = written.opcode("failover", started=100, ended=105, ignore_consistency=True, **FAILOVER)
    last = written.opcode("failover", started=110, ended=115, **FAILOVER)
    start = written.opcode("startup", started=125, ended=131, instance="web1")
    assert len(losses.writes(journal.events, written.ordered(first, last, start), journal.seen, {})) == 1


def test_an_end_with_fewer_writes_does_not_lower_what_was_acknowledged() -> None:
    journal = written.Journal()
    journal.web1(90, "node2", "stopped", counter=5000)
    journal.web1(100, "node3", "stopped", counter=4000)
    journal.web1(130, "node3", "started", "1/0", counter=4000)
    start = written.opcode("startup", started=125, ended=131, instance="web1")
    (wrong,) = losses.writes(journal.events, written.ordered(start), journal.seen, {})
    assert wrong.startswith("web1 lost 1000 acknowledged writes")


@pytest.mark.parametrize("disturbance", ["silent", "garbage", "frozen", "short", "together again"])
def test_reports_that_nobody_may_have_heard_prove_nothing(disturbance: str) -> None:
    journal = written.Journal()
    journal.part(280)
    journal.report("node2", 280 if disturbance != "short" else 287, 292, alone=True)
    if disturbance in {"silent", "garbage"}:
        journal.answers(285, "node2", "not" if disturbance == "silent" else "badly")
        journal.answers(286, "node2", "well")
    elif disturbance == "frozen":
        journal.deaf(285, until=286)
    elif disturbance == "together again":
        journal.report("node2", 292, 293)
    fail_over(journal, died=294, lost=60)
    assert found(journal, started=296) == []


def test_a_loss_by_hand_is_judged_by_the_same_rule() -> None:
    journal = written.Journal()
    journal.report("node2", 280, 292, alone=True)
    fail_over(journal, died=292, lost=60)
    events = [{**event, "opcode": "by hand"} if event["opcode"] == "1/0" else event for event in journal.events]
    said = orders.Stated(294.0, "web1", "node2", "node3", 86_400.0)
    assert len(losses.writes(events, written.ordered(stated=(said,)), journal.seen, {})) == 1
    ignored = orders.Stated(294.0, "web1", "node2", "node3", None, is_ignored=True)
    assert losses.writes(events, written.ordered(stated=(ignored,)), journal.seen, {}) == []


def test_a_failover_that_was_killed_after_the_start_has_no_result_and_was_announced() -> None:
    journal = written.Journal()
    journal.report("node2", 0, 300)
    fail_over(journal, died=300, lost=20)
    killed = written.opcode("failover", started=302, instance="web1", source="node2", target="node3")
    assert len(losses.writes(journal.events, written.ordered(killed), journal.seen, {})) == 1
    for seconds, wrong in ((6.0, 0), (0.0, 1)):
        said = orders.Stated(308.0, "web1", "node2", "node3", seconds, by="1/0")
        announced = written.ordered(killed, stated=(said,))
        assert len(losses.writes(journal.events, announced, journal.seen, {})) == wrong


def test_what_was_announced_does_not_excuse_a_failover_that_succeeded_and_said_that_it_loses_nothing() -> None:
    journal = written.Journal()
    journal.report("node2", 0, 300)
    fail_over(journal, died=300, lost=20)
    said = orders.Stated(308.0, "web1", "node2", "node3", 6.0, by="1/0")
    succeeded = written.opcode("failover", started=302, ended=320, **FAILOVER)
    announced = written.ordered(succeeded, stated=(said,))
    assert len(losses.writes(journal.events, announced, journal.seen, {})) == 1


@pytest.mark.parametrize(
    ("order", "is_allowed"),
    [
        (written.opcode("repair_disks", started=90, ended=110, instance="web1"), False),
        (written.opcode("repair_disks", started=90, ended=110, instance="web1", discard="node3"), True),
        (written.opcode("repair_disks", started=-530, ended=-500, instance="web1", discard="node3"), True),
        (written.opcode("repair_disks", started=-530, ended=-501, instance="web1", discard="node3"), False),
        (written.opcode("repair_disks", started=90, ended=110, instance="web1", discard="node2"), False),
        (written.opcode("repair_disks", started=110, ended=111, instance="web1", discard="node3"), False),
        (written.opcode("instance_create", started=10, ended=20, instance="web1"), False),
        (written.opcode("recreate_disks", started=90, ended=110, instance="web1"), True),
    ],
)
def test_writes_that_only_one_side_of_a_split_brain_has_are_overwritten_only_where_a_person_named_it(
    order: object, is_allowed: bool
) -> None:
    journal = written.Journal()
    journal.web1(100, "node3", "overwritten", counter=50, newest=80, lost=20)
    wrong = losses.writes(journal.events, written.ordered(order), journal.seen, {})  # type: ignore[arg-type]
    assert (wrong == []) is is_allowed


def test_the_secondary_of_a_primary_without_a_disk_is_not_removed() -> None:
    journal = written.Journal()
    journal.web1(100, "node3", "replica removed", "1/0", counter=80, newest=50)
    order = written.opcode("replace_disks", started=90, ended=110, instance="web1", old="node3", new="node3")
    before = written.opcode("repair_disks", started=20, ended=30, instance="web1", discard="node3")
    (wrong,) = losses.writes(journal.events, written.ordered(order, before), journal.seen, {})
    assert wrong.startswith("the newest replica of web1 was removed on node3")


@pytest.mark.parametrize(("seconds", "is_about"), [(600.0, True), (601.0, False)])
def test_a_play_by_hand_may_have_done_what_happens_up_to_ten_minutes_after_it_announced_it(
    seconds: float, is_about: bool
) -> None:
    assert orders.Stated(100.0, "web1", "node2", "node3", 0.0).is_about(100.0 + seconds) is is_about


def test_a_start_that_reads_the_last_acknowledged_write_loses_nothing_whoever_did_it() -> None:
    journal = written.Journal()
    journal.web1(90, "node2", "stopped", counter=5000)
    journal.web1(130, "node3", "started", "unknown", counter=5000)
    assert losses.writes(journal.events, written.ordered(), journal.seen, {}) == []


def test_only_the_replicas_that_a_person_gives_up_are_given_up_and_not_what_the_opcode_does_beside() -> None:
    recreated = written.opcode("recreate_disks", started=80, ended=140, instance="web1")
    for event, count in (("replica removed", 0), ("stopped", 1)):
        journal = written.Journal()
        journal.web1(90, "node2", "stopped", counter=5000)
        journal.web1(100, "node2", event, "1/0", counter=5000)
        journal.web1(130, "node3", "started", "9/0", counter=4000)
        assert len(losses.writes(journal.events, written.ordered(recreated), journal.seen, {})) == count


@pytest.mark.parametrize(
    ("counter", "newest", "count"), [(80, 80, 0), (80, 81, 0), (81, 80, 1), (1, 0, 1), (1, None, 1), (0, None, 0)]
)
def test_a_replica_may_be_removed_while_another_one_has_as_many_writes(
    counter: int, newest: int | None, count: int
) -> None:
    journal = written.Journal()
    journal.web1(100, "node3", "replica removed", "1/0", counter=counter, newest=newest)
    wrong = losses.writes(journal.events, written.ordered(), journal.seen, {})
    assert len(wrong) == count
    assert all(f"no other had more than {newest or 0} " in text for text in wrong)


@pytest.mark.parametrize(
    ("event", "counter", "count"),
    [("replica removed", 5000, 0), ("replica removed", 5001, 1), ("overwritten", 5000, 1)],
)
def test_writes_that_were_given_up_for_a_start_may_go_with_their_replica_and_in_no_resync(
    event: str, counter: int, count: int
) -> None:
    journal = written.Journal()
    fail_over(journal, died=300, lost=1000)
    journal.web1(350, "node2", event, "9/0", counter=counter, newest=4000)
    assert len(found(journal, started=302, ignore_consistency=True)) == count


def test_events_that_tell_of_no_write_are_not_judged() -> None:
    journal = written.Journal()
    for second, event in enumerate(("started", "stopped", "replica removed", "overwritten", "replica created")):
        journal.web1(90 + second, "node2", event)
    journal.web1(100, "node3", "parted", counter=80, newest=50)
    assert losses.writes(journal.events, written.ordered(), journal.seen, {}) == []
