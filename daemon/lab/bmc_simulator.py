"""A simulator of BMCs, for the lab and for tests: no hardware is behind it.

One UDP socket on loopback speaks IPMI 2.0 for any number of BMCs: the destination address of a datagram
says which BMC is meant, and the answer leaves from that address. So 127.0.0.0/8 holds one BMC per address.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import select
import socket
import struct
import time
import uuid
from collections.abc import Callable
from typing import Final

from ...plugins.module_utils.oob import rakp, rmcp
from . import chassis, ipmi_calls, ipmi_commands, ipmi_session, session_table, wire

Bmc = chassis.Bmc
Chassis = chassis.Chassis
MemoryChassis = chassis.MemoryChassis

# Linux's number; Python 3.11's socket module does not name it.
IP_PKTINFO: Final = 8
_PKTINFO: Final = struct.Struct("=I4s4s")
OPEN_REQUEST: Final = 32
RECEIVE_BUFFER: Final = 4 << 20
RECEIVED_AT_ONCE: Final = 32

_RAKP_ANSWERS: Final = {
    rmcp.Payload.RAKP1: rmcp.Payload.RAKP2,
    rmcp.Payload.RAKP3: rmcp.Payload.RAKP4,
}

Lookup = Callable[[str], "chassis.Bmc | None"]
Peer = tuple[str, int]


class Simulator:
    """Answers for the BMCs that `lookup` finds by address; unknown addresses stay silent.

    `off_time` is how long a power cycle keeps a chassis off, `slow_time` how long one with the fault `slow` takes to
    follow, both in seconds. `sessions` is how many a BMC has room for.
    """

    def __init__(
        self,
        lookup: Lookup,
        *,
        conditions: wire.Conditions = wire.CALM,
        off_time: float = 0.5,
        slow_time: float = 2.0,
        sessions: int = session_table.SESSIONS_PER_BMC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup = lookup
        self._wire = wire.Wire(conditions)
        self._off_time = off_time
        self._slow_time = slow_time
        self._clock = clock
        self._sessions = session_table.SessionTable(limit=sessions, clock=clock)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._socket: socket.socket | None = None
        self._waker, self._wake = os.pipe()
        self._numbers = itertools.count(int.from_bytes(os.urandom(3), "big") + 1)

    def bind(self, port: int = 0) -> int:
        """Take a UDP port on loopback only, and give its number.

        Raises:
            OSError: the port is taken, or the kernel does not let the socket be tied to loopback.
        """
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
            server.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
            # As much as the kernel gives: a thousand consoles can ask in the same moment.
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            server.setblocking(False)  # noqa: FBT003 -- the socket's own signature
            server.bind(("0.0.0.0", port))  # noqa: S104 -- tied to the loopback device above
        except OSError:
            server.close()
            raise
        self._socket = server
        bound: int = server.getsockname()[1]
        return bound

    def serve_forever(self) -> None:
        """Answer until `close` is called, from whichever thread."""
        server = self._socket
        if server is None:
            raise RuntimeError("bind() comes before serve_forever()")
        poller = select.poll()
        poller.register(server, select.POLLIN)
        poller.register(self._waker, select.POLLIN)
        while True:
            ready = dict(poller.poll(self._until_next()))
            if self._waker in ready:
                break
            if ready:
                self._receive_some(server)
            self._run_due()
        server.close()
        os.close(self._waker)

    def close(self) -> None:
        """End `serve_forever`; the socket is closed when it returns."""
        os.close(self._wake)

    def session_count(self) -> int:
        """Count the sessions that are open or being opened."""
        return self._sessions.count()

    def lateness(self, address: str) -> float:
        """How late the BMC at an address answers, in seconds."""
        bmc = self._lookup(address)
        return chassis.lateness(bmc.chassis.faults()) if bmc is not None else 0.0

    def answer(self, datagram: bytes, *, address: str) -> bytes | None:
        """Give the answer of the BMC at an address to one datagram, None when it stays silent."""
        bmc = self._lookup(address)
        if bmc is None or chassis.DEAD in bmc.chassis.faults():
            return None
        try:
            packet = rmcp.parse(datagram)
            if isinstance(packet, rmcp.Ping):
                return rmcp.pong(packet)
            if isinstance(packet, rmcp.Packet15):
                return rmcp.packet_15(_answer_outside(packet.payload, bmc))
            if packet.kind is rmcp.Payload.IPMI and not packet.session and not packet.flags:
                return rmcp.packet_20(rmcp.Payload.IPMI, _answer_outside(packet.payload, bmc))
            return self._answer_20(packet, bmc, address)
        except rmcp.MalformedError:
            return None

    def _answer_20(self, packet: rmcp.Packet20, bmc: chassis.Bmc, address: str) -> bytes | None:
        payload = packet.payload
        if packet.kind is rmcp.Payload.IPMI:
            return self._answer_inside(packet, bmc, address)
        if packet.kind is rmcp.Payload.OPEN_SESSION_REQUEST:
            return self._open(payload, bmc, address)
        kind = _RAKP_ANSWERS.get(packet.kind)
        return self._answer_rakp(packet, kind, address) if kind is not None else None

    def _answer_rakp(self, packet: rmcp.Packet20, kind: rmcp.Payload, address: str) -> bytes | None:
        payload = packet.payload
        if len(payload) < ipmi_session.RAKP_HEADER:
            raise rmcp.MalformedError("the RAKP message is too short")
        number = int.from_bytes(payload[4:8], "little")
        session = self._sessions.find(address, number)
        if session is None:
            status = rakp.Status.INVALID_SESSION
            return rmcp.packet_20(kind, ipmi_session.rakp_error(payload, status, 0))
        if packet.kind is rmcp.Payload.RAKP1:
            return rmcp.packet_20(kind, session.rakp2(payload))
        if payload[1]:  # the console does not take the BMC's proof; nobody signed this, so a session that stands stays
            if not session.established:
                self._sessions.drop(address, number)
            return None
        return rmcp.packet_20(kind, session.rakp4(payload))

    def _answer_inside(self, packet: rmcp.Packet20, bmc: chassis.Bmc, address: str) -> bytes | None:
        session = self._sessions.find(address, packet.session)
        if session is None:
            return None
        request = rmcp.parse_request(session.open(packet))
        given = ipmi_commands.answer(request, bmc=bmc, session=session.number)
        self._act(given, bmc)
        if given.closes:
            self._sessions.drop(address, session.number)
        if given.silent:
            return None
        return session.seal(rmcp.response(request, code=given.code, data=given.data))

    def _act(self, given: ipmi_calls.Answer, bmc: chassis.Bmc) -> None:
        """Let the chassis follow: at once, or after a while."""
        on, node = given.sets, bmc.chassis
        if on is None:
            return
        wait = self._slow_time if chassis.SLOW in node.faults() else 0.0
        if wait:
            self._later(wait, lambda: node.set_power(on))
        else:
            node.set_power(on)
        if given.power_on_later:
            self._later(wait + self._off_time, functools.partial(_come_on, bmc))

    def _open(self, payload: bytes, bmc: chassis.Bmc, address: str) -> bytes:
        if len(payload) < OPEN_REQUEST:
            raise rmcp.MalformedError("the open session request is too short")
        console = int.from_bytes(payload[4:8], "little")
        suite = ipmi_session.suite_of(payload[8:32], allowed=bmc.suites)
        kind = rmcp.Payload.OPEN_SESSION_RESPONSE
        if suite is None:
            status = rakp.Status.NO_CIPHER_SUITE
            return rmcp.packet_20(kind, ipmi_session.rakp_error(payload, status, console))
        if not self._sessions.make_room(address):
            status = rakp.Status.NO_RESOURCES
            return rmcp.packet_20(kind, ipmi_session.rakp_error(payload, status, console))
        session = ipmi_session.Session(
            bmc=bmc,
            suite=suite,
            console=console,
            number=next(self._numbers),
            guid=_guid(address),
            used=self._clock(),
        )
        self._sessions.add(address, session)
        head = struct.pack("<BBBBII", payload[0], 0, ipmi_session.ADMINISTRATOR, 0, console, session.number)
        return rmcp.packet_20(kind, head + payload[8:32])

    def _receive_some(self, server: socket.socket) -> None:
        for _ in range(RECEIVED_AT_ONCE):
            if not self._receive(server):
                return

    def _receive(self, server: socket.socket) -> bool:
        """Take one datagram; False when there is none."""
        try:
            datagram, ancillary, _, peer = server.recvmsg(rmcp.LARGEST + 1, socket.CMSG_SPACE(_PKTINFO.size))
        except BlockingIOError:
            return False
        except OSError:
            return True  # an ICMP error of an earlier answer
        for level, kind, data in ancillary:
            if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
                for _ in range(self._wire.copies()):
                    self._arrived(server, datagram, peer, _PKTINFO.unpack(data)[2])
        return True

    def _arrived(self, server: socket.socket, datagram: bytes, peer: Peer, address: bytes) -> None:
        asked = socket.inet_ntoa(address)
        answer = self.answer(datagram, address=asked)
        if answer is not None:
            send, late = _Send(server, answer, peer, address), self.lateness(asked)
            for delay in self._wire.delays():
                self._later(late + delay, send)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self._clock() + seconds, next(self._order), act))

    def _until_next(self) -> float | None:
        if not self._agenda:
            return None
        return max(0.0, (self._agenda[0][0] - self._clock()) * 1000)

    def _run_due(self) -> None:
        while self._agenda and self._agenda[0][0] <= self._clock():
            heapq.heappop(self._agenda)[2]()


def _come_on(bmc: chassis.Bmc) -> None:
    bmc.log.power(on=True)
    bmc.chassis.set_power(True)


@functools.lru_cache(maxsize=None)
def _guid(address: str) -> bytes:
    return uuid.uuid5(uuid.NAMESPACE_OID, address).bytes


def _answer_outside(payload: bytes, bmc: chassis.Bmc) -> bytes:
    """Answer a message outside of a session; clients put it into either frame."""
    request = rmcp.parse_request(payload)
    given = ipmi_commands.answer(request, bmc=bmc, session=None)
    return rmcp.response(request, code=given.code, data=given.data)


class _Send:
    """An answer on its way, from the address that was asked."""

    def __init__(self, server: socket.socket, answer: bytes, peer: Peer, address: bytes) -> None:
        self._server = server
        self._answer = answer
        self._peer = peer
        self._source = (socket.IPPROTO_IP, IP_PKTINFO, _PKTINFO.pack(0, address, bytes(4)))

    def __call__(self) -> None:
        try:
            self._server.sendmsg([self._answer], [self._source], 0, self._peer)
        except OSError:
            return  # the asker is gone, which a BMC never learns


__all__ = ["Bmc", "Chassis", "Lookup", "MemoryChassis", "Simulator"]
