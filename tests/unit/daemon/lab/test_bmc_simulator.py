from __future__ import annotations

import random
import shutil
import socket
import struct
import subprocess
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis, ipmi_session, session_table
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import rakp, rmcp

from tests.unit.daemon.lab import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST, SECOND = "127.0.10.1", "127.0.10.2"
# Byte by byte after the specifications, so that framing is not only checked against itself.
PRESENCE_PING = bytes.fromhex("0600ff06000011be80000000")
AUTH_CAPABILITIES = bytes.fromhex("0600ff07000000000000000000092018c88100388e04b5")


@pytest.fixture
def rack() -> Iterator[simulated.Rack]:
    with simulated.running() as rack:
        yield rack


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A simulator without a socket: datagrams in, answers out."""

    def __init__(self, *, suites: frozenset[int] = frozenset({3, 17})) -> None:
        self.node = chassis.MemoryChassis()
        self.clock = Clock()
        bmc = chassis.Bmc(self.node, simulated.USERNAME, simulated.PASSWORD, suites)
        self.simulator = bmc_simulator.Simulator({FIRST: bmc}.get, clock=self.clock)

    def ask(self, datagram: bytes) -> bytes | None:
        return self.simulator.answer(datagram, address=FIRST)

    def open_session(self, *, hashes: tuple[int, int] = (3, 4), console: int = 7) -> bytes:
        proposal = b"".join(bytes((kind, 0, 0, 8, number, 0, 0, 0)) for kind, number in enumerate((*hashes, 1)))
        payload = struct.pack("<BBHI", 1, 0, 0, console) + proposal
        answer = self.ask(rmcp.packet_20(rmcp.Payload.OPEN_SESSION_REQUEST, payload))
        assert answer is not None
        return answer[16:]

    def rakp1(self, session: bytes, *, username: str = simulated.USERNAME) -> bytes:
        name = username.encode()
        payload = b"\x02\x00\x00\x00" + session + bytes(16) + struct.pack("<BHB", 0x14, 0, len(name)) + name
        answer = self.ask(rmcp.packet_20(rmcp.Payload.RAKP1, payload))
        assert answer is not None
        return answer[16:]

    def log_in(self) -> rakp.Channel:
        """Establish a session, and give the console's side of it: what it seals is for the BMC."""
        number = self.open_session()[8:12]
        self.rakp1(number)
        session = self.simulator._sessions.find(FIRST, int.from_bytes(number, "little"))
        assert session is not None
        agreement = session._agreement
        assert agreement is not None
        proof = agreement.console_proof()
        answer = self.ask(rmcp.packet_20(rmcp.Payload.RAKP3, b"\x03\x00\x00\x00" + number + proof))
        assert answer is not None
        assert answer[17] == ipmi_session.Status.OK
        return rakp.Channel(agreement, peer=session.number)


def message(netfn: int, command: int, data: bytes = b"") -> bytes:
    head = bytes((rmcp.BMC_ADDRESS, netfn << 2))
    body = bytes((0x81, 0, command)) + data
    return head + bytes((-sum(head) & 0xFF,)) + body + bytes((-sum(body) & 0xFF,))


def completion_code(answer: bytes | None) -> int:
    assert answer is not None
    return answer[14 + 6]


def test_a_ping_is_answered_from_the_address_that_was_asked(rack: simulated.Rack) -> None:
    rack.add(SECOND)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(10)
        asker.sendto(PRESENCE_PING, (SECOND, rack.port))
        answer, source = asker.recvfrom(100)
    assert source == (SECOND, rack.port)
    assert answer[8] == rmcp.ASF_PONG


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
    assert Desk().open_session(hashes=hashes)[1] == ipmi_session.Status.OK
    lacking = Desk(suites=frozenset({3, 17}) - {suite})
    assert lacking.open_session(hashes=hashes)[1] == ipmi_session.Status.NO_CIPHER_SUITE


def test_an_unknown_user_is_told_so() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    assert desk.rakp1(session, username="nobody")[1] == ipmi_session.Status.UNAUTHORIZED_NAME


def test_a_wrong_password_is_refused() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    assert desk.rakp1(session)[1] == ipmi_session.Status.OK
    answer = desk.ask(rmcp.packet_20(rmcp.Payload.RAKP3, b"\x03\x00\x00\x00" + session + bytes(32)))
    assert answer is not None
    assert answer[17] == ipmi_session.Status.INVALID_INTEGRITY


def test_a_proof_before_the_challenge_is_refused() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    answer = desk.ask(rmcp.packet_20(rmcp.Payload.RAKP3, b"\x03\x00\x00\x00" + session + bytes(32)))
    assert answer is not None
    assert answer[17] == ipmi_session.Status.INVALID_INTEGRITY


def test_a_session_that_is_idle_for_a_minute_is_forgotten() -> None:
    desk = Desk()
    session = desk.open_session()[8:12]
    desk.clock.now = session_table.SESSION_IDLE
    assert desk.rakp1(session)[1] == ipmi_session.Status.OK
    desk.clock.now += session_table.SESSION_IDLE + 1
    assert desk.rakp1(session)[1] == ipmi_session.Status.INVALID_SESSION


def test_the_number_of_sessions_is_bounded_and_the_oldest_half_open_one_goes() -> None:
    desk = Desk()
    sessions = [desk.open_session()[8:12] for _ in range(session_table.SESSIONS_PER_BMC + 1)]
    assert desk.simulator.session_count() == session_table.SESSIONS_PER_BMC
    assert desk.rakp1(sessions[0])[1] == ipmi_session.Status.INVALID_SESSION
    assert desk.rakp1(sessions[-1])[1] == ipmi_session.Status.OK


def test_a_datagram_that_comes_twice_is_carried_out_once() -> None:
    desk = Desk()
    off = desk.log_in().seal(message(0x00, 0x02, b"\x00"))
    assert desk.ask(off) is not None
    desk.node.set_power(True)
    assert desk.ask(off) is None
    assert desk.node.powered()


def test_a_datagram_that_was_tampered_with_is_ignored() -> None:
    desk = Desk()
    off = desk.log_in().seal(message(0x00, 0x02, b"\x00"))
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
        asker.settimeout(10)
        for datagram in (b"", b"\x06", b"\xff" * 2000, AUTH_CAPABILITIES[:-3], AUTH_CAPABILITIES):
            asker.sendto(datagram, (FIRST, rack.port))
        answer = asker.recv(100)
    assert completion_code(answer) == 0


def test_addresses_without_a_bmc_and_dead_bmcs_are_silent() -> None:
    desk = Desk()
    assert desk.simulator.answer(AUTH_CAPABILITIES, address=SECOND) is None
    desk.node.break_with(chassis.DEAD)
    assert desk.ask(AUTH_CAPABILITIES) is None


@pytest.mark.skipif(shutil.which("ipmitool") is None, reason="ipmitool is not installed")
@pytest.mark.parametrize("suite", ["3", "17"])
def test_ipmitool_switches_a_node_off(rack: simulated.Rack, suite: str) -> None:
    node = rack.add(FIRST)
    login = ["-H", FIRST, "-p", str(rack.port), "-U", simulated.USERNAME, "-P", simulated.PASSWORD]
    command = ["ipmitool", "-I", "lanplus", "-C", suite, *login, "chassis", "power", "off"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert not node.powered()


@pytest.mark.skipif(shutil.which("ipmipower") is None, reason="ipmipower is not installed")
def test_ipmipower_reads_a_node(rack: simulated.Rack) -> None:
    rack.add(FIRST, on=False)
    login = ["-h", f"{FIRST}:{rack.port}", "-u", simulated.USERNAME, "-p", simulated.PASSWORD]
    command = ["ipmipower", "-D", "LAN_2_0", *login, "--stat"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60, text=True)
    assert done.stdout.split() == [f"{FIRST}:", "off"]
