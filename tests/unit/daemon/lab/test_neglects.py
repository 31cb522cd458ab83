from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.roundsman.cluster.daemon.jobs import values
from ansible_collections.roundsman.cluster.daemon.lab import neglects
from ansible_collections.roundsman.cluster.daemon.maintenance import replicas

from tests.unit.daemon.lab import written

PAIRS = {"web1": ("node2", "node3")}


def parted(*, until: int = 300) -> written.Journal:
    """A pair that parts at 100 s, of which both nodes report each second."""
    journal = written.Journal()
    journal.part(100)
    journal.report("node2", 0, until, alone=True)
    journal.report("node3", 0, until)
    return journal


def outdated(journal: written.Journal, *opcodes: object, now: int = 300) -> list[str]:
    orders = written.ordered(*opcodes)  # type: ignore[arg-type]
    return list(neglects.never_outdated(orders, journal.seen, pairs=PAIRS, now=now * written.SECOND))


def test_a_secondary_that_its_running_primary_has_lost_for_long_is_outdated() -> None:
    (wrong,) = outdated(parted())
    assert wrong == (
        "web1-disk0 on node3 was not outdated for 199 s, though node2 ran web1 without it and both nodes reported"
    )
    assert outdated(parted(), now=195) == [], "90 s and three polls of 2 s have not passed"
    assert len(outdated(parted(), now=197)) == 1


def test_the_daemon_has_time_for_another_try() -> None:
    known = neglects.RETRY, neglects.OFTEN_FAILED, neglects.SELDOM
    assert known == (replicas.RETRY, replicas.OFTEN_FAILED, replicas.SELDOM)
    assert neglects.QUEUE >= 20


def tried(count: int, *, last: values.Status = values.Status.ERROR) -> list[values.Opcode]:
    """Outdatings that failed, one each second from 111 s on, and how the last of them ended."""
    times = range(110, 110 + count)
    found = [written.opcode("outdate_replica", started=at, ended=at + 1, instance="web1", node="node3") for at in times]
    failed = [dataclasses.replace(one, status=values.Status.ERROR) for one in found[:-1]]
    return [*failed, dataclasses.replace(found[-1], status=last)]


@pytest.mark.parametrize(
    ("opcodes", "until"),
    [
        (tried(29), 139 + 60 + 30 + 6),
        (tried(30), 140 + 600 + 30 + 6),
        (tried(30, last=values.Status.SUCCESS), 140 + 60 + 30 + 6),
    ],
)
def test_an_outdating_that_has_often_failed_is_repeated_less_often(opcodes: list[values.Opcode], until: int) -> None:
    assert outdated(parted(until=900), *opcodes, now=until) == []
    assert len(outdated(parted(until=900), *opcodes, now=until + 2)) == 1


def test_what_failed_before_the_pair_was_connected_again_is_not_counted() -> None:
    journal = parted()
    journal.replica(125, "node2", "Primary", "UpToDate", "node3", is_connected=True)
    journal.part(127)
    assert len(outdated(journal, *tried(30))) == 1


@pytest.mark.parametrize("what", ["outdated", "together", "demoted"])
def test_one_that_was_outdated_or_is_together_with_its_primary_again_is_in_order(what: str) -> None:
    journal = parted()
    if what == "outdated":
        journal.replica(150, "node3", "Secondary", "Outdated", "node2", is_connected=False)
    elif what == "together":
        journal.replica(150, "node2", "Primary", "UpToDate", "node3", is_connected=True)
        journal.replica(150, "node3", "Secondary", "UpToDate", "node2", is_connected=True)
    else:
        journal.replica(150, "node2", "Secondary", "UpToDate", "node3", is_connected=False)
    assert outdated(journal) == []


def test_one_that_nobody_could_outdate_is_in_order() -> None:
    for node in ("node2", "node3"):
        silent = parted()
        silent.answers(150, node, "not")
        silent.answers(250, node, "well")
        assert outdated(silent) == []
    frozen = parted()
    frozen.deaf(150, until=250)
    assert outdated(frozen) == []
    assert outdated(parted(until=110)) == [], "no reports came"
    assert outdated(parted(), written.opcode("outdate_replica", started=150, instance="web1", node="node3")) == []
    assert outdated(parted(), written.opcode("outdate_replica", started=0, instance="web1", node="node3")) == []
    offline = written.opcode("node_role", started=50, ended=51, node="node3", offline=True)
    assert outdated(parted(), offline) == []
    back = written.opcode("node_role", started=90, ended=91, node="node3", offline=False)
    assert len(outdated(parted(), offline, back)) == 1


@pytest.mark.parametrize(("at", "is_right"), [(60, True), (40, False)])
def test_one_that_was_written_alone_since_they_parted_is_for_a_person(at: int, is_right: bool) -> None:
    """It ran on node3 alone, until its power was cut; then a person had it started on node2 without what was there."""
    journal = written.Journal()
    states = [
        (at, "Primary", False),
        (at + 5, "Secondary", False),
        (50, "Secondary", True),
        (90, "Secondary", False),
    ]
    for since, role, is_connected in sorted(states):
        journal.replica(since, "node3", role, "UpToDate", "node2", is_connected=is_connected)
    journal.replica(100, "node2", "Primary", "UpToDate", "node3", is_connected=False)
    journal.report("node2", 0, 300, alone=True)
    journal.report("node3", 0, 300)
    assert (outdated(journal) == []) is is_right


def test_the_replica_of_another_pair_is_nobodys_to_outdate() -> None:
    journal = parted()
    wrong = neglects.never_outdated(
        written.ordered(), journal.seen, pairs={"web1": ("node2", "node4")}, now=300 * written.SECOND
    )
    assert list(wrong) == []


REPLACED = {"instance": "web1", "old": "node3", "new": "node4"}


def placed(journal: written.Journal) -> list[str]:
    """What is wrong when an opcode that began at 100 s makes a replica on node4."""
    journal.report("node2", 0, 120)
    journal.web1(105, "node3", "replica removed", "1/0", counter=5, newest=5)
    orders = written.ordered(written.opcode("replace_disks", started=100, ended=110, **REPLACED))
    return neglects.silent_targets(journal.events, orders, journal.seen)


def test_a_replica_for_a_node_that_had_long_been_silent_is_found() -> None:
    journal = written.Journal()
    journal.answers(82, "node4", "not")
    assert placed(journal) == [
        "opcode 1/0 gave web1 a replica on node4 in place of node3, and node4 had not answered for 18 s"
    ]


@pytest.mark.parametrize("what", ["well", "just", "back", "late", "frozen"])
def test_a_replica_for_a_node_that_answered_or_had_just_fallen_silent_is_in_order(what: str) -> None:
    journal = written.Journal()
    if what == "just":
        journal.answers(96, "node4", "not")
    elif what == "back":
        journal.answers(82, "node4", "not")
        journal.answers(99, "node4", "well")
    elif what == "late":
        journal.answers(82, "node4", "badly")
    elif what == "frozen":
        journal.answers(82, "node4", "not")
        journal.deaf(83, until=99)
    assert placed(journal) == []
