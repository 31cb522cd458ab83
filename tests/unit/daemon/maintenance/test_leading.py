"""Who leads: votes, epochs and the barrier, by tables, and by every order of events in a small world."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.maintenance import leading
from ansible_collections.roundsman.cluster.daemon.maintenance.leading import Candidate, Reply, Step, Vote
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.agent.epochs import Epoch, Kept, may_order

from .leading_world import Rules, violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAMES = {"a": "node1", "b": "node2", "c": "node3", "d": "node4"}
A = Candidate(me="a", master="a", serial=7, voters=frozenset("abc"), own=frozenset({"of-a"}))
COPY = Candidate(me="a", master="a", serial=7, voters=frozenset("abc"), own=frozenset({"of-copy"}))
TWO = Candidate(me="a", master="a", serial=7, voters=frozenset("ab"), own=frozenset({"of-a"}))


def followed(master: str, *, serial: int = 7, number: int = 3, heard: float | None = None) -> Vote:
    return Vote(Kept(Epoch(number, f"of-{master}"), master, serial), heard)


def of(name: str, *, number: int = 3, serial: int = 7, heard: float | None = None) -> Vote:
    """A node that follows an epoch of the master on record, begun by the controller of this name."""
    return Vote(Kept(Epoch(number, f"of-{name}"), "a", serial), heard)


NOBODY = Vote()


@pytest.mark.parametrize(
    ("candidate", "answers", "off", "leads"),
    [
        pytest.param(A, {"a": NOBODY, "b": NOBODY}, (), True, id="nobody has led yet"),
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
            A,
            {"a": followed("a", serial=8), "b": of("a", number=4), "c": of("a", number=4)},
            (),
            True,
            id="a node knows a newer configuration of before one that was restored",
        ),
        pytest.param(
            A, {"d": followed("a"), "a": followed("a")}, (), False, id="one that does not vote is not counted"
        ),
        pytest.param(
            A,
            {"a": of("a", heard=1), "b": of("a", heard=1), "c": of("a", heard=1)},
            (),
            True,
            id="nodes have heard of this very controller lately",
        ),
        pytest.param(
            dataclasses.replace(A, led=Epoch(3, "of-a")),
            {"a": of("a", heard=1), "b": of("before", number=2, heard=1), "c": of("before", number=2, heard=1)},
            (),
            True,
            id="two have not heard of its last start, but of the one before",
        ),
        pytest.param(
            dataclasses.replace(A, led=Epoch(3, "of-a")),
            {"a": of("a"), "b": of("copy", heard=1), "c": of("copy", heard=1)},
            (),
            False,
            id="two have heard of another controller with the same number",
        ),
        pytest.param(
            COPY,
            {"a": of("a", heard=1), "b": of("a", heard=1), "c": NOBODY},
            (),
            False,
            id="a copy, where nodes have heard of the controller that leads",
        ),
        pytest.param(
            COPY,
            {"a": of("a", heard=leading.LAPSE_SECONDS), "b": of("a"), "c": of("a", heard=1)},
            (),
            True,
            id="a copy, where two of three have not heard of the controller lately",
        ),
        pytest.param(TWO, {"a": of("a", heard=1)}, (), True, id="one of two, and it has followed this one only"),
        pytest.param(TWO, {"a": NOBODY}, (), True, id="one of two, and it has followed nobody"),
        pytest.param(
            dataclasses.replace(TWO, led=Epoch(3, "of-a")),
            {"a": of("before", number=2)},
            (),
            True,
            id="one of two, and it has followed the start of before only",
        ),
        pytest.param(TWO, {"a": of("copy")}, (), False, id="one of two, which has followed a copy since"),
        pytest.param(TWO, {}, (), False, id="both are silent"),
        pytest.param(TWO, {"a": of("copy", heard=1)}, ("a", "b"), True, id="nobody votes, a person says"),
    ],
)
def test_a_controller_leads_by_more_than_half_of_the_nodes_that_vote(
    candidate: Candidate, answers: Mapping[str, Vote], off: Iterable[str], leads: bool
) -> None:
    verdict = leading.elect(candidate, answers, off=set(off), names=NAMES)

    assert verdict.leads is leads
    assert bool(verdict.reason) is not leads


@pytest.mark.parametrize(
    ("candidate", "answers", "is_final"),
    [
        pytest.param(A, {"a": of("a")}, False, id="two silent nodes may be for it"),
        pytest.param(COPY, {"a": of("a", heard=1)}, False, id="two silent nodes may not have heard of the other"),
        pytest.param(COPY, {"a": of("a", heard=1), "b": of("a", heard=2)}, True, id="one silent node is not enough"),
        pytest.param(
            Candidate("a", "a", 7, frozenset("ab"), frozenset({"of-copy"})),
            {"a": of("a", heard=1)},
            True,
            id="of two nodes one has heard of the other: a tie is not this one's",
        ),
        pytest.param(A, {"a": of("a", serial=8)}, True, id="a newer configuration"),
    ],
)
def test_an_election_is_lost_where_no_silent_node_could_change_it(
    candidate: Candidate, answers: Mapping[str, Vote], is_final: bool
) -> None:
    verdict = leading.elect(candidate, answers, names=NAMES)

    assert (verdict.leads, verdict.is_final) == (False, is_final)


def test_a_controller_that_is_refused_is_told_who_leads_and_what_helps() -> None:
    verdict = leading.elect(COPY, {"a": of("a", heard=12.3), "b": of("a", heard=40)}, names=NAMES)

    assert verdict.reason == (
        "0 of 3 nodes that vote have this one for their master; node1, node2 heard of the controller that leads in "
        "epoch 3 (of-a) 12 s ago; node3 did not answer"
    )
    assert verdict.unblock == ("that controller stopped, if this one is to lead; one of the two has to stay stopped")


def test_of_many_silent_nodes_some_are_named_and_the_statement_that_ends_the_wait() -> None:
    many = Candidate("a", "a", 7, frozenset(f"{number:03d}" for number in range(1000)))

    verdict = leading.elect(many, {}, names={})

    assert verdict.reason.endswith("000, 001, 002, 003, 004, 005, 006, 007 and 992 more did not answer")
    assert "`roundsmand --no-voting --yes-do-it`" in verdict.unblock


@pytest.mark.parametrize(
    ("voters", "answers", "is_off", "leads"),
    [
        pytest.param("abc", {"b": None, "c": None}, False, True, id="the old controller ended"),
        pytest.param("abc", {"a": None, "b": None, "c": None}, False, True, id="and its node answers"),
        pytest.param("abc", {"a": 12, "b": 12, "c": 12}, False, False, id="the old controller works"),
        pytest.param("abc", {"b": 12, "c": 12}, False, False, id="it may be cut off"),
        pytest.param("abc", {"b": 300, "c": 300}, False, True, id="nobody has heard of it for long"),
        pytest.param("bc", {"b": 12, "c": 12}, True, True, id="it is off"),
        pytest.param("abc", {"b": None}, False, False, id="less than half answer"),
        pytest.param("ab", {"b": None}, False, False, id="of two nodes one is no majority"),
        pytest.param("b", {"b": 12}, True, True, id="of two nodes the other is off"),
        pytest.param("abcd", {"b": None, "c": None}, False, False, id="half is the tie of the master on record only"),
    ],
)
def test_another_node_takes_the_role_over_only_if_the_controller_on_record_does_not_work(
    voters: str, answers: dict[str, float | None], is_off: bool, leads: bool
) -> None:
    other = Candidate(me="b", master="a", serial=7, voters=frozenset(voters), takes_over=is_off)
    shown = {node: followed("a", heard=heard) for node, heard in answers.items()}

    verdict = leading.elect(other, shown, names=NAMES)

    assert verdict.leads is leads
    if not leads:
        assert "`roundsman cluster master-failover NODE --confirm-off`" in verdict.unblock


def test_a_master_on_record_that_was_replaced_is_not_sent_in_a_circle() -> None:
    """It is no other node, so `master-failover` refuses it."""
    verdict = leading.elect(A, {node: followed("b") for node in "abc"}, names=NAMES)

    assert (verdict.leads, verdict.is_final) == (False, True)
    assert verdict.unblock == (
        "a start on node2; or if that machine is off and stays off, its newest configuration here and `roundsman "
        "cluster master-failover`, or without one `roundsmand --no-voting --yes-do-it`"
    )


def test_a_start_by_the_old_record_after_half_a_move_says_that_the_command_is_to_be_repeated() -> None:
    moved = dataclasses.replace(A, own=frozenset({"of-b"}))

    verdict = leading.elect(moved, {node: followed("b") for node in "abc"}, names=NAMES)

    assert not verdict.leads
    assert verdict.unblock == "the end of the move that has begun here: `roundsman cluster master-failover node2` again"


def test_that_the_master_on_record_is_off_says_nothing_of_a_third_controller_that_works() -> None:
    """The export is old: the role has moved to node3 since, and a person says that no newer configuration exists."""
    third = {node: followed("c", number=4, heard=2) for node in "bcd"}
    other = Candidate("b", "a", 7, frozenset("bcd"), is_restored=True, takes_over=True)

    verdict = leading.elect(other, third, names=NAMES)

    assert not verdict.leads
    assert "heard of the controller that leads in epoch 4 (of-c) 2 s ago" in verdict.reason
    ended = {node: followed("c", number=4) for node in "bcd"}
    assert leading.elect(other, ended, names=NAMES).leads


def test_a_restored_configuration_leads_only_if_a_person_says_that_none_is_newer() -> None:
    answers = {"a": followed("a", serial=9), "b": followed("a")}

    refused = leading.elect(A, answers, names=NAMES)

    assert "node1 had a newer configuration" in refused.reason
    assert "`--restored`" in refused.unblock
    assert leading.elect(Candidate("a", "a", 7, frozenset("abc"), is_restored=True), answers, names=NAMES).leads


@pytest.mark.parametrize(
    ("candidate", "answers"),
    [
        pytest.param(A, {"a": followed("a", serial=9), "b": of("forged", number=4, serial=0)}, id="one of two"),
        pytest.param(
            A,
            {"a": followed("a", serial=9), "b": followed("a"), "c": of("forged", number=4, serial=0)},
            id="one of three",
        ),
        pytest.param(
            dataclasses.replace(A, voters=frozenset()),
            {"a": followed("a", serial=9), "b": of("forged", number=4, serial=0)},
            id="nobody votes, a person says",
        ),
    ],
)
def test_no_single_node_hides_by_a_higher_number_that_another_had_a_newer_configuration(
    candidate: Candidate, answers: Mapping[str, Vote]
) -> None:
    verdict = leading.elect(candidate, answers, names=NAMES)

    assert not verdict.leads
    assert "node1 had a newer configuration" in verdict.reason
    assert leading.lost_versions_text(candidate, answers, NAMES)


def test_what_was_before_the_epoch_in_which_a_controller_has_led_is_not_newer() -> None:
    """It was restored, and one node that was away since then is back."""
    restored = dataclasses.replace(TWO, led=Epoch(4, "of-a"))

    verdict = leading.elect(restored, {"a": of("a", number=4), "b": of("before", serial=9)}, names=NAMES)

    assert verdict.leads


def test_two_controllers_never_lead_by_the_votes_of_different_nodes() -> None:
    """All answers of four nodes, of which three vote, to two controllers with the same configuration."""
    kept = (NOBODY, followed("a"), followed("b"))
    other = Candidate(me="b", master="a", serial=7, voters=A.voters, own=frozenset({"of-b"}))

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


def test_two_copies_never_lead_by_the_promises_of_different_nodes() -> None:
    """All promises that two nodes, or three, give to two controllers that take themselves for the same master."""
    votes = (NOBODY, of("a"), of("copy"))
    for size in (2, 3):
        voters = frozenset("abc"[:size])
        pair = [dataclasses.replace(each, voters=voters) for each in (A, COPY)]
        for answers in itertools.product(votes, repeat=size):
            keeps = dict(zip(sorted(voters), answers, strict=True))
            for first in _parts("abc"[:size]):
                parts = (set(first), voters - set(first))
                led = [
                    bool(part)
                    and leading.elect(who, {uuid: keeps[uuid] for uuid in part}, names=NAMES).leads
                    and leading.is_promised(who, {uuid: keeps[uuid] for uuid in part}, part)
                    for who, part in zip(pair, parts, strict=True)
                ]
                # Where nobody has led two nodes, each of the two reaches one: no vote can tell them apart.
                is_undecidable = size == 2 and all(
                    vote == NOBODY or vote == of(name)
                    for vote, name in (
                        (keeps[uuid], name) for name, part in zip(("a", "copy"), parts, strict=True) for uuid in part
                    )
                )
                assert led != [True, True] or is_undecidable, (keeps, parts)


def _parts(nodes: str) -> list[tuple[str, ...]]:
    return [part for size in range(len(nodes) + 1) for part in itertools.combinations(nodes, size)]


OWN = leading.Own(Epoch(3, "of-a"))
AT_WORK = leading.Own(Epoch(3, "of-a"), is_at_work=True)
OFFERED = leading.Own(Epoch(3, "of-a"), has_offered=True)
OFFERED_AT_WORK = leading.Own(Epoch(3, "of-a"), is_at_work=True, has_offered=True)


@pytest.mark.parametrize(
    ("candidate", "own", "answers", "step"),
    [
        pytest.param(A, None, {"a": NOBODY, "b": NOBODY}, Step.BEGIN, id="the first start of all"),
        pytest.param(A, None, {"a": of("a"), "b": of("a")}, Step.BEGIN, id="a start after a reboot"),
        pytest.param(A, OWN, {"a": of("a", heard=1), "b": of("a", heard=1)}, Step.BEGIN, id="a restart"),
        pytest.param(A, AT_WORK, {"a": of("a"), "b": of("a")}, Step.GO_ON, id="a restart while opcodes run"),
        pytest.param(A, AT_WORK, {}, Step.GO_ON, id="the same, and all are silent"),
        pytest.param(A, OWN, {"a": of("a")}, Step.GO_ON, id="a restart while most are silent"),
        pytest.param(A, OWN, {"a": NOBODY}, Step.GO_ON, id="the same, and the one that answers was installed again"),
        pytest.param(A, OFFERED, {"a": of("a")}, Step.WAIT, id="the same, after an offer in vain"),
        pytest.param(A, OFFERED_AT_WORK, {"a": of("a")}, Step.GO_ON, id="the same, while opcodes run"),
        pytest.param(A, None, {"a": of("a")}, Step.WAIT, id="a start after a reboot while most are silent"),
        pytest.param(
            A, OWN, {"a": of("copy", number=4)}, Step.WAIT, id="most are silent, and one has followed another since"
        ),
        pytest.param(
            A,
            AT_WORK,
            {"a": of("copy", number=4, heard=1), "b": of("copy", number=4, heard=1)},
            Step.END,
            id="another leads, whatever still runs here",
        ),
        pytest.param(
            A, AT_WORK, {"a": of("copy", number=4), "b": of("a"), "c": of("a")}, Step.BEGIN, id="one knows a later one"
        ),
        pytest.param(COPY, None, {"a": of("a", heard=1), "b": of("a", heard=1)}, Step.END, id="a copy"),
        pytest.param(COPY, None, {"a": of("a"), "b": of("a")}, Step.BEGIN, id="a copy, after the other has stopped"),
    ],
)
def test_what_a_start_does(
    candidate: Candidate, own: leading.Own | None, answers: Mapping[str, Vote], step: Step
) -> None:
    assert leading.decide(candidate, answers, own=own, names=NAMES)[0] is step


def test_a_controller_ends_only_where_more_than_half_of_the_voters_follow_another_one() -> None:
    own, voters = Epoch(5, "five"), frozenset("abc")
    later, earlier = Kept(Epoch(6, "six"), "a", 7), Kept(Epoch(4, "four"), "a", 7)
    own_kept, goes_on = Kept(own, "a", 7), Kept(Epoch(6, "six"), "a", 7, goes_on=frozenset({"five"}))

    newer = Kept(own, "a", 8)

    def successor(own: Epoch | None, follows: dict[str, Kept | None], voters: frozenset[str]) -> Kept | None:
        return leading.successor(own, follows, voters, serial=7)

    assert successor(own, {"a": later, "b": later}, voters) == later
    assert successor(own, {"a": later, "b": own_kept, "c": None}, voters) is None
    assert successor(own, {"a": later}, voters) is None, "silence ends no controller"
    assert successor(own, {"a": later, "d": later}, voters) is None, "d does not vote"
    assert successor(own, {"a": earlier, "b": earlier, "c": earlier}, voters) is None
    assert successor(own, {"a": goes_on, "b": goes_on}, voters) is None
    assert successor(own, {"a": newer, "b": newer}, voters) == newer, "a clone leads, and has changed something"
    assert successor(own, {"a": newer, "b": own_kept, "c": own_kept}, voters) is None, "one node's claim"
    assert successor(own, {}, frozenset()) is None
    assert successor(None, {"a": earlier, "b": earlier}, voters) == earlier
    assert leading.strays(own, {"a": later, "b": own_kept, "c": None}) == {"a": later}


@pytest.mark.parametrize(
    ("known", "shown", "number"),
    [
        pytest.param(None, [], 1, id="nobody knows one"),
        pytest.param(9, [4, 0], 10, id="its own is the highest"),
        pytest.param(4, [9, 4, 4], 10, id="one node has seen a later one"),
        pytest.param(None, [2_000_000_000, 2_000_000_000, 3], 2_000_000_001, id="a backup without one"),
        pytest.param(4, [10**15 - 1, 4, 4], 5, id="a node that claims the highest of all"),
        pytest.param(4, [10**15 - 1, 4], 5, id="the same of two"),
        pytest.param(4, [1_000_004, 1_000_005, 4, 4, 4], 1_000_005, id="no further than the bound"),
    ],
)
def test_a_new_epoch_is_above_all_that_are_known_and_no_single_node_uses_up_the_numbers(
    known: int | None, shown: list[int], number: int
) -> None:
    of_nodes = [Epoch(each, "x") if each else None for each in shown]

    assert leading.number(Epoch(known, "own") if known is not None else None, of_nodes) == number


@pytest.mark.parametrize(
    ("heard", "ids", "is_held_up"),
    [
        (None, (), True),
        (20.0, (), False),
        (leading.LAPSE_SECONDS, (), True),
        (20.0, ("another",), True),
    ],
)
def test_a_leader_is_held_up_by_an_epoch_that_nobody_works_in(
    heard: float | None, ids: tuple[str, ...], *, is_held_up: bool
) -> None:
    own = Epoch(4, "four")
    answers = {"a": Vote(Kept(Epoch(5, "another"), "m", 1), heard), "b": Vote(Kept(own, "m", 1), 1.0), "c": Vote()}
    assert leading.is_held_up(own, ids, answers) is is_held_up
    assert not leading.is_held_up(own, ids, {"b": answers["b"], "c": answers["c"]})


def test_a_node_refuses_a_lower_epoch_and_the_same_number_of_another_start() -> None:
    kept = Kept(Epoch(5, "five"), "a", 7, goes_on=frozenset({"four"}))

    assert may_order(None, Epoch(1, "one"))
    assert may_order(kept, Epoch(6, "six"))
    assert may_order(kept, Epoch(5, "five"))
    assert may_order(kept, Epoch(4, "four"))
    assert not may_order(kept, Epoch(5, "other"))
    assert not may_order(kept, Epoch(3, "three"))


OURS, THEIRS = Epoch(5, "own"), Epoch(6, "theirs")
OBEYS = {"own": Kept(OURS, "a", 7), "before": Kept(Epoch(4, "before"), "a", 6), "nobody": None}


@pytest.mark.parametrize(
    ("voters", "answers", "off", "may"),
    [
        pytest.param("abc", {"a": "own", "b": "own"}, "", True, id="most answer"),
        pytest.param("abc", {"a": "own"}, "", False, id="a cut cable"),
        pytest.param("abc", {}, "", False, id="nobody answers"),
        pytest.param("ab", {"a": "own"}, "", True, id="the other node of two is silent"),
        pytest.param("ab", {}, "", False, id="both of two are silent"),
        pytest.param("a", {"a": "own"}, "", True, id="one node"),
        pytest.param("", {}, "", True, id="no node can vote"),
        pytest.param("abcd", {"a": "own", "b": "own"}, "", True, id="half of four"),
        pytest.param("abc", {"a": "own", "d": "own"}, "", False, id="one that does not vote is not counted"),
        pytest.param("abc", {"a": "own"}, "b", True, id="one that reads off does not vote"),
        pytest.param("abcde", {"a": "own"}, "b", False, id="one that reads off of many"),
        pytest.param("abc", {"a": "nobody", "b": "before"}, "", True, id="nodes that have not heard of it yet obey"),
        pytest.param("abc", {"a": "own", "b": "theirs", "c": "theirs"}, "", False, id="another one leads"),
        pytest.param("abcd", {"a": "own", "b": "theirs"}, "", False, id="half answer, and one follows another"),
        pytest.param("abc", {"a": "own", "b": "own", "c": "theirs"}, "", True, id="one node's claim stops nothing"),
        pytest.param("abc", {"a": "own", "b": "clone", "c": "clone"}, "", False, id="a clone of it leads"),
        pytest.param("abc", {"a": "own", "b": "own", "c": "clone"}, "", True, id="one node's claim of a clone"),
    ],
)
def test_a_leader_fences_only_while_half_of_the_nodes_that_vote_answer_and_obey_it(
    voters: str, answers: dict[str, str], off: str, may: bool
) -> None:
    shown = {**OBEYS, "theirs": Kept(THEIRS, "b", 8), "clone": Kept(OURS, "a", 8)}
    follows = {node: shown[word] for node, word in answers.items()}

    assert leading.may_fence(OURS, frozenset(voters), follows, serial=7, off=off) is may
    text = leading.isolation_text(OURS, frozenset(voters), follows, serial=7, off=off, names={})
    assert (text == "") is may


def test_no_leader_that_was_replaced_has_half_of_the_nodes_whatever_it_reaches() -> None:
    """For any number of nodes, any majority that follows the later epoch, and any nodes that answer."""
    for count in range(1, 6):
        nodes = [f"n{index}" for index in range(count)]
        for kept in itertools.product((None, Kept(OURS, "a", 7), Kept(THEIRS, "b", 8)), repeat=count):
            follows = dict(zip(nodes, kept, strict=True))
            if 2 * sum(each is not None and each.epoch == THEIRS for each in kept) <= count:
                continue
            for reached in itertools.chain.from_iterable(itertools.combinations(nodes, n) for n in range(count + 1)):
                answers = {node: follows[node] for node in reached}
                assert not leading.may_fence(OURS, frozenset(nodes), answers, serial=7)


def test_a_leader_that_may_not_fence_says_which_nodes_are_silent_and_which_another_one_leads() -> None:
    follows = {"a": Kept(OURS, "a", 7), "b": Kept(THEIRS, "b", 8)}
    names = {"a": "node1", "b": "node2", "c": "node3", "d": "node4"}

    text = leading.isolation_text(OURS, frozenset("abcd"), follows, serial=7, names=names)

    assert text == (
        "only 1 of 4 nodes that vote answer this controller; node3, node4 did not answer; "
        "another controller leads node2"
    )


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
