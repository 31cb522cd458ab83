"""What both sides of an RMCP+ session compute: cipher suites, proofs, keys, and the protection of datagrams.

Source: IPMI 2.0, 13.17 to 13.32. Suite 3 is HMAC-SHA1 with AES, suite 17 HMAC-SHA256 with AES.
"""

from __future__ import annotations

import hmac
import os
import struct
from dataclasses import dataclass
from enum import IntEnum

from . import rmcp

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except ImportError as error:  # a node whose BMC is reached otherwise need not have it
    MISSING = str(error)
else:
    MISSING = ""

BLOCK = 16
NEXT_HEADER = 7
NONCE = 16


class Status(IntEnum):
    """The status codes of RMCP+ and RAKP messages (table 13-15) that are used here."""

    OK = 0x00
    NO_RESOURCES = 0x01
    INVALID_SESSION = 0x02
    INVALID_AUTHENTICATION = 0x04
    INVALID_INTEGRITY_ALGORITHM = 0x05
    NO_AUTHENTICATION = 0x06
    NO_INTEGRITY = 0x07
    INACTIVE_SESSION = 0x08
    INVALID_ROLE = 0x09
    UNAUTHORIZED_ROLE = 0x0A
    NO_SESSION_SLOT = 0x0B
    UNAUTHORIZED_NAME = 0x0D
    INVALID_INTEGRITY = 0x0F
    INVALID_CONFIDENTIALITY = 0x10
    NO_CIPHER_SUITE = 0x11
    ILLEGAL_PARAMETER = 0x12


class Privilege(IntEnum):
    """Privilege levels (table 13-9): power control takes an operator."""

    OPERATOR = 3
    ADMINISTRATOR = 4


@dataclass(frozen=True)
class Suite:
    """A cipher suite: its number, its algorithms, its hash, and the length of its authentication codes."""

    number: int
    algorithms: tuple[int, int, int]
    digest: str
    code_length: int

    def hash(self, key: bytes, data: bytes) -> bytes:
        """The keyed hash of this suite."""
        return hmac.digest(key, data, self.digest)

    def proposal(self) -> bytes:
        """The 24 bytes by which a session with this suite is asked for (table 13-9)."""
        return b"".join(struct.pack("<BHBB3x", kind, 0, 8, algorithm) for kind, algorithm in enumerate(self.algorithms))


SHA1 = Suite(number=3, algorithms=(1, 1, 1), digest="sha1", code_length=12)
SHA256 = Suite(number=17, algorithms=(3, 4, 1), digest="sha256", code_length=16)
SUITES = (SHA1, SHA256)


@dataclass(frozen=True)
class Agreement:
    """All that a session's proofs and keys are made of; `name` is role, length and user name as RAKP 1 carries them."""

    suite: Suite
    password: bytes
    name: bytes
    console: int
    bmc: int
    console_nonce: bytes
    bmc_nonce: bytes
    guid: bytes

    def bmc_proof(self) -> bytes:
        """What RAKP 2 ends with: the BMC knows the password."""
        ids = struct.pack("<II", self.console, self.bmc)
        return self._hash(ids + self.console_nonce + self.bmc_nonce + self.guid + self.name)

    def console_proof(self) -> bytes:
        """What RAKP 3 ends with: the console knows the password."""
        return self._hash(self.bmc_nonce + struct.pack("<I", self.console) + self.name)

    def last_proof(self) -> bytes:
        """What RAKP 4 ends with: both have the same keys."""
        whole = self.suite.hash(self.session_key(), self.console_nonce + struct.pack("<I", self.bmc) + self.guid)
        return whole[: self.suite.code_length]

    def session_key(self) -> bytes:
        """The key of which the others are made."""
        return self._hash(self.console_nonce + self.bmc_nonce + self.name)

    def _hash(self, data: bytes) -> bytes:
        return self.suite.hash(self.password, data)


class Channel:
    """The protection of one session's datagrams; `peer` is the session's number at whom they go to."""

    def __init__(self, agreement: Agreement, *, peer: int) -> None:
        self._suite, self._peer, self._sent = agreement.suite, peer, 0
        key = agreement.session_key()
        self._integrity_key = self._suite.hash(key, b"\x01" * 20)
        # In CBC the first block of each message stands for the vector, so one context serves all of a session.
        cipher = Cipher(algorithms.AES(self._suite.hash(key, b"\x02" * 20)[:BLOCK]), modes.CBC(bytes(BLOCK)))
        self._encrypt, self._decrypt = cipher.encryptor().update, cipher.decryptor().update

    def seal(self, message: bytes) -> bytes:
        """Put a message into an encrypted and signed datagram; each has the next sequence number."""
        self._sent += 1
        padding = -(len(message) + 1) % BLOCK
        plain = message + bytes(range(1, padding + 1)) + bytes((padding,))
        datagram = rmcp.packet_20(
            rmcp.Payload.IPMI,
            self._encrypt(os.urandom(BLOCK) + plain),
            flags=rmcp.ENCRYPTED | rmcp.AUTHENTICATED,
            session=self._peer,
            sequence=self._sent,
        )
        fill = -(len(datagram) - 4 + 2) % 4
        datagram += b"\xff" * fill + bytes((fill, NEXT_HEADER))
        return datagram + self._suite.hash(self._integrity_key, datagram[4:])[: self._suite.code_length]

    def open(self, packet: rmcp.Packet20) -> bytes:
        """Give the message inside a datagram.

        Raises:
            rmcp.MalformedError: it is not encrypted and signed with this session's keys.
        """
        length = self._suite.code_length
        if packet.flags != rmcp.ENCRYPTED | rmcp.AUTHENTICATED:
            raise rmcp.MalformedError("not protected as agreed")
        expected = self._suite.hash(self._integrity_key, packet.signed[:-length])[:length]
        if not hmac.compare_digest(packet.signed[-length:], expected):
            raise rmcp.MalformedError("the authentication code is wrong")
        if len(packet.payload) < 2 * BLOCK or len(packet.payload) % BLOCK:
            raise rmcp.MalformedError("not whole cipher blocks")
        plain = self._decrypt(packet.payload)[BLOCK:]
        return plain[: -1 - plain[-1]]


def role_and_name(name: str, *, level: Privilege) -> bytes:
    """A user as RAKP 1 carries it, looked up by name alone."""
    encoded = name.encode()
    return bytes((0x10 | level, len(encoded))) + encoded
