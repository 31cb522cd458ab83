"""How a session begins: which suite, what a refusal means, and what forged answers can do."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, ipmi_session
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.power import power
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import ipmi_link, ipmi_login, rakp, rmcp

from tests.unit.plugins.module_utils.oob import virtual
from tests.unit.plugins.module_utils.oob.test_ipmi_session import kind_of, nth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STATUS, OFF = power.Command.STATUS, power.Command.OFF
OPEN, RAKP1, RAKP3 = rmcp.Payload.OPEN_SESSION_REQUEST, rmcp.Payload.RAKP1, rmcp.Payload.RAKP3
LOGIN = (OPEN, RAKP1, RAKP3)
OPENED = 36
OTHER_KIND = {0x11: 0x13, 0x13: 0x15, 0x15: 0x11}


def suite_asked(datagram: bytes) -> int | None:
    if kind_of(datagram) is not OPEN:
        return None
    suite = ipmi_session.suite_of(datagram[24:48], allowed=frozenset({3, 17}))
    assert suite is not None
    return suite.number


def asked(suites: list[int]) -> Callable[[virtual.Rack], None]:
    """Note which suites a BMC is asked for."""

    def prepare(rack: virtual.Rack) -> None:
        def loses(datagram: bytes) -> bool:
            number = suite_asked(datagram)
            if number is not None:
                suites.append(number)
            return False

        rack.loses = loses

    return prepare


def meddling(meddle: Callable[[bytes, bytes | None], Iterable[bytes]]) -> Callable[[virtual.Rack], None]:
    return lambda rack: setattr(rack, "meddle", meddle)


@pytest.mark.parametrize(
    ("offered", "expected"), [((3, 17), [17]), ((17,), [17]), ((3,), [17, 3]), ((), [17, 3])], ids=str
)
def test_the_better_suite_is_asked_for_first_and_none_twice(offered: tuple[int, ...], expected: list[int]) -> None:
    suites: list[int] = []
    told = virtual.at_one(STATUS, suites=offered, prepare=asked(suites))
    assert suites == expected
    assert told.outcome.reason == (None if offered else "cipher")


def test_a_bmc_that_is_silent_about_suite_17_is_asked_for_suite_3() -> None:
    told = virtual.at_one(STATUS, prepare=lambda rack: setattr(rack, "loses", lambda one: suite_asked(one) == 17))
    assert told.outcome.confirmed


def test_a_bmc_that_answers_with_another_suite_than_it_was_asked_for_is_asked_for_that_one() -> None:
    suites: list[int] = []

    def prepare(rack: virtual.Rack) -> None:
        def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
            """Always say suite 3, as some BMCs do."""
            if suite_asked(datagram) == 17 and answer is not None:
                return [answer[:28] + rakp.SHA1.proposal()]
            return virtual.unchanged(datagram, answer)

        asked(suites)(rack)
        rack.meddle = meddle

    told = virtual.at_one(STATUS, prepare=prepare)
    assert (told.outcome.confirmed, suites, told.sessions) == (True, [17, 3], 0)


@pytest.mark.parametrize("status", [0x04, 0x05, 0x06, 0x07, 0x10, 0x11, 0x12], ids=hex)
def test_however_a_bmc_refuses_suite_17_it_is_asked_for_suite_3(status: int) -> None:
    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        if suite_asked(datagram) == 17 and answer is not None:
            return [answer[:14] + b"\x08\x00" + answer[16:17] + bytes((status,)) + answer[18:24]]
        return virtual.unchanged(datagram, answer)

    told = virtual.at_one(STATUS, prepare=meddling(meddle))
    assert told.outcome.confirmed
    assert told.outcome.seconds < ipmi_link.WAITS[0]


@pytest.mark.parametrize("status", [0x02, 0x08], ids=hex)
def test_a_bmc_that_forgets_every_session_is_not_asked_without_a_pause(status: int) -> None:
    suites: list[int] = []

    def prepare(rack: virtual.Rack) -> None:
        def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
            if kind_of(datagram) is RAKP1 and answer is not None:
                return [answer[:14] + b"\x08\x00" + answer[16:17] + bytes((status,)) + answer[18:24]]
            return virtual.unchanged(datagram, answer)

        asked(suites)(rack)
        rack.meddle = meddle

    told = virtual.at_one(OFF, prepare=prepare, deadline=10.0)
    assert (told.outcome.sent, told.history, told.sessions) == (False, [], 0)
    assert told.outcome.reason == "timeout"
    assert len(suites) <= 10.0 / ipmi_login.BUSY_PAUSE


@pytest.mark.parametrize("answer", [False, True], ids=["question", "answer"])
@pytest.mark.parametrize("kind", LOGIN, ids=lambda kind: kind.name)
def test_a_login_survives_the_loss_of_any_datagram_and_leaves_no_session(kind: rmcp.Payload, answer: bool) -> None:
    first = nth(kind, 0)

    def prepare(rack: virtual.Rack) -> None:
        if answer:
            rack.meddle = lambda datagram, said: () if first(datagram) else virtual.unchanged(datagram, said)
        else:
            rack.loses = first

    told = virtual.at_one(OFF, prepare=prepare)
    assert (told.outcome.confirmed, told.history) == (True, [False])
    # What the console never heard of, it cannot give back.
    assert told.sessions == (1 if answer and kind is OPEN else 0)


@pytest.mark.parametrize(
    ("login", "text"),
    [({"password": "wrong"}, "the password is wrong"), ({"username": "eve"}, "does not know the user")],
)
@pytest.mark.parametrize("suite", [3, 17])
def test_a_wrong_login_is_told_as_what_it_is_at_once(login: dict[str, str], text: str, suite: int) -> None:
    told = virtual.at_one(OFF, login=login, suites=(suite,))
    assert (told.outcome.reason, told.outcome.sent, told.history, told.sessions) == ("auth", False, [], 0)
    assert text in str(told.outcome.text)
    assert told.outcome.seconds < ipmi_link.WAITS[0]


def test_a_proof_that_is_damaged_once_is_asked_for_again() -> None:
    first = nth(RAKP1, 0)

    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        if first(datagram) and answer is not None:
            return [answer[:-1] + bytes((answer[-1] ^ 1,))]
        return virtual.unchanged(datagram, answer)

    told = virtual.at_one(STATUS, prepare=meddling(meddle))
    assert (told.outcome.confirmed, told.sessions) == (True, 0)


@pytest.mark.parametrize("kind", [RAKP1, RAKP3], ids=lambda kind: kind.name)
def test_a_bmc_that_does_not_know_the_password_gets_no_command_but_the_end_of_the_session(kind: rmcp.Payload) -> None:
    """Somebody else at the BMC's address can answer, but not prove it."""

    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        if kind_of(datagram) is kind and answer is not None:
            return [answer[:-12] + bytes(12)]
        return virtual.unchanged(datagram, answer)

    told = virtual.at_one(OFF, prepare=meddling(meddle))
    assert (told.outcome.reason, told.outcome.sent, told.history) == ("auth", False, [])
    assert {one[1:3] for one in told.rack.commands} <= {(0x06, 0x3C)}


@pytest.mark.parametrize(("is_lost", "status"), [(False, 0x0F), (True, 0x01)], ids=["wrong proof", "lost proof"])
def test_a_login_that_is_given_up_says_whether_the_proof_was_wrong(is_lost: bool, status: int) -> None:
    said: list[int] = []

    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        if kind_of(datagram) is RAKP3 and datagram[17]:
            said.append(datagram[17])
        if kind_of(datagram) is RAKP1 and answer is not None:
            return [] if is_lost else [answer[:-12] + bytes(12)]
        return virtual.unchanged(datagram, answer)

    virtual.at_one(OFF, prepare=meddling(meddle), deadline=2.0)
    assert len(said) >= 2
    assert set(said) == {status}


def of_others(answer: bytes) -> Iterable[bytes]:
    """Answers to another console, to another question and of another kind, each of them an error too."""
    head, payload = answer[:16], answer[16:]
    refusal = bytes((payload[0], rakp.Status.UNAUTHORIZED_NAME)) + payload[2:]
    yield head[:5] + bytes((OTHER_KIND[head[5]],)) + head[6:] + refusal
    for status in (rakp.Status.UNAUTHORIZED_NAME, rakp.Status.NO_CIPHER_SUITE, payload[1]):
        tag, console = payload[0], payload[4:8]
        for other_tag, other_console in ((tag ^ 1, console), (tag, bytes((console[0] ^ 1,)) + console[1:])):
            yield head + bytes((other_tag, status)) + payload[2:4] + other_console + payload[8:]
    if len(payload) == OPENED:  # a session without a number
        yield head + payload[:8] + bytes(4) + payload[12:]
    yield head + payload[:7]
    yield answer[:15]


def test_answers_for_others_change_nothing() -> None:
    def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
        if kind_of(datagram) in LOGIN and answer is not None:
            return [*of_others(answer), answer]
        return virtual.unchanged(datagram, answer)

    told = virtual.at_one(OFF, prepare=meddling(meddle))
    assert (told.outcome.confirmed, told.history, told.sessions) == (True, [False], 0)
    assert told.outcome.seconds < ipmi_link.WAITS[0]


def test_a_full_bmc_is_asked_until_it_has_room() -> None:
    def prepare(rack: virtual.Rack) -> None:
        other = struct.pack("<BBHI", 1, 0, 0, 7) + rakp.SHA256.proposal()
        rack._open(other, rack.bmcs[virtual.ADDRESS], virtual.ADDRESS)
        [stands] = rack._sessions._sessions[virtual.ADDRESS].values()
        stands._channel = object()  # type: ignore[assignment]
        rack.loop.call_later(3.0, rack._sessions.drop, virtual.ADDRESS, stands.number)

    told = virtual.at_one(OFF, prepare=prepare, sessions=1)
    assert (told.outcome.confirmed, told.history) == (True, [False])
    assert 3.0 <= told.outcome.seconds < 4.0


def test_the_end_of_a_session_is_said_again_to_a_bmc_that_did_not_hear_it_and_is_full() -> None:
    places = itertools.count()
    # The level and the state before are answered; three times off and the end of the session get lost.
    lost = range(2, 6)
    told = virtual.at_one(
        OFF,
        prepare=lambda rack: setattr(
            rack, "loses", lambda one: kind_of(one) is rmcp.Payload.IPMI and next(places) in lost
        ),
        sessions=1,
    )
    assert (told.outcome.confirmed, told.history, told.sessions) == (True, [False], 0)
    assert told.outcome.seconds < sum(ipmi_link.WAITS[:3]) + 2 * ipmi_login.BUSY_PAUSE


def test_a_bmc_that_stays_full_is_told_as_busy_at_the_deadline() -> None:
    told = virtual.at_one(OFF, sessions=0, deadline=5.0)
    assert (told.outcome.reason, told.outcome.sent, told.outcome.seconds) == ("busy", False, 5.0)


def test_a_level_that_the_bmc_refuses_is_a_matter_of_the_login() -> None:
    refused = nth(rmcp.Payload.IPMI, 0)

    def prepare(rack: virtual.Rack) -> None:
        def meddle(datagram: bytes, answer: bytes | None) -> Iterable[bytes]:
            if not refused(datagram):
                return virtual.unchanged(datagram, answer)
            packet = rmcp.parse(datagram)
            assert isinstance(packet, rmcp.Packet20)
            session = rack._sessions.find(virtual.ADDRESS, packet.session)
            assert session is not None
            assert session._channel is not None
            request = rmcp.parse_request(session._channel.open(packet))
            return [session.seal(rmcp.response(request, code=0x81))]

        rack.meddle = meddle

    told = virtual.at_one(OFF, prepare=prepare)
    assert (told.outcome.reason, told.outcome.sent, told.history, told.sessions) == ("auth", False, [], 0)


@pytest.mark.parametrize(
    ("faults", "login", "suites", "reason"),
    [
        ((), {"password": "wrong"}, (3, 17), "auth"),
        ((), {}, (), "cipher"),
        ((chassis.DEAD,), {}, (3, 17), "timeout"),
        ((chassis.BUSY,), {}, (3, 17), "busy"),
        ((chassis.REFUSING,), {}, (3, 17), "refused"),
        ((chassis.STUBBORN,), {}, (3, 17), "not_off"),
    ],
)
def test_each_trouble_has_a_reason_of_its_own(
    faults: tuple[str, ...], login: dict[str, str], suites: tuple[int, ...], reason: str
) -> None:
    told = virtual.at_one(OFF, *faults, login=login, suites=suites, deadline=10.0)
    assert (told.outcome.confirmed, told.outcome.reason, told.history) == (False, reason, [])
