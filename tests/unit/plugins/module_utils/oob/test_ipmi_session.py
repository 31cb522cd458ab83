"""A session under loss, repetition and forgery."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, wire
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import ipmi_link, ipmi_session, rmcp

from tests.unit.plugins.module_utils.oob import virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STATUS, ON, OFF, CYCLE = (power.Command.STATUS, power.Command.ON, power.Command.OFF, power.Command.CYCLE)
CONTROL = (0x00, 0x02)
IPMI = rmcp.Payload.IPMI
# The datagrams of a session that stands: its level, the state before, the control, the state after, the end.
LEVEL, BEFORE, CONTROLLED, AFTER, END = range(5)


def kind_of(datagram: bytes) -> rmcp.Payload:
    packet = rmcp.parse(datagram)
    assert isinstance(packet, rmcp.Packet20)
    return packet.kind


def nth(kind: rmcp.Payload, number: int) -> Callable[[bytes], bool]:
    """Picks the datagram of a kind by its place among them."""
    places = itertools.count()
    return lambda datagram: kind_of(datagram) is kind and next(places) == number


def lose(number: int, *, answer: bool) -> Callable[[virtual.Rack], None]:
    """Lose one datagram of the session, or its answer."""
    picks = nth(IPMI, number)

    def prepare(rack: virtual.Rack) -> None:
        if answer:
            rack.meddle = lambda datagram, said: () if picks(datagram) else virtual.unchanged(datagram, said)
        else:
            rack.loses = picks

    return prepare


def test_a_cycle_that_was_lost_on_its_way_is_never_sent_again() -> None:
    told = virtual.at_one(CYCLE, prepare=lose(CONTROLLED, answer=False))
    assert (told.outcome.sent, told.outcome.attempts, told.outcome.confirmed) == (True, 1, False)
    assert (told.outcome.after, told.outcome.reason) == (power.State.ON, "timeout")
    assert told.history == []


def test_a_cycle_whose_answer_was_lost_is_never_sent_again_and_confirmed_by_what_is_seen() -> None:
    told = virtual.at_one(CYCLE, prepare=lose(CONTROLLED, answer=True), off_time=3.0)
    assert (told.outcome.confirmed, told.outcome.attempts) == (True, 1)
    assert (told.history, told.rack.count(*CONTROL, b"\x02")) == ([False, True], 1)


def test_a_cycle_that_nobody_saw_is_sent_and_unconfirmed() -> None:
    told = virtual.at_one(CYCLE, prepare=lose(CONTROLLED, answer=True), off_time=0.2)
    assert (told.outcome.sent, told.outcome.confirmed, told.outcome.changed) == (True, False, True)
    assert (told.history, told.rack.count(*CONTROL, b"\x02")) == ([False, True], 1)


def test_a_cycle_that_a_busy_bmc_refused_is_not_sent_again() -> None:
    told = virtual.at_one(CYCLE, chassis.BUSY)
    assert (told.outcome.reason, told.outcome.attempts) == ("busy", 1)
    assert told.rack.count(*CONTROL, b"\x02") == 1


@pytest.mark.parametrize("answer", [False, True], ids=["question", "answer"])
@pytest.mark.parametrize("number", [LEVEL, BEFORE, CONTROLLED, AFTER])
def test_an_off_survives_the_loss_of_any_datagram(number: int, answer: bool) -> None:
    told = virtual.at_one(OFF, prepare=lose(number, answer=answer))
    assert (told.outcome.confirmed, told.outcome.attempts) == (True, 1)
    assert set(told.history) == {False}
    assert told.sessions == 0


def test_a_repeated_question_keeps_its_number_in_the_message_and_has_a_new_one_in_the_datagram() -> None:
    seen: list[tuple[int, bytes]] = []

    def watch(rack: virtual.Rack) -> None:
        def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
            packet = rmcp.parse(datagram)
            assert isinstance(packet, rmcp.Packet20)
            if packet.kind is IPMI:
                session = rack._sessions.find(virtual.ADDRESS, packet.session)
                if session is not None and session._channel is not None:
                    seen.append((packet.sequence, session._channel.open(packet)[4:6]))
                if len(seen) == 2 and seen[1][0] == 2:
                    return ()
            return virtual.unchanged(datagram, answer)

        rack.meddle = meddle

    assert virtual.at_one(STATUS, prepare=watch).outcome.confirmed
    assert [sequence for sequence, _ in seen[:3]] == [1, 2, 3]
    assert seen[1][1] == seen[2][1] != seen[0][1]


def test_datagrams_that_all_come_twice_change_nothing() -> None:
    told = virtual.at_one(OFF, conditions=wire.Conditions(doubling=1.0))
    assert (told.outcome.confirmed, told.outcome.attempts, told.history) == (True, 1, [False])


def test_answers_that_overtake_each_other_are_told_apart() -> None:
    for seed in range(20):
        conditions = wire.Conditions(jitter=1.2, doubling=0.5, seed=seed)
        told = virtual.at_one(OFF, conditions=conditions)
        assert (told.outcome.confirmed, told.outcome.after, set(told.history)) == (True, power.State.OFF, {False})


def test_an_answer_that_is_played_back_later_is_not_taken_for_a_new_one() -> None:
    kept: list[bytes] = []

    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        """Before every answer of the session come all the ones before it."""
        if kind_of(datagram) is not IPMI or answer is None:
            return virtual.unchanged(datagram, answer)
        kept.append(answer)
        return [*kept[:-1], answer]

    told = virtual.at_one(OFF, prepare=lambda rack: setattr(rack, "meddle", meddle))
    assert (told.outcome.confirmed, told.outcome.before, told.outcome.after) == (True, power.State.ON, power.State.OFF)
    assert told.outcome.attempts == 1
    # The old answer that the node is on would hold it up until the session's numbers are used up.
    assert told.outcome.seconds < ipmi_link.WAITS[0]


def damaged(answer: bytes) -> Iterable[bytes]:
    """An answer with one byte changed, for each of its bytes."""
    for place in range(4, len(answer)):
        changed = bytearray(answer)
        changed[place] ^= 0x01
        yield bytes(changed)


def forged(question: bytes, answer: bytes) -> Iterable[bytes]:
    """What somebody without the keys could send for an answer."""
    packet = rmcp.parse(answer)
    assert isinstance(packet, rmcp.Packet20)
    off = bytes((0x81, 0x04, 0x7B, 0x20, 0x08, 0x01, 0x00, 0x00, 0x00, 0x00, 0xD7))
    yield question
    yield rmcp.packet_20(IPMI, off)
    yield rmcp.packet_20(IPMI, off, session=packet.session, sequence=packet.sequence)
    yield rmcp.packet_20(IPMI, off, flags=0xC0, session=packet.session, sequence=packet.sequence) + os.urandom(18)
    yield rmcp.packet_20(IPMI, packet.payload, flags=0x80, session=packet.session, sequence=packet.sequence)
    yield rmcp.packet_15(off)
    yield answer[:-1]
    yield answer + b"\x00"
    yield b""


@pytest.mark.parametrize("forge", [lambda _, answer: damaged(answer), forged], ids=["damaged", "forged"])
def test_forged_and_damaged_answers_change_nothing(forge: Callable[[bytes, bytes], Iterable[bytes]]) -> None:
    told_lies: list[bytes] = []

    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        if kind_of(datagram) is IPMI and answer is not None:
            told_lies.extend(forge(datagram, answer))
            return [*forge(datagram, answer), answer]
        return virtual.unchanged(datagram, answer)

    told = virtual.at_one(OFF, prepare=lambda rack: setattr(rack, "meddle", meddle))
    assert (told.outcome.confirmed, told.outcome.before, told.outcome.attempts) == (True, power.State.ON, 1)
    assert (told.history, told.sessions) == ([False], 0)
    assert len(told_lies) > 20


def test_forged_answers_alone_are_no_answer() -> None:
    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        is_inside = kind_of(datagram) is IPMI and answer is not None
        return forged(datagram, answer or b"") if is_inside else virtual.unchanged(datagram, answer)

    told = virtual.at_one(STATUS, prepare=lambda rack: setattr(rack, "meddle", meddle), deadline=10.0)
    assert (told.outcome.after, told.outcome.reason) == (power.State.UNKNOWN, "timeout")


def test_a_session_whose_numbers_are_used_up_is_closed_and_followed_by_another() -> None:
    told = virtual.at_one(OFF, chassis.STUBBORN, deadline=60.0)
    assert told.outcome.reason == "not_off"
    states, ends = told.rack.count(0x00, 0x01, b""), sum(one[1:3] == (0x06, 0x3C) for one in told.rack.commands)
    assert states > ipmi_session.LAST_SEQUENCE
    assert ends == -(-(states + 1) // (ipmi_session.LAST_SEQUENCE - 1))
    assert told.sessions == 0


def test_a_bmc_that_forgot_the_session_is_logged_in_to_again() -> None:
    picks = nth(IPMI, CONTROLLED)

    def prepare(rack: virtual.Rack) -> None:
        def loses(datagram: bytes) -> bool:
            if picks(datagram):
                rack._sessions._sessions.clear()
            return False

        rack.loses = loses

    told = virtual.at_one(OFF, prepare=prepare)
    assert (told.outcome.confirmed, told.history, told.sessions) == (True, [False], 0)
    assert told.outcome.attempts == 2


@pytest.mark.parametrize("delay", [0.6, 1.4, 3.5])
def test_a_bmc_that_takes_its_time_for_each_answer_is_served(delay: float) -> None:
    assert delay < ipmi_link.WAITS[-1]
    told = virtual.at_one(OFF, conditions=wire.Conditions(delay=delay), deadline=90.0)
    assert (told.outcome.confirmed, set(told.history)) == (True, {False})
