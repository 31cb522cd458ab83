from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import chassis, session_table
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import rakp, rmcp

from tests.unit.daemon.lab import simulated
from tests.unit.daemon.lab.desk import ADDRESS as FIRST
from tests.unit.daemon.lab.desk import Desk, completion_code, message

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = "127.0.10.2"
# Byte by byte after the specifications, so that framing is not only checked against itself.
PRESENCE_PING = bytes.fromhex("0600ff06000011be80000000")
AUTH_CAPABILITIES = bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5")


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


def test_a_ping_is_answered_from_the_address_that_was_asked(rack: simulated.Rack) -> None:
    rack.add(SECOND)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(60)
        asker.sendto(PRESENCE_PING, (SECOND, rack.port))
        answer, source = asker.recvfrom(100)
    assert source == (SECOND, rack.port)
    assert answer[8] == rmcp.ASF_PONG


def test_one_socket_serves_all_of_127_8(rack: simulated.Rack) -> None:
    everywhere = ["127.0.0.1", "127.0.0.2", "127.1.3.250", "127.200.0.1", "127.255.255.254"]
    for address in everywhere:
        rack.add(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(60)
        for address in everywhere:
            asker.sendto(PRESENCE_PING, (address, rack.port))
            assert asker.recvfrom(100)[1] == (address, rack.port)


def test_authentication_capabilities_offer_ipmi_2() -> None:
    answer = Desk().ask(AUTH_CAPABILITIES)
    assert completion_code(answer) == 0
    assert answer is not None
    assert (answer[22] & 0x80, answer[24] & 0b10) == (0x80, 0b10)


def test_an_unknown_command_is_answered_with_c1() -> None:
    assert completion_code(Desk().ask(rmcp.packet_15(message(0x06, 0x77)))) == 0xC1


def test_a_chassis_command_outside_of_a_session_is_refused_and_changes_nothing() -> None:
    desk = Desk()
    assert completion_code(desk.ask(rmcp.packet_15(message(0x00, 0x02, b"\x00")))) == 0xD4
    assert desk.node.powered()


def test_a_command_without_its_data_is_answered_with_c7() -> None:
    assert completion_code(Desk().ask(rmcp.packet_15(message(0x06, 0x38)))) == 0xC7


@pytest.mark.parametrize(("hashes", "suite"), [((1, 1), 3), ((3, 4), 17)])
def test_both_suites_are_accepted_unless_the_bmc_lacks_them(hashes: tuple[int, int], suite: int) -> None:
    assert Desk().open_session(hashes=hashes)[1] == rakp.Status.OK
    lacking = Desk(suites=frozenset({3, 17}) - {suite})
    assert lacking.open_session(hashes=hashes)[1] == rakp.Status.NO_CIPHER_SUITE


def test_an_unknown_user_is_told_so() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    assert desk.rakp1(session, username="nobody")[1] == rakp.Status.UNAUTHORIZED_NAME


def test_a_wrong_password_is_refused() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    assert desk.rakp1(session)[1] == rakp.Status.OK
    answer = desk.ask(rmcp.packet_20(rmcp.Payload.RAKP3, b"\x03\x00\x00\x00" + session + bytes(32)))
    assert answer is not None
    assert answer[17] == rakp.Status.INVALID_INTEGRITY


def test_a_proof_before_the_challenge_is_refused() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    answer = desk.ask(rmcp.packet_20(rmcp.Payload.RAKP3, b"\x03\x00\x00\x00" + session + bytes(32)))
    assert answer is not None
    assert answer[17] == rakp.Status.INVALID_INTEGRITY


def test_a_session_that_is_idle_for_a_minute_is_forgotten() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    desk.clock.now = session_table.SESSION_IDLE
    assert desk.rakp1(session)[1] == rakp.Status.OK
    desk.clock.now += session_table.SESSION_IDLE + 1
    assert desk.rakp1(session)[1] == rakp.Status.INVALID_SESSION


def test_the_number_of_sessions_is_bounded_and_the_oldest_half_open_one_goes() -> None:
    desk = Desk()
    sessions = [desk.open_session()[8:12] for _ in range(session_table.SESSIONS_PER_BMC + 1)]
    assert desk.simulator.session_count() == session_table.SESSIONS_PER_BMC
    assert desk.rakp1(sessions[0])[1] == rakp.Status.INVALID_SESSION
    assert desk.rakp1(sessions[-1])[1] == rakp.Status.OK


def test_a_bmc_whose_sessions_all_stand_has_no_room_until_one_is_closed() -> None:
    desk = Desk(sessions=2)
    first, _ = desk.log_in(), desk.log_in()
    assert desk.open_session()[1] == rakp.Status.NO_RESOURCES
    first.get(0x06, 0x3C, first.number.to_bytes(4, "little"))
    assert desk.open_session()[1] == rakp.Status.OK


def test_an_unsigned_refusal_ends_a_half_open_session_and_no_other() -> None:
    desk = Desk()
    refusal = rmcp.packet_20(rmcp.Payload.RAKP3, bytes((3, rakp.Status.INVALID_INTEGRITY, 0, 0)))
    half_open = desk.open_session()[8:12]
    line = desk.log_in()
    for number in (half_open, line.number.to_bytes(4, "little")):
        assert desk.ask(rmcp.packet_20(rmcp.Payload.RAKP3, refusal[16:] + number)) is None
    assert desk.simulator.session_count() == 1
    assert line.get(0x00, 0x01)[0] & 1


def test_a_datagram_that_comes_twice_is_carried_out_once() -> None:
    desk = Desk()
    off = desk.log_in().seal(0x00, 0x02, b"\x00")
    assert desk.ask(off) is not None
    desk.node.set_power(True)
    assert desk.ask(off) is None
    assert desk.node.powered()


def test_a_datagram_that_was_tampered_with_is_ignored() -> None:
    desk = Desk()
    off = desk.log_in().seal(0x00, 0x02, b"\x00")
    assert desk.ask(off[:-1] + bytes((off[-1] ^ 1,))) is None
    assert desk.node.powered()
    assert desk.ask(off) is not None
    assert not desk.node.powered()


def test_a_message_outside_of_a_session_is_answered_in_either_frame() -> None:
    answer = Desk().ask(rmcp.packet_20(rmcp.Payload.IPMI, message(0x06, 0x77)))
    assert answer is not None
    assert (answer[4], answer[16 + 6]) == (rmcp.AUTH_RMCPP, 0xC1)


def test_garbage_is_ignored() -> None:
    desk = Desk()
    chance = random.Random(1)
    session = desk.open_session()[8:12]
    good = [
        AUTH_CAPABILITIES,
        PRESENCE_PING,
        rmcp.packet_20(rmcp.Payload.RAKP1, b"\x02\x00\x00\x00" + session + bytes(16) + b"\x14\x00\x00\x05admin"),
        rmcp.packet_20(rmcp.Payload.IPMI, bytes(32), flags=0xC0, session=int.from_bytes(session, "little")),
    ]
    cut = [datagram[:length] for datagram in good for length in range(len(datagram))]
    for datagram in cut:
        assert desk.ask(datagram) is None, datagram
    for _ in range(2000):
        damaged = bytearray(chance.choice(good))
        damaged[chance.randrange(4, len(damaged))] = chance.randrange(256)
        desk.ask(bytes(damaged))
    assert desk.node.history == []
    assert completion_code(desk.ask(AUTH_CAPABILITIES)) == 0


def test_the_server_still_answers_after_garbage(rack: simulated.Rack) -> None:
    rack.add(FIRST)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(60)
        for datagram in (b"", b"\x06", b"\xff" * 2000, AUTH_CAPABILITIES[:-3], AUTH_CAPABILITIES):
            asker.sendto(datagram, (FIRST, rack.port))
        answer = asker.recv(100)
    assert completion_code(answer) == 0


def test_addresses_without_a_bmc_and_dead_bmcs_are_silent() -> None:
    desk = Desk()
    assert desk.simulator.answer(AUTH_CAPABILITIES, address=SECOND) is None
    desk.node.break_with(chassis.DEAD)
    assert desk.ask(AUTH_CAPABILITIES) is None
