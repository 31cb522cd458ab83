"""The console's side of RMCP+: one session with one BMC, over a datagram socket of its own.

Every wait is a future of the event loop, so that any number of BMCs are served side by side in one thread.
Source: IPMI 2.0, 13.14 to 13.32 and 22.17 to 22.19.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import struct
from typing import Any, Callable, Iterator, Mapping, Optional, Tuple

from ..domain import errors, power
from . import rakp, rmcp

NETFN_APPLICATION = 0x06
SET_PRIVILEGE = 0x3B
CLOSE_SESSION = 0x3C
WAITS = (0.5, 0.75, 1.0)
"""Seconds for an answer: the first, second and every further time that something is sent."""
BUSY_PAUSE = 0.5
OPEN_ANSWER, RAKP2_HEAD = 12, 40
LAST_SEQUENCE = 63
NO_SUITE = "the BMC takes neither cipher suite 17 nor 3"

_STATUSES: Mapping[int, Tuple[power.Reason, str]] = {
    rakp.Status.NO_RESOURCES: (power.Reason.BUSY, "the BMC has no room for another session"),
    rakp.Status.NO_SESSION_SLOT: (power.Reason.BUSY, "the BMC has no room for another session"),
    rakp.Status.INVALID_SESSION: (power.Reason.TIMEOUT, "the BMC forgot the session"),
    rakp.Status.INVALID_ROLE: (power.Reason.AUTH, "the user may not be an operator"),
    rakp.Status.UNAUTHORIZED_ROLE: (power.Reason.AUTH, "the user may not be an operator"),
    rakp.Status.UNAUTHORIZED_NAME: (power.Reason.AUTH, "the BMC does not know the user"),
    rakp.Status.INVALID_INTEGRITY: (power.Reason.AUTH, "the password is wrong"),
    rakp.Status.NO_CIPHER_SUITE: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.INVALID_AUTHENTICATION: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.INVALID_INTEGRITY_ALGORITHM: (power.Reason.CIPHER, NO_SUITE),
    rakp.Status.INVALID_CONFIDENTIALITY: (power.Reason.CIPHER, NO_SUITE),
}
_CODES: Mapping[int, power.Reason] = {
    0xC0: power.Reason.BUSY,
    0xC3: power.Reason.BUSY,
    0xD2: power.Reason.BUSY,
    0xD4: power.Reason.AUTH,
}
Accept = Callable[[bytes], Optional[Any]]


class Link(asyncio.DatagramProtocol):
    """A socket connected to one BMC; one answer is awaited at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._accept: Optional[Accept] = None
        self._answer: Optional[asyncio.Future[Any]] = None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Take the awaited answer; anything else, and what is damaged, is passed over."""
        del addr
        if self._answer is None or self._answer.done() or self._accept is None:
            return
        try:
            found = self._accept(data)
        except rmcp.MalformedError:
            return
        except errors.PowerFailed as error:
            self._answer.set_exception(error)
            return
        if found is not None:
            self._answer.set_result(found)

    def error_received(self, exc: OSError) -> None:
        """Nobody listens there, or there is no way to it."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(_unreachable(exc))

    async def exchange(self, datagram: bytes, accept: Accept, *, wait: float) -> Optional[Any]:
        """Send a datagram and give what `accept` makes of its answer; None when there is none in time.

        Raises:
            errors.PowerFailed: the answer is an error, or the BMC is unreachable.
        """
        self._accept, self._answer = accept, self._loop.create_future()
        timer = self._loop.call_later(wait, self._give_up, self._answer)
        self.send(datagram)
        try:
            return await self._answer
        finally:
            timer.cancel()
            self._answer = None

    def send(self, datagram: bytes) -> None:
        """Send a datagram whose answer is nobody's concern."""
        self._transport.sendto(datagram)

    def close(self) -> None:
        """Give the socket back."""
        self._transport.close()

    @staticmethod
    def _give_up(answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_result(None)


class Session:
    """One session with one BMC, from `opened` to `close`."""

    def __init__(self, link: Link, channel: rakp.Channel, *, bmc: int) -> None:
        self._link, self._channel, self._bmc = link, channel, bmc
        self._sequence = 0

    async def ask(self, netfn: int, command: int, data: bytes = b"", *, repeats: bool = True) -> bytes:
        """Send one command and give the data of its answer; one that must not happen twice is sent once.

        Raises:
            errors.PowerFailed: no answer came, or its completion code is an error.
        """
        self._sequence = self._sequence % LAST_SEQUENCE + 1
        number = self._sequence
        message = rmcp.request(netfn, command, data, sequence=number)

        def accept(datagram: bytes) -> Optional[rmcp.Response]:
            packet = rmcp.parse(datagram)
            if not isinstance(packet, rmcp.Packet20) or packet.kind is not rmcp.Payload.IPMI:
                return None
            answer = rmcp.parse_response(self._channel.open(packet))
            is_it = (answer.netfn, answer.command, answer.sequence) == (netfn, command, number)
            return answer if is_it else None

        for wait in WAITS if repeats else WAITS[-1:]:
            answer: Optional[rmcp.Response] = await self._link.exchange(self._channel.seal(message), accept, wait=wait)
            if answer is not None:
                return _data_of(answer)
        raise errors.PowerFailed(power.Reason.TIMEOUT.value, "the answer to the command was lost")

    def close(self) -> None:
        """Give the BMC its session back; it would hold the slot until its idle timeout. Nobody waits for its answer."""
        message = rmcp.request(NETFN_APPLICATION, CLOSE_SESSION, struct.pack("<I", self._bmc), sequence=0)
        self._link.send(self._channel.seal(message))


async def linked(address: str, port: int) -> Link:
    """A socket connected to one BMC.

    Raises:
        errors.PowerFailed: there is no way to it.
    """
    try:
        _, link = await asyncio.get_running_loop().create_datagram_endpoint(
            Link, remote_addr=(address, port)
        )
    except OSError as error:
        raise _unreachable(error) from error
    return link


async def opened(link: Link, target: power.Target) -> Session:
    """Log in, again and again for as long as the BMC is silent or full; whoever calls sets the time for it.

    A BMC that refuses suite 17, or is silent when asked for it, is asked for suite 3.

    Raises:
        errors.PowerFailed: it refuses the login, shares no cipher suite, or is unreachable.
    """
    suite, suites = rakp.SHA256, itertools.cycle((rakp.SHA1, rakp.SHA256))
    for wait in _waits():
        login = _Login(link, target, suite=suite, wait=wait)
        try:
            session = await login.run()
        except errors.PowerFailed as error:
            if error.reason == power.Reason.BUSY.value:
                await asyncio.sleep(BUSY_PAUSE)
            elif error.reason == power.Reason.CIPHER.value and suite is rakp.SHA256:
                suite = next(suites)
            elif error.reason != power.Reason.TIMEOUT.value:
                raise
            continue
        if session is not None:
            return session
        if not login.was_heard:
            suite = next(suites)
    raise AssertionError("the waits never end")


class _Login:
    """One try to log in: three questions, each with an answer that the next one needs."""

    def __init__(self, link: Link, target: power.Target, *, suite: rakp.Suite, wait: float) -> None:
        self._link, self._suite, self._wait = link, suite, wait
        self._password = target.password.encode()
        self._name = rakp.role_and_name(target.username, level=rakp.Privilege.OPERATOR)
        self._console = int.from_bytes(os.urandom(4), "little") | 1
        self._nonce = os.urandom(rakp.NONCE)
        self.was_heard = False

    async def run(self) -> Optional[Session]:
        """The session, or None when an answer did not come."""
        bmc: Optional[int] = await self._ask(rmcp.Payload.OPEN_SESSION_REQUEST, self._opening(), self._opened)
        if bmc is None:
            return None
        self.was_heard = True
        body = struct.pack("<I", bmc) + self._nonce + self._name[:1] + bytes(2) + self._name[1:]
        agreement: Optional[rakp.Agreement] = await self._ask(
            rmcp.Payload.RAKP1, body, lambda answer: self._agreed(answer, bmc=bmc or 0)
        )
        if agreement is None:
            return None
        body = struct.pack("<I", bmc) + agreement.console_proof()
        done = await self._ask(rmcp.Payload.RAKP3, body, lambda answer: _concluded(answer, agreement))
        if done is None:
            return None
        session = Session(self._link, rakp.Channel(agreement, peer=bmc), bmc=bmc)
        await session.ask(NETFN_APPLICATION, SET_PRIVILEGE, bytes((rakp.Privilege.OPERATOR,)))
        return session

    async def _ask(self, kind: rmcp.Payload, body: bytes, read: Accept) -> Optional[Any]:
        """Send tag, three bytes of the kind, and body; read the answer of the next kind that is for us."""

        def accept(datagram: bytes) -> Optional[Any]:
            packet = rmcp.parse(datagram)
            if not isinstance(packet, rmcp.Packet20) or packet.kind is not rmcp.Payload(kind + 1):
                return None
            return self._read(packet.payload, read)

        second = rakp.Privilege.OPERATOR if kind is rmcp.Payload.OPEN_SESSION_REQUEST else 0
        return await self._link.exchange(rmcp.packet_20(kind, bytes((0, second, 0, 0)) + body), accept, wait=self._wait)

    def _read(self, payload: bytes, read: Accept) -> Optional[Any]:
        if len(payload) < 8:  # noqa: PLR2004 - tag, status, two bytes, the console's session number
            raise rmcp.MalformedError("the answer is too short")
        status, console = payload[1], struct.unpack_from("<I", payload, 4)[0]
        # Some BMCs say number 0 with an error.
        if console not in {self._console, 0}:
            return None
        if status:
            reason, text = _STATUSES.get(status, (power.Reason.REFUSED, f"the BMC refuses the login: {status:#04x}"))
            raise errors.PowerFailed(reason.value, text)
        return read(payload)

    def _opening(self) -> bytes:
        return struct.pack("<I", self._console) + self._suite.proposal()

    def _opened(self, payload: bytes) -> int:
        if len(payload) < OPEN_ANSWER:
            raise rmcp.MalformedError("the answer is too short")
        taken = (payload[OPEN_ANSWER:] + bytes(24))[:24]
        # A BMC that takes another suite than it was asked for would be misunderstood from here on.
        if any(taken) and taken[4::8] != bytes(self._suite.algorithms):
            raise errors.PowerFailed(power.Reason.CIPHER.value, "the BMC answers with another cipher suite")
        number: int = struct.unpack_from("<I", payload, 8)[0]
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
        if payload[RAKP2_HEAD:] != agreement.bmc_proof():
            raise errors.PowerFailed(power.Reason.AUTH.value, "the password is wrong")
        return agreement


def _concluded(payload: bytes, agreement: rakp.Agreement) -> bool:
    if payload[8:] != agreement.last_proof():
        raise errors.PowerFailed(power.Reason.AUTH.value, "the BMC's last proof is wrong")
    return True


def _data_of(answer: rmcp.Response) -> bytes:
    if answer.code:
        reason = _CODES.get(answer.code, power.Reason.REFUSED)
        if (answer.netfn, answer.command) == (NETFN_APPLICATION, SET_PRIVILEGE):
            reason = power.Reason.AUTH
        text = f"the BMC refuses: completion code {answer.code:#04x}"
        raise errors.PowerFailed(reason.value, text)
    return answer.data


def _unreachable(error: OSError) -> errors.PowerFailed:
    return errors.PowerFailed(power.Reason.UNREACHABLE.value, (error.strerror or str(error)).lower())


def _waits() -> Iterator[float]:
    return itertools.chain(WAITS, itertools.repeat(WAITS[-1]))
