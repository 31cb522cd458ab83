"""The BMC's side of an RMCP+ session: RAKP, its keys, and the protection of its datagrams.

Source: IPMI 2.0, 13.17 to 13.32. Suite 3 is HMAC-SHA1 with AES, suite 17 HMAC-SHA256 with AES.
"""

from __future__ import annotations

import hmac
import os
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from . import chassis, rmcp

BLOCK: Final = 16
ADMINISTRATOR: Final = 4
NEXT_HEADER: Final = 7
RAKP_HEADER: Final = 8
MIN_RAKP1: Final = 28


class Status(IntEnum):
    """The status codes of RMCP+ and RAKP messages (table 13-15)."""

    OK = 0x00
    NO_RESOURCES = 0x01
    INVALID_SESSION = 0x02
    UNAUTHORIZED_NAME = 0x0D
    INVALID_INTEGRITY = 0x0F
    NO_CIPHER_SUITE = 0x11
    ILLEGAL_PARAMETER = 0x12


@dataclass(frozen=True)
class Suite:
    """A cipher suite: its number, its algorithms, its hash, and the length of its authentication codes."""

    number: int
    algorithms: tuple[int, int, int]
    digest: str
    code_length: int


SUITES: Final = (
    Suite(number=chassis.SUITE_SHA1, algorithms=(1, 1, 1), digest="sha1", code_length=12),
    Suite(number=chassis.SUITE_SHA256, algorithms=(3, 4, 1), digest="sha256", code_length=16),
)


@dataclass
class Session:
    """One session, from its opening on; `established` once both sides proved that they know the password."""

    bmc: chassis.Bmc
    suite: Suite
    console: int
    number: int
    guid: bytes
    used: float
    established: bool = False
    nonce: bytes = field(default_factory=lambda: os.urandom(16))
    _their_nonce: bytes = b""
    _name: bytes = b""
    _integrity_key: bytes = b""
    _cipher_key: bytes = b""
    _session_key: bytes = b""
    _last_received: int = 0
    _sent: int = 0

    def rakp2(self, rakp1: bytes) -> bytes:
        """Answer RAKP message 1: an unknown user is told so, a wrong password shows at the console."""
        if len(rakp1) < MIN_RAKP1 or len(rakp1) < MIN_RAKP1 + rakp1[27]:
            return rakp_error(rakp1, Status.ILLEGAL_PARAMETER, self.console)
        name = rakp1[MIN_RAKP1 : MIN_RAKP1 + rakp1[27]]
        if name != self.bmc.username.encode():
            return rakp_error(rakp1, Status.UNAUTHORIZED_NAME, self.console)
        self._their_nonce = rakp1[8:24]
        self._name = bytes((rakp1[24], len(name))) + name
        self._session_key = self._hash(self._password, self._their_nonce + self.nonce + self._name)
        self._integrity_key = self._hash(self._session_key, b"\x01" * 20)
        self._cipher_key = self._hash(self._session_key, b"\x02" * 20)[:BLOCK]
        ids = struct.pack("<II", self.console, self.number)
        proof = self._hash(self._password, ids + self._their_nonce + self.nonce + self.guid + self._name)
        return rakp_error(rakp1, Status.OK, self.console) + self.nonce + self.guid + proof

    def rakp4(self, rakp3: bytes) -> bytes:
        """Answer RAKP message 3; the session stands when its code shows the right password."""
        console = struct.pack("<I", self.console)
        expected = self._hash(self._password, self.nonce + console + self._name)
        if not hmac.compare_digest(rakp3[8:], expected):
            return rakp_error(rakp3, Status.INVALID_INTEGRITY, self.console)
        self.established = True
        number = struct.pack("<I", self.number)
        proof = self._hash(self._session_key, self._their_nonce + number + self.guid)
        return rakp_error(rakp3, Status.OK, self.console) + proof[: self.suite.code_length]

    def open(self, packet: rmcp.Packet20) -> bytes:
        """Give the message inside a datagram of this session.

        Raises:
            rmcp.MalformedError: it is not encrypted and signed with this session's keys, or a repetition.
        """
        length = self.suite.code_length
        if packet.flags != rmcp.ENCRYPTED | rmcp.AUTHENTICATED or not self.established:
            raise rmcp.MalformedError("not protected as agreed")
        expected = self._hash(self._integrity_key, packet.signed[:-length])[:length]
        if not hmac.compare_digest(packet.signed[-length:], expected):
            raise rmcp.MalformedError("the authentication code is wrong")
        if packet.sequence <= self._last_received:
            raise rmcp.MalformedError("a repetition")
        if len(packet.payload) < 2 * BLOCK or len(packet.payload) % BLOCK:
            raise rmcp.MalformedError("not whole cipher blocks")
        self._last_received = packet.sequence
        decryptor = self._cipher(packet.payload[:BLOCK]).decryptor()
        plain = decryptor.update(packet.payload[BLOCK:]) + decryptor.finalize()
        return plain[: -1 - plain[-1]]

    def seal(self, message: bytes) -> bytes:
        """Put a message into an encrypted and signed datagram to the console."""
        self._sent += 1
        padding = -(len(message) + 1) % BLOCK
        plain = message + bytes(range(1, padding + 1)) + bytes((padding,))
        vector = os.urandom(BLOCK)
        encryptor = self._cipher(vector).encryptor()
        datagram = rmcp.packet_20(
            rmcp.Payload.IPMI,
            vector + encryptor.update(plain) + encryptor.finalize(),
            flags=rmcp.ENCRYPTED | rmcp.AUTHENTICATED,
            session=self.console,
            sequence=self._sent,
        )
        fill = -(len(datagram) - 4 + 2) % 4
        datagram += b"\xff" * fill + bytes((fill, NEXT_HEADER))
        return datagram + self._hash(self._integrity_key, datagram[4:])[: self.suite.code_length]

    @property
    def _password(self) -> bytes:
        return self.bmc.password.encode()

    def _hash(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self.suite.digest).digest()

    def _cipher(self, vector: bytes) -> Cipher[modes.CBC]:
        return Cipher(algorithms.AES(self._cipher_key), modes.CBC(vector))


def rakp_error(request: bytes, status: Status, console: int) -> bytes:
    """Build the eight bytes that every RAKP answer begins with, and an error consists of."""
    return struct.pack("<BBHI", request[0], status, 0, console)


def suite_of(proposal: bytes, *, allowed: frozenset[int]) -> Suite | None:
    """Find the suite whose three algorithms are proposed (the 24 bytes of table 13-9)."""
    proposed = (proposal[4], proposal[12], proposal[20])
    for suite in SUITES:
        if suite.number in allowed and suite.algorithms == proposed:
            return suite
    return None


def cipher_records(*, allowed: frozenset[int]) -> bytes:
    """List the suites as Get Channel Cipher Suites does (table 22-18)."""
    return b"".join(
        bytes((0xC0, suite.number, suite.algorithms[0], 0x40 | suite.algorithms[1], 0x80 | suite.algorithms[2]))
        for suite in SUITES
        if suite.number in allowed
    )
