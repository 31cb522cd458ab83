"""The datagrams, byte by byte after the specifications."""

from __future__ import annotations

import random

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import rmcp

GET_STATUS = bytes.fromhex("20 00 e0 81 0c 01 72")
STATUS = bytes.fromhex("81 04 7b 20 0c 01 00 21 00 60 52")
IN_20 = bytes.fromhex("0600ff07 06 00 00000000 00000000 0700") + GET_STATUS
IN_15 = bytes.fromhex("0600ff07 00 00000000 00000000 07") + GET_STATUS


def test_a_request_has_its_address_its_number_and_two_checksums() -> None:
    assert rmcp.request(0x00, 0x01, sequence=3) == GET_STATUS
    read = rmcp.parse_request(GET_STATUS)
    assert (read.netfn, read.command, read.data, read.requester, read.sequence, read.lun) == (0, 1, b"", 0x81, 3, 0)


def test_a_response_has_the_number_of_its_request_and_a_completion_code() -> None:
    read = rmcp.parse_response(STATUS)
    assert (read.netfn, read.command, read.sequence, read.code, read.data) == (0, 1, 3, 0, b"\x21\x00\x60")
    assert rmcp.response(rmcp.parse_request(GET_STATUS), code=0, data=b"\x21\x00\x60") == STATUS


def test_no_byte_of_a_message_can_be_changed() -> None:
    for message, parse in ((GET_STATUS, rmcp.parse_request), (STATUS, rmcp.parse_response)):
        for place in range(len(message)):
            changed = bytearray(message)
            changed[place] ^= 0x40
            with pytest.raises(rmcp.MalformedError):
                parse(bytes(changed))


def test_a_request_is_no_response_and_a_response_no_request() -> None:
    with pytest.raises(rmcp.MalformedError):
        rmcp.parse_response(GET_STATUS + b"\x00")
    with pytest.raises(rmcp.MalformedError, match="not a response"):
        rmcp.parse_response(rmcp.request(0x00, 0x01, b"\x00", sequence=3))
    with pytest.raises(rmcp.MalformedError, match="not a request"):
        rmcp.parse_request(STATUS)


def test_both_frames_are_taken_apart() -> None:
    new = rmcp.parse(IN_20)
    assert isinstance(new, rmcp.Packet20)
    assert (new.kind, new.flags, new.session, new.sequence) == (rmcp.Payload.IPMI, 0, 0, 0)
    assert (new.payload, new.rest, new.signed) == (GET_STATUS, b"", IN_20[4:])
    assert rmcp.packet_20(rmcp.Payload.IPMI, GET_STATUS) == IN_20
    old = rmcp.parse(IN_15)
    assert isinstance(old, rmcp.Packet15)
    assert (old.payload, rmcp.packet_15(GET_STATUS)) == (GET_STATUS, IN_15)


def test_the_flags_and_numbers_of_a_session_stand_in_its_header() -> None:
    datagram = rmcp.packet_20(rmcp.Payload.IPMI, b"x", flags=0xC0, session=0x01020304, sequence=5)
    assert datagram[4:16] == bytes.fromhex("06 c0 04030201 05000000 0100")
    packet = rmcp.parse(datagram + b"rest")
    assert isinstance(packet, rmcp.Packet20)
    assert (packet.flags, packet.session, packet.sequence, packet.rest) == (0xC0, 0x01020304, 5, b"rest")


def test_every_datagram_that_is_cut_short_is_malformed() -> None:
    for datagram in (IN_20, IN_15, bytes.fromhex("0600ff06000011be80000000")):
        for length in range(len(datagram)):
            with pytest.raises(rmcp.MalformedError):
                rmcp.parse(datagram[:length])


def test_whatever_the_bytes_are_they_are_taken_apart_or_malformed() -> None:
    chance = random.Random(1)
    for _ in range(5000):
        noise = (
            rmcp.RMCP + bytes((chance.choice((6, 7)), chance.choice((0, 6)))) + chance.randbytes(chance.randrange(60))
        )
        try:
            packet = rmcp.parse(noise)
            if isinstance(packet, (rmcp.Packet15, rmcp.Packet20)):
                rmcp.parse_response(packet.payload)
        except rmcp.MalformedError:
            continue


def test_more_than_a_kibibyte_is_no_datagram() -> None:
    with pytest.raises(rmcp.MalformedError):
        rmcp.parse(rmcp.packet_20(rmcp.Payload.IPMI, bytes(rmcp.LARGEST)))
