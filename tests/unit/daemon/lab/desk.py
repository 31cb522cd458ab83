"""A simulated BMC without a socket and on a clock that stands still: datagrams in, answers out."""

from __future__ import annotations

import struct
from typing import Any

from ansible_collections.roundsman.cluster.daemon.lab import bmc_simulator, chassis
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import rakp, rmcp

from tests.unit.daemon.lab import simulated

ADDRESS = "127.0.10.1"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A simulator with one BMC, which is made with these faults and suites; the options are the simulator's."""

    def __init__(self, *faults: str, suites: frozenset[int] = frozenset({3, 17}), **options: Any) -> None:
        self.node = chassis.MemoryChassis(faults=faults)
        self.clock = Clock()
        self.bmc = chassis.Bmc(self.node, simulated.USERNAME, simulated.PASSWORD, suites)
        self.simulator = bmc_simulator.Simulator({ADDRESS: self.bmc}.get, clock=self.clock, **options)

    def ask(self, datagram: bytes) -> bytes | None:
        return self.simulator.answer(datagram, address=ADDRESS)

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

    def log_in(self) -> Line:
        """Establish a session, and give the console's side of it."""
        number = self.open_session()[8:12]
        self.rakp1(number)
        session = self.simulator._sessions.find(ADDRESS, int.from_bytes(number, "little"))
        assert session is not None
        agreement = session._agreement
        assert agreement is not None
        proof = agreement.console_proof()
        answer = self.ask(rmcp.packet_20(rmcp.Payload.RAKP3, b"\x03\x00\x00\x00" + number + proof))
        assert answer is not None
        assert answer[17] == rakp.Status.OK
        return Line(self, rakp.Channel(agreement, peer=session.number), session.number)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.simulator._run_due()


class Line:
    """The console's side of an established session."""

    def __init__(self, desk: Desk, channel: rakp.Channel, number: int) -> None:
        self._desk, self._channel, self.number = desk, channel, number

    def seal(self, netfn: int, command: int, data: bytes = b"") -> bytes:
        return self._channel.seal(message(netfn, command, data))

    def ask(self, netfn: int, command: int, data: bytes = b"") -> tuple[int, bytes] | None:
        """Give completion code and data of a command's answer, None when there is none."""
        answer = self._desk.ask(self.seal(netfn, command, data))
        if answer is None:
            return None
        packet = rmcp.parse(answer)
        assert isinstance(packet, rmcp.Packet20)
        response = rmcp.parse_response(self._channel.open(packet))
        return response.code, response.data

    def get(self, netfn: int, command: int, data: bytes = b"") -> bytes:
        """Give the data of an answer that is no error."""
        answer = self.ask(netfn, command, data)
        assert answer is not None
        assert answer[0] == 0, hex(answer[0])
        return answer[1]


def message(netfn: int, command: int, data: bytes = b"") -> bytes:
    head = bytes((rmcp.BMC_ADDRESS, netfn << 2))
    body = bytes((0x81, 0, command)) + data
    return head + bytes((-sum(head) & 0xFF,)) + body + bytes((-sum(body) & 0xFF,))


def completion_code(answer: bytes | None) -> int:
    assert answer is not None
    return answer[14 + 6]
