"""How a session with one BMC begins: three questions, each with an answer that the next one needs.

Source: IPMI 2.0, 13.14 to 13.24 and 22.18.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import os
import struct
from typing import Any, Callable, Iterator, Mapping, Optional, Set, Tuple

from ..domain.power import power
from ..domain.values import errors
from . import ipmi_link, ipmi_session, rakp, rmcp

BUSY_PAUSE = 0.5
STRIKES = 3
"""How often a BMC that was never heard may be called unreachable before it counts as that."""
ANSWER_HEAD, OPEN_ANSWER, RAKP2_HEAD = 8, 12, 40
NO_SUITE = "the BMC takes neither cipher suite 17 nor 3"
WRONG_PROOF = "the password is wrong"

_STATUSES: Mapping[int, Tuple[power.Reason, str]] = {
    rakp.Status.NO_RESOURCES: (power.Reason.BUSY, "the BMC has no room for another session"),
    rakp.Status.NO_SESSION_SLOT: (power.Reason.BUSY, "the BMC has no room for another session"),
    rakp.Status.INVALID_SESSION: (power.Reason.TIMEOUT, "the BMC forgot the session"),
    rakp.Status.INACTIVE_SESSION: (power.Reason.TIMEOUT, "the BMC forgot the session"),
    rakp.Status.INVALID_ROLE: (power.Reason.AUTH, "the user may not be an operator"),
    rakp.Status.UNAUTHORIZED_ROLE: (power.Reason.AUTH, "the user may not be an operator"),
    rakp.Status.UNAUTHORIZED_NAME: (power.Reason.AUTH, "the BMC does not know the user"),
    rakp.Status.INVALID_INTEGRITY: (power.Reason.AUTH, WRONG_PROOF),
    rakp.Status.NO_CIPHER_SUITE: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.INVALID_AUTHENTICATION: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.INVALID_INTEGRITY_ALGORITHM: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.NO_AUTHENTICATION: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.NO_INTEGRITY: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.INVALID_CONFIDENTIALITY: (power.Reason.CIPHER, NO_SUITE),
}
# The network's and this machine's own complaints, which say little the first time.
_ON_THE_WAY = frozenset({power.Reason.UNREACHABLE, power.Reason.DRIVER})


class Tries:
    """What the tries at one BMC so far say about the next: the suite to ask for, and whether a failure is final.

    A refused suite is not asked for again; a BMC that keeps silent at any question is asked for the other one. A proof
    that does not fit is final the second time: the first can be a damaged datagram.
    """

    def __init__(self) -> None:
        self.suite = rakp.SHA256
        self._refused: Set[int] = set()
        self._strikes = 0
        self._is_doubted = False

    def was_silent(self) -> None:
        """Nothing was heard: the BMC may not know the suite."""
        other = rakp.SHA1 if self.suite is rakp.SHA256 else rakp.SHA256
        if other.number not in self._refused:
            self.suite = other

    def is_final(self, failure: errors.PowerFailed, *, is_doubtful: bool) -> bool:
        """Weigh one failure."""
        reason = power.Reason(failure.reason)
        if reason is power.Reason.CIPHER:
            self._refused.add(self.suite.number)
            self.was_silent()
            return len(self._refused) == len(rakp.SUITES)
        if reason in _ON_THE_WAY:
            self._strikes += 1
            return self._strikes >= STRIKES
        if is_doubtful and not self._is_doubted:
            self._is_doubted = True
            return False
        return reason not in {power.Reason.BUSY, power.Reason.TIMEOUT}


async def opened(link: ipmi_link.Link, target: power.Target) -> ipmi_session.Session:
    """Log in, again and again for as long as the BMC is silent or full; whoever calls sets the time for it.

    Raises:
        errors.PowerFailed: it refuses the login, shares no cipher suite, or is unreachable.
    """
    tries = Tries()
    for wait in _waits():
        login = _Login(link, target, suite=tries.suite, wait=wait)
        try:
            session = await login.run()
        except errors.PowerFailed as error:
            if tries.is_final(error, is_doubtful=login.is_doubtful):
                raise
            link.trouble = error
            reason = power.Reason(error.reason)
            if reason is power.Reason.BUSY:
                for farewell in link.farewells:
                    farewell()
            if reason is not power.Reason.CIPHER and not login.is_doubtful:
                await asyncio.sleep(BUSY_PAUSE)
            continue
        if session is not None:
            return session
        tries.was_silent()
    raise AssertionError("the waits never end")


class _Login:
    """One try to log in, with numbers of its own: an answer to another try is none to this one."""

    def __init__(self, link: ipmi_link.Link, target: power.Target, *, suite: rakp.Suite, wait: float) -> None:
        self._link, self._suite, self._wait = link, suite, wait
        self._password = target.password.encode()
        self._name = rakp.role_and_name(target.username, level=rakp.Privilege.OPERATOR)
        self._console = int.from_bytes(os.urandom(4), "little") | 1
        self._nonce = os.urandom(rakp.NONCE)
        self.is_doubtful = False

    async def run(self) -> Optional[ipmi_session.Session]:
        """The session, or None when an answer did not come."""
        bmc: Optional[int] = await self._ask(rmcp.Payload.OPEN_SESSION_REQUEST, self._opening(), self._opened)
        if bmc is None:
            return None
        session: Optional[ipmi_session.Session] = None
        try:
            agreement = await self._agreement(bmc)
            if agreement is not None:
                session = await self._established(agreement)
        finally:
            if session is None:
                self._refuse(bmc)
        return session

    async def _agreement(self, bmc: int) -> Optional[rakp.Agreement]:
        body = struct.pack("<I", bmc) + self._nonce + self._name[:1] + bytes(2) + self._name[1:]
        agreement: Optional[rakp.Agreement] = await self._ask(
            rmcp.Payload.RAKP1, body, lambda answer: self._agreed(answer, bmc=bmc)
        )
        return agreement

    async def _established(self, agreement: rakp.Agreement) -> Optional[ipmi_session.Session]:
        """Show the proof and take the operator's level; a session that stands but is of no use is closed."""
        channel = rakp.Channel(agreement, peer=agreement.bmc)
        session = ipmi_session.Session(self._link, channel, bmc=agreement.bmc, patience=self._wait)
        body = struct.pack("<I", agreement.bmc) + agreement.console_proof()
        is_ready = False
        try:
            if not await self._ask(rmcp.Payload.RAKP3, body, lambda answer: self._concluded(answer, agreement)):
                return None
            level = bytes((rakp.Privilege.OPERATOR,))
            await session.ask(ipmi_session.NETFN_APPLICATION, ipmi_session.SET_PRIVILEGE, level)
            is_ready = True
        finally:
            if not is_ready:
                session.close()
        return session

    async def _ask(self, kind: rmcp.Payload, body: bytes, read: ipmi_link.Accept) -> Optional[Any]:
        """Send tag, three bytes of the kind, and body; read the answer of the next kind that is for us."""
        tag = self._link.next_tag()

        def accept(datagram: bytes) -> Optional[Any]:
            packet = rmcp.parse(datagram)
            if not isinstance(packet, rmcp.Packet20) or packet.kind is not rmcp.Payload(kind + 1):
                return None
            return self._read(packet, read, tag=tag)

        second = rakp.Privilege.OPERATOR if kind is rmcp.Payload.OPEN_SESSION_REQUEST else 0
        datagram = rmcp.packet_20(kind, bytes((tag, second, 0, 0)) + body)
        return await self._link.exchange(datagram, accept, wait=self._wait)

    def _read(self, packet: rmcp.Packet20, read: Callable[[bytes], Any], *, tag: int) -> Optional[Any]:
        payload = packet.payload
        if len(payload) < ANSWER_HEAD:
            raise rmcp.MalformedError("the answer is too short")
        status, console = payload[1], struct.unpack_from("<I", payload, 4)[0]
        # Some BMCs say number 0 with an error.
        if payload[0] != tag or console not in {self._console, 0 if status else self._console}:
            return None
        if status:
            # To a suite that they do not know, BMCs say the one or the other.
            other = power.Reason.CIPHER if packet.kind is rmcp.Payload.OPEN_SESSION_RESPONSE else power.Reason.REFUSED
            reason, text = _STATUSES.get(status, (other, f"the BMC refuses the login: {status:#04x}"))
            raise errors.PowerFailed(reason.value, text)
        return read(payload)

    def _opening(self) -> bytes:
        return struct.pack("<I", self._console) + self._suite.proposal()

    def _opened(self, payload: bytes) -> int:
        if len(payload) < OPEN_ANSWER:
            raise rmcp.MalformedError("the answer is too short")
        number: int = struct.unpack_from("<I", payload, 8)[0]
        if not number:
            raise rmcp.MalformedError("0 is no session")
        taken = (payload[OPEN_ANSWER:] + bytes(24))[:24]
        # A BMC that takes another suite than it was asked for would be misunderstood from here on.
        if any(taken) and taken[4::8] != bytes(self._suite.algorithms):
            self._refuse(number)
            raise errors.PowerFailed(power.Reason.CIPHER.value, "the BMC answers with another cipher suite")
        return number

    def _agreed(self, payload: bytes, *, bmc: int) -> rakp.Agreement:
        if len(payload) < RAKP2_HEAD:
            raise rmcp.MalformedError("the answer is too short")
        agreement = rakp.Agreement(
            suite=self._suite,
            password=self._password,
            name=self._name,
            console=self._console,
            bmc=bmc,
            console_nonce=self._nonce,
            bmc_nonce=payload[8:24],
            guid=payload[24:40],
        )
        if not hmac.compare_digest(payload[RAKP2_HEAD:], agreement.bmc_proof()):
            self.is_doubtful = True
            raise errors.PowerFailed(power.Reason.AUTH.value, WRONG_PROOF)
        return agreement

    def _concluded(self, payload: bytes, agreement: rakp.Agreement) -> bool:
        if not hmac.compare_digest(payload[ANSWER_HEAD:], agreement.last_proof()):
            self.is_doubtful = True
            raise errors.PowerFailed(power.Reason.AUTH.value, "the BMC's last proof is wrong")
        return True

    def _refuse(self, bmc: int) -> None:
        """Tell the BMC that nothing comes of the session: it would keep it half-open, and has room for few."""
        status = rakp.Status.INVALID_INTEGRITY if self.is_doubtful else rakp.Status.NO_RESOURCES
        head = struct.pack("<BBHI", self._link.next_tag(), status, 0, bmc)
        self._link.send(rmcp.packet_20(rmcp.Payload.RAKP3, head))


def _waits() -> Iterator[float]:
    return itertools.chain(ipmi_link.WAITS, itertools.repeat(ipmi_link.WAITS[-1]))
