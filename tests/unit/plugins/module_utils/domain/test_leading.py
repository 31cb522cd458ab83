"""Who leads: votes, epochs and the barrier, by tables, and by every order of events in a small world."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.domain import leading
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.epochs import Epoch, Kept, may_order
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.leading import Candidate, Reply

from .leading_world import Rules, violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAMES = {"a": "node1", "b": "node2", "c": "node3", "d": "node4"}
A = Candidate(me="a", master="a", serial=7, voters=frozenset("abc"))


def followed(master: str, *, serial: int = 7, number: int = 3) -> Kept:
    return Kept(Epoch(number, f"of-{master}"), master, serial)


@pytest.mark.parametrize(
    ("candidate", "answers", "off", "leads"),
    [
        pytest.param(A, {"a": None, "b": None}, (), True, id="nobody has led yet"),
        pytest.param(A, {"a": followed("a"), "b": followed("a")}, (), True, id="two of three follow it"),
        pytest.param(A, {"a": followed("a")}, (), False, id="one of three"),
        pytest.param(A, {"a": followed("a")}, ("b",), True, id="one of two that vote, and it is the master on record"),
        pytest.param(A, {}, ("a", "b", "c"), True, id="nobody votes"),
        pytest.param(A, {"a": followed("a"), "b": followed("b")}, (), False, id="half of those that answer"),
        pytest.param(
            A, {"a": followed("a"), "b": followed("b"), "c": followed("b")}, (), False, id="two follow another"
        ),
        pytest.param(
            A, {"a": followed("a"), "b": followed("a"), "c": followed("b")}, (), True, id="one follows another"
        ),
        pytest.param(
            A, {"a": followed("a", serial=8), "b": followed("a")}, (), False, id="a node knows a newer configuration"
        ),
        pytest.param(
            A, {"d": followed("a"), "a": followed("a")}, (), False, id="one that does not vote is not counted"
        ),
    ],
)
def test_a_controller_leads_by_more_than_half_of_the_nodes_that_vote(
    candidate: Candidate, answers: Mapping[str, Kept | None], off: Iterable[str], leads: bool
) -> None:
    verdict = leading.elect(candidate, answers, off=set(off), names=NAMES)

    assert verdict.leads is leads
    assert bool(verdict.reason) is not leads


def test_another_machine_leads_only_if_a_person_says_so() -> None:
    other = Candidate(me="b", master="a", serial=7, voters=frozenset("abc"))
    answers = {"b": followed("a"), "c": followed("a")}

    refused = leading.elect(other, answers, names=NAMES)

    assert refused.reason == (
        "0 of 3 nodes that vote have this one for their master; others have node1; node1 did not answer"
    )
    assert refused.unblock == "a start on node1, or with that one off `roundsman cluster master-failover` here"
    assert leading.elect(Candidate("b", "a", 7, frozenset("abc"), takes_over=True), answers, names=NAMES).leads


def test_a_restored_configuration_leads_only_if_a_person_says_that_none_is_newer() -> None:
    answers = {"a": followed("a", serial=9), "b": followed("a")}

    refused = leading.elect(A, answers, names=NAMES)

    assert "node1 had a newer configuration" in refused.reason
    assert "`--restored`" in refused.unblock
    assert leading.elect(Candidate("a", "a", 7, frozenset("abc"), is_restored=True), answers, names=NAMES).leads


def test_two_controllers_never_lead_by_the_votes_of_different_nodes() -> None:
    """All answers of four nodes, of which three vote, to two controllers with the same configuration."""
    kept = (None, followed("a"), followed("b"))
    other = Candidate(me="b", master="a", serial=7, voters=A.voters)

    for answers in itertools.product(kept, repeat=4):
        keeps = dict(zip("abcd", answers, strict=True))
        for first, second in itertools.product(_parts("abcd"), repeat=2):
            if set(first) & set(second) & A.voters:
                continue
            led = [
                leading.elect(who, {uuid: keeps[uuid] for uuid in part}, names=NAMES).leads
                for who, part in ((A, first), (other, second))
            ]
            assert led != [True, True], (keeps, first, second)


def _parts(nodes: str) -> list[tuple[str, ...]]:
    return [part for size in range(len(nodes) + 1) for part in itertools.combinations(nodes, size)]


def test_a_node_refuses_a_lower_epoch_and_the_same_number_of_another_start() -> None:
    kept = Kept(Epoch(5, "five"), "a", 7, goes_on=frozenset({"four"}))

    assert may_order(None, Epoch(1, "one"))
    assert may_order(kept, Epoch(6, "six"))
    assert may_order(kept, Epoch(5, "five"))
    assert may_order(kept, Epoch(4, "four"))
    assert not may_order(kept, Epoch(5, "other"))
    assert not may_order(kept, Epoch(3, "three"))


def test_a_new_epoch_is_above_all_that_are_known() -> None:
    assert leading.number([None, Epoch(4, "x"), Epoch(9, "y")]) == 10
    assert leading.number([]) == 1


def test_who_reaches_less_than_half_of_those_that_vote_fences_nobody() -> None:
    assert leading.may_fence(A, {"a", "b"})
    assert not leading.may_fence(A, {"a"})
    assert not leading.may_fence(A, {"a", "d"})
    assert leading.may_fence(A, {"a"}, off={"b"})


def test_the_barrier_waits_for_each_node_that_may_still_work_for_an_earlier_epoch() -> None:
    epoch, before = Epoch(5, "five"), Epoch(4, "four")
    replies = {
        "a": Reply(epoch),
        "b": Reply(before),
        "c": Reply(epoch, ("process 12, opcode 7-1",)),
    }

    waits = leading.barrier(epoch, ["a", "b", "c", "d"], replies, fenced={})

    assert waits == {
        "b": "still follows epoch 4 (four)",
        "c": "still works on it: process 12, opcode 7-1",
        "d": "has not answered",
    }
    assert set(leading.barrier(epoch, ["c", "d"], replies, fenced={"c": epoch, "d": before})) == {"d"}


def _ignores_id(kept: Kept | None, offered: Epoch) -> bool:
    return kept is None or offered.number >= kept.epoch.number


def _ignores_when(
    _epoch: Epoch, nodes: Iterable[str], replies: Mapping[str, Reply], *, fenced: Mapping[str, Epoch]
) -> dict[str, str]:
    return {uuid: "" for uuid in nodes if uuid not in fenced and (uuid not in replies or replies[uuid].steps)}


def test_whatever_happens_in_whatever_order_an_instance_runs_once() -> None:
    assert violation(Rules(), most=200_000) is None


@pytest.mark.parametrize(
    ("bug", "backwards"),
    [
        pytest.param(Rules(may_order=_ignores_id), False, id="two controllers with the same number"),
        pytest.param(Rules(compares_before_lock=True), True, id="the epoch is compared before the lock is held"),
        pytest.param(Rules(syncs=False), True, id="the epoch is not durable on the node"),
        pytest.param(Rules(reads_back=False), True, id="a fence counts before its off was read"),
        pytest.param(Rules(makes_new=False), True, id="a restored backup uses an epoch again"),
        pytest.param(Rules(names_boot=False), True, id="an order meets a node that booted since"),
        pytest.param(
            Rules(barrier=_ignores_when, keeps_votes=True), True, id="the barrier takes an answer from before it"
        ),
    ],
)
def test_a_world_without_one_of_the_rules_runs_it_twice(bug: Rules, backwards: bool) -> None:
    assert violation(bug, most=200_000, backwards=backwards)
