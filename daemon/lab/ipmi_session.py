"""The BMC's side of an RMCP+ session.

Source: IPMI 2.0, 13.17 to 13.32.
"""

from __future__ import annotations

import hmac
import os
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ...plugins.module_utils.oob import rakp, rmcp

if TYPE_CHECKING:
    from . import chassis

ADMINISTRATOR: Final = rakp.Privilege.ADMINISTRATOR
RAKP_HEADER: Final = 8
MIN_RAKP1: Final = 28


@dataclass
class Session:
    """One session, from its opening on."""

    bmc: chassis.Bmc
    suite: rakp.Suite
    console: int
    number: int
    guid: bytes
    used: float
    nonce: bytes = field(default_factory=lambda: os.urandom(rakp.NONCE))
    _agreement: rakp.Agreement | None = None
    _channel: rakp.Channel | None = None
    _last_received: int = 0

    def rakp2(self, rakp1: bytes) -> bytes:
        """Answer RAKP message 1: an unknown user is told so, a wrong password shows at the console."""
        if len(rakp1) < MIN_RAKP1 or len(rakp1) < MIN_RAKP1 + rakp1[27]:
            return rakp_error(rakp1, rakp.Status.ILLEGAL_PARAMETER, self.console)
        name = rakp1[MIN_RAKP1 : MIN_RAKP1 + rakp1[27]]
        if name != self.bmc.username.encode():
            return rakp_error(rakp1, rakp.Status.UNAUTHORIZED_NAME, self.console)
        self._agreement = rakp.Agreement(
            suite=self.suite,
            password=self.bmc.password.encode(),
            name=bytes((rakp1[24], len(name))) + name,
            console=self.console,
            bmc=self.number,
            console_nonce=rakp1[8:24],
            bmc_nonce=self.nonce,
            guid=self.guid,
        )
        return rakp_error(rakp1, rakp.Status.OK, self.console) + self.nonce + self.guid + self._agreement.bmc_proof()

    def rakp4(self, rakp3: bytes) -> bytes:
        """Answer RAKP message 3; the session stands when its code shows the right password."""
        agreed = self._agreement
        if agreed is None or not hmac.compare_digest(rakp3[8:], agreed.console_proof()):
            return rakp_error(rakp3, rakp.Status.INVALID_INTEGRITY, self.console)
        # A repeated RAKP 3 gets its answer again, and the session goes on with the keys and numbers that it has.
        if self._channel is None:
            self._channel = rakp.Channel(agreed, peer=self.console)
        return rakp_error(rakp3, rakp.Status.OK, self.console) + agreed.last_proof()

    @property
    def established(self) -> bool:
        """Whether both sides proved that they know the password."""
        return self._channel is not None

    def open(self, packet: rmcp.Packet20) -> bytes:
        """Give the message inside a datagram of this session.

        Raises:
            rmcp.MalformedError: it is not encrypted and signed with this session's keys, or a repetition.
        """
        if self._channel is None:
            raise rmcp.MalformedError("there is no session yet")
        message = self._channel.open(packet)
        if packet.sequence <= self._last_received:
            raise rmcp.MalformedError("a repetition")
        self._last_received = packet.sequence
        return message

    def seal(self, message: bytes) -> bytes:
        """Put a message into an encrypted and signed datagram to the console."""
        assert self._channel is not None
        return self._channel.seal(message)


def rakp_error(request: bytes, status: rakp.Status, console: int) -> bytes:
    """Build the eight bytes that every RAKP answer begins with, and an error consists of."""
    return struct.pack("<BBHI", request[0], status, 0, console)


def suite_of(proposal: bytes, *, allowed: frozenset[int]) -> rakp.Suite | None:
    """Find the suite whose three algorithms are proposed (the 24 bytes of table 13-9)."""
    proposed = (proposal[4], proposal[12], proposal[20])
    for suite in rakp.SUITES:
        if suite.number in allowed and suite.algorithms == proposed:
            return suite
    return None


def cipher_records(*, allowed: frozenset[int]) -> bytes:
    """List the suites as Get Channel Cipher Suites does (table 22-18)."""
    return b"".join(
        bytes((0xC0, suite.number, suite.algorithms[0], 0x40 | suite.algorithms[1], 0x80 | suite.algorithms[2]))
        for suite in rakp.SUITES
        if suite.number in allowed
    )
