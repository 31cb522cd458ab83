"""The datagrams of IPMI over LAN: RMCP, the IPMI 1.5 and 2.0 session headers, the IPMI message.

Pure: bytes to values and back, for the console's side and the BMC's. Numbers are little-endian.
Source: IPMI 2.0, chapter 13; ASF 2.0, 3.2.4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Union

RMCP = b"\x06\x00\xff"
CLASS_ASF = 0x06
CLASS_IPMI = 0x07
ASF_IANA = 4542
ASF_PING = 0x80
ASF_PONG = 0x40

AUTH_NONE = 0x00
AUTH_RMCPP = 0x06
ENCRYPTED = 0x80
AUTHENTICATED = 0x40
BMC_ADDRESS = 0x20
CONSOLE_ADDRESS = 0x81
LARGEST = 1024

_HEADER_15 = struct.Struct("<BIIB")
_HEADER_20 = struct.Struct("<BBIIH")
_MESSAGE = struct.Struct("BBBBBB")


class Payload(IntEnum):
    """The payload types of RMCP+ that a BMC without serial-over-LAN knows."""

    IPMI = 0x00
    OPEN_SESSION_REQUEST = 0x10
    OPEN_SESSION_RESPONSE = 0x11
    RAKP1 = 0x12
    RAKP2 = 0x13
    RAKP3 = 0x14
    RAKP4 = 0x15


class MalformedError(Exception):
    """The bytes are not what they should be; a BMC keeps silent about such a datagram."""


@dataclass(frozen=True)
class Ping:
    """An ASF presence ping."""

    tag: int


@dataclass(frozen=True)
class Packet15:
    """An IPMI 1.5 datagram outside of a session."""

    payload: bytes


@dataclass(frozen=True)
class Packet20:
    """An RMCP+ datagram; `signed` is what its authentication code covers, `rest` what follows the payload."""

    kind: Payload
    flags: int
    session: int
    sequence: int
    payload: bytes
    rest: bytes
    signed: bytes


@dataclass(frozen=True)
class Request:
    """One IPMI request message."""

    netfn: int
    command: int
    data: bytes
    requester: int
    sequence: int
    lun: int


@dataclass(frozen=True)
class Response:
    """One IPMI response message: its completion code, and the sequence number of the request that it answers."""

    netfn: int
    command: int
    sequence: int
    code: int
    data: bytes


def parse(datagram: bytes) -> Union[Ping, Packet15, Packet20]:
    """Take a datagram apart.

    Raises:
        MalformedError: it is none of the three that a BMC answers.
    """
    if len(datagram) > LARGEST or datagram[:3] != RMCP or len(datagram) < len(RMCP) + 2:
        raise MalformedError("not an RMCP datagram")
    body = datagram[4:]
    if datagram[3] == CLASS_ASF:
        return _parse_ping(body)
    if datagram[3] != CLASS_IPMI:
        raise MalformedError("neither IPMI nor ASF")
    return _parse_20(body) if body[0] == AUTH_RMCPP else _parse_15(body)


def pong(ping: Ping) -> bytes:
    """Answer a presence ping: IPMI is supported, ASF 1.0."""
    data = struct.pack(">IIBB6x", ASF_IANA, 0, 0x81, 0)
    return RMCP + struct.pack(">BIBBBB", CLASS_ASF, ASF_IANA, ASF_PONG, ping.tag, 0, len(data)) + data


def packet_15(payload: bytes) -> bytes:
    """Frame a payload outside of a session, as IPMI 1.5 does."""
    return RMCP + bytes((CLASS_IPMI,)) + _HEADER_15.pack(AUTH_NONE, 0, 0, len(payload)) + payload


def packet_20(kind: Payload, payload: bytes, *, flags: int = 0, session: int = 0, sequence: int = 0) -> bytes:
    """Frame an RMCP+ payload; the session trailer, if any, is the caller's."""
    header = _HEADER_20.pack(AUTH_RMCPP, kind | flags, session, sequence, len(payload))
    return RMCP + bytes((CLASS_IPMI,)) + header + payload


def parse_request(payload: bytes) -> Request:
    """Read a request message, both of its checksums included.

    Raises:
        MalformedError: it is too short, not for the BMC, or damaged.
    """
    if len(payload) < _MESSAGE.size + 1:
        raise MalformedError("the IPMI message is too short")
    if sum(payload[:3]) & 0xFF or sum(payload[3:]) & 0xFF:
        raise MalformedError("a checksum of the IPMI message is wrong")
    responder, netfn, _, requester, sequence, command = _MESSAGE.unpack_from(payload)
    if responder != BMC_ADDRESS or netfn & 0b100:
        raise MalformedError("not a request to the BMC")
    return Request(
        netfn=netfn >> 2,
        command=command,
        data=payload[_MESSAGE.size : -1],
        requester=requester,
        sequence=sequence >> 2,
        lun=sequence & 0b11,
    )


def request(netfn: int, command: int, data: bytes = b"", *, sequence: int) -> bytes:
    """Build a request message to the BMC; `sequence` is of 0 to 63."""
    head = bytes((BMC_ADDRESS, netfn << 2))
    body = bytes((CONSOLE_ADDRESS, sequence << 2, command)) + data
    return head + _checksum(head) + body + _checksum(body)


def parse_response(payload: bytes) -> Response:
    """Read a response message, both of its checksums included.

    Raises:
        MalformedError: it is too short, no response to the console, or damaged.
    """
    if len(payload) < _MESSAGE.size + 2:
        raise MalformedError("the IPMI message is too short")
    if sum(payload[:3]) & 0xFF or sum(payload[3:]) & 0xFF:
        raise MalformedError("a checksum of the IPMI message is wrong")
    requester, netfn, _, _, sequence, command = _MESSAGE.unpack_from(payload)
    if requester != CONSOLE_ADDRESS or not netfn & 0b100:
        raise MalformedError("not a response to the console")
    return Response(
        netfn=(netfn >> 2) & ~1,
        command=command,
        sequence=sequence >> 2,
        code=payload[_MESSAGE.size],
        data=payload[_MESSAGE.size + 1 : -1],
    )


def response(request: Request, *, code: int, data: bytes = b"") -> bytes:
    """Build the message that answers a request with a completion code and data."""
    head = bytes((request.requester, (request.netfn | 1) << 2 | request.lun))
    body = bytes((BMC_ADDRESS, request.sequence << 2, request.command, code)) + data
    return head + _checksum(head) + body + _checksum(body)


def _parse_ping(body: bytes) -> Ping:
    if len(body) < struct.calcsize(">IBBBB"):
        raise MalformedError("the ASF message is too short")
    iana, kind, tag, _, _ = struct.unpack_from(">IBBBB", body)
    if iana != ASF_IANA or kind != ASF_PING:
        raise MalformedError("not a presence ping")
    return Ping(tag)


def _parse_15(body: bytes) -> Packet15:
    if len(body) < _HEADER_15.size:
        raise MalformedError("the IPMI 1.5 header is too short")
    auth, _, session, length = _HEADER_15.unpack_from(body)
    payload = body[_HEADER_15.size : _HEADER_15.size + length]
    if auth != AUTH_NONE or session or len(payload) != length:
        raise MalformedError("IPMI 1.5 sessions are not offered")
    return Packet15(payload)


def _parse_20(body: bytes) -> Packet20:
    if len(body) < _HEADER_20.size:
        raise MalformedError("the RMCP+ header is too short")
    _, kind, session, sequence, length = _HEADER_20.unpack_from(body)
    end = _HEADER_20.size + length
    try:
        payload_kind = Payload(kind & 0x3F)
    except ValueError as error:
        raise MalformedError("an unknown payload type") from error
    if len(body) < end:
        raise MalformedError("the payload is cut short")
    return Packet20(
        kind=payload_kind,
        flags=kind & (ENCRYPTED | AUTHENTICATED),
        session=session,
        sequence=sequence,
        payload=body[_HEADER_20.size : end],
        rest=body[end:],
        signed=body,
    )


def _checksum(data: bytes) -> bytes:
    return bytes((-sum(data) & 0xFF,))
