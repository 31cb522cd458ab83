"""Proofs and keys, put together here byte by byte after the specification, and the protection of datagrams."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.plugins.module_utils.oob import rakp, rmcp
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    from collections.abc import Callable

CONSOLE, BMC = bytes.fromhex("04030201"), bytes.fromhex("0d0c0b0a")
NONCE, BMC_NONCE, GUID = bytes(range(16)), bytes(range(16, 32)), bytes(range(32, 48))
ROLE, LENGTH, NAME = b"\x13", b"\x05", b"admin"
PASSWORD = b"s3cret"
HASHES = {rakp.SHA1: hashlib.sha1, rakp.SHA256: hashlib.sha256}
SUITES = pytest.mark.parametrize("suite", rakp.SUITES, ids=lambda suite: str(suite.number))


def agreement(suite: rakp.Suite, *, password: bytes = PASSWORD) -> rakp.Agreement:
    return rakp.Agreement(
        suite=suite,
        password=password,
        name=rakp.role_and_name("admin", level=rakp.Privilege.OPERATOR),
        console=int.from_bytes(CONSOLE, "little"),
        bmc=int.from_bytes(BMC, "little"),
        console_nonce=NONCE,
        bmc_nonce=BMC_NONCE,
        guid=GUID,
    )


def keyed(suite: rakp.Suite, key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), HASHES[suite]).digest()


def sealed(suite: rakp.Suite, message: bytes) -> bytes:
    return rakp.Channel(agreement(suite), peer=int.from_bytes(BMC, "little")).seal(message)


def opened(suite: rakp.Suite, datagram: bytes, *, password: bytes = PASSWORD) -> bytes:
    packet = rmcp.parse(datagram)
    assert isinstance(packet, rmcp.Packet20)
    return rakp.Channel(agreement(suite, password=password), peer=1).open(packet)


@SUITES
def test_the_proofs_are_the_keyed_hashes_of_the_specification(suite: rakp.Suite) -> None:
    one = agreement(suite)
    user = (ROLE, LENGTH, NAME)
    assert one.bmc_proof() == keyed(suite, PASSWORD, CONSOLE, BMC, NONCE, BMC_NONCE, GUID, *user)
    assert one.console_proof() == keyed(suite, PASSWORD, BMC_NONCE, CONSOLE, *user)
    session_key = keyed(suite, PASSWORD, NONCE, BMC_NONCE, *user)
    assert one.session_key() == session_key
    length = {3: 12, 17: 16}[suite.number]
    assert one.last_proof() == keyed(suite, session_key, NONCE, BMC, GUID)[:length]


@SUITES
def test_a_datagram_ends_with_a_code_over_all_of_it_but_its_rmcp_header(suite: rakp.Suite) -> None:
    datagram = sealed(suite, b"message")
    length = {3: 12, 17: 16}[suite.number]
    key = keyed(suite, keyed(suite, PASSWORD, NONCE, BMC_NONCE, ROLE, LENGTH, NAME), b"\x01" * 20)
    assert datagram[-length:] == keyed(suite, key, datagram[4:-length])[:length]
    assert len(datagram[4:-length]) % 4 == 0
    assert datagram[-length - 1] == 0x07


@SUITES
@pytest.mark.parametrize("size", range(34))
def test_what_is_sealed_is_opened_whatever_its_length(suite: rakp.Suite, size: int) -> None:
    message = bytes(range(size))
    assert opened(suite, sealed(suite, message)) == message


@SUITES
def test_nothing_of_a_message_is_readable_and_no_two_datagrams_are_alike(suite: rakp.Suite) -> None:
    channel = rakp.Channel(agreement(suite), peer=1)
    message = b"a message of two blocks, at least"
    first, second = channel.seal(message), channel.seal(message)
    assert message[:8] not in first
    assert first[16:32] != second[16:32]
    assert [int.from_bytes(one[10:14], "little") for one in (first, second)] == [1, 2]


@SUITES
def test_each_message_of_a_session_is_encrypted_with_the_vector_before_it(suite: rakp.Suite) -> None:
    channel = rakp.Channel(agreement(suite), peer=1)
    key = keyed(suite, keyed(suite, PASSWORD, NONCE, BMC_NONCE, ROLE, LENGTH, NAME), b"\x02" * 20)[:16]
    for message in (b"first", b"the second, of two blocks", b"first"):
        packet = rmcp.parse(channel.seal(message))
        assert isinstance(packet, rmcp.Packet20)
        decryptor = Cipher(algorithms.AES(key), modes.CBC(packet.payload[:16])).decryptor()
        padding = -(len(message) + 1) % 16
        plain = decryptor.update(packet.payload[16:])
        assert plain == message + bytes(range(1, padding + 1)) + bytes((padding,))


@SUITES
def test_datagrams_are_opened_in_any_order_whatever_came_between_them(suite: rakp.Suite) -> None:
    sender, receiver = (rakp.Channel(agreement(suite), peer=1) for _ in range(2))
    messages = [b"one", b"two, which is longer than a block", b"three", b"four"]
    packets = [rmcp.parse(sender.seal(message)) for message in messages]
    damaged = rmcp.parse(sender.seal(b"five")[:-1] + b"\x00\x00")
    assert isinstance(damaged, rmcp.Packet20)
    for number in (3, 1, 0, 1):
        packet = packets[number]
        assert isinstance(packet, rmcp.Packet20)
        with pytest.raises(rmcp.MalformedError):
            receiver.open(damaged)
        assert receiver.open(packet) == messages[number]


@SUITES
def test_no_byte_of_a_datagram_can_be_changed(suite: rakp.Suite) -> None:
    datagram = sealed(suite, b"\x00" * 20)
    for place in range(4, len(datagram)):
        for bit in (0x01, 0x80):
            changed = bytearray(datagram)
            changed[place] ^= bit
            with pytest.raises(rmcp.MalformedError):
                opened(suite, bytes(changed))


@SUITES
@pytest.mark.parametrize(
    "change",
    [
        lambda one: one[:-1],
        lambda one: one + b"\x00",
        lambda one: one[:5] + bytes((one[5] & ~rmcp.AUTHENTICATED,)) + one[6:],
        lambda one: one[:5] + bytes((one[5] & ~rmcp.ENCRYPTED,)) + one[6:],
        lambda one: one[:5] + b"\x00" + one[6:],
        lambda one: one[: 16 + int.from_bytes(one[14:16], "little")],
    ],
    ids=["shorter", "longer", "unsigned", "plain", "neither", "without its code"],
)
def test_a_datagram_that_is_not_protected_as_agreed_is_refused(
    suite: rakp.Suite, change: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(rmcp.MalformedError):
        opened(suite, change(sealed(suite, b"message")))


@SUITES
def test_a_datagram_that_is_signed_and_not_encrypted_is_refused(suite: rakp.Suite) -> None:
    user = (ROLE, LENGTH, NAME)
    key = keyed(suite, keyed(suite, PASSWORD, NONCE, BMC_NONCE, *user), b"\x01" * 20)
    plain = rmcp.packet_20(rmcp.Payload.IPMI, bytes(46), flags=rmcp.AUTHENTICATED, session=1, sequence=1) + b"\x00\x07"
    with pytest.raises(rmcp.MalformedError, match="not protected"):
        opened(suite, plain + keyed(suite, key, plain[4:])[: suite.code_length])


def test_another_password_and_another_suite_open_nothing() -> None:
    with pytest.raises(rmcp.MalformedError):
        opened(rakp.SHA256, sealed(rakp.SHA256, b"message"), password=b"wrong")
    with pytest.raises(rmcp.MalformedError):
        opened(rakp.SHA1, sealed(rakp.SHA256, b"message"))


def test_a_proposal_names_the_three_algorithms_of_a_suite() -> None:
    assert rakp.SHA256.proposal() == bytes.fromhex("0000000803000000 0100000804000000 0200000801000000")
    assert rakp.SHA1.proposal() == bytes.fromhex("0000000801000000 0100000801000000 0200000801000000")
