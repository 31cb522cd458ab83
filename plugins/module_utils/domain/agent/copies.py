"""Copies of the configuration that candidates for the master role keep: how one is sealed, and sent in parts.

The seal is made with a key that no node has, so who takes a copy over knows that a controller of the cluster made it.
Each part is signed with the key of its node as well, as every question to an agent is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ..values import errors
from . import signing, votes
from .epochs import HIGHEST, ID, Epoch

FILE = "var/lib/roundsman/configuration.copy"
"""Where a node keeps its copy."""
PART = 128 * 1024
"""Bytes of a copy that one part carries: sealed, it is no longer than a question of who leads may be."""
MOST = 256 * 1024 * 1024
"""Bytes of a copy, and of the configuration in it: 20,000 instances are a tenth of that."""
NEEDED = ("var/lib/roundsman/hmac.key", "var/lib/roundsman/.ssh/id_ed25519", "etc/roundsman/bmc.json")
"""What a controller needs beside the configuration, and no copy holds: keys, and the passwords of BMCs."""
_HEAD = re.compile(rb'\{"roundsman-copy": 1, [^\n]{1,400}\}\n')
_PART, _RECEIVED = "copy-part", "copy-received"
_SENT = frozenset(("node", "nonce", "epoch", "stamp", "digest", "size", "offset", "data"))
_ANSWERED = frozenset(("node", "nonce", "stamp", "wanted", "refusal", "lacks"))
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Stamp:
    """Which configuration a copy is of: the number of the epoch, 0 without one, and the serial number.

    `made` is when the copy was made (unix seconds).
    """

    epoch: int
    serial: int
    made: int

    @property
    def version(self) -> Tuple[int, int]:
        """What a later configuration has more of."""
        return self.epoch, self.serial


@dataclass(frozen=True)
class Part:
    """A part of a copy for a node (UUID): `data` begins at `offset` of `size` bytes, whose SHA-256 is `digest`."""

    node: str
    nonce: str
    epoch: Optional[Epoch]
    stamp: Stamp
    digest: str
    size: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Received:
    """What a node says to a part: the stamp of the copy that it keeps, and from which offset it wants the next part.

    It wants nothing more where `wanted` is the size of the copy. `refusal` says why it takes none. `lacks` are those of
    `NEEDED` that it does not have.
    """

    node: str
    nonce: str
    stamp: Optional[Stamp]
    wanted: int
    refusal: str = ""
    lacks: Tuple[str, ...] = ()


def sealed(configuration: bytes, stamp: Stamp, *, cluster_key: bytes) -> bytes:
    """A copy of a configuration as it is kept: a line of JSON with stamp and seal, and the compressed document."""
    packed = zlib.compress(configuration, 1)
    return _head(stamp, packed, cluster_key=cluster_key) + packed


def is_copy(data: bytes) -> bool:
    """Whether these bytes begin as a copy does."""
    return _HEAD.match(data) is not None


def stamp_of(data: bytes) -> Stamp:
    """What a copy says that it is of; its seal is not looked at.

    Raises: errors.InvalidInput.
    """
    return _taken_apart(data)[0]


def opened(data: bytes, *, cluster_key: bytes) -> Tuple[bytes, Stamp]:
    """The configuration in a copy, and what it is of.

    Raises: errors.InvalidInput: it is none, was damaged, or no controller with this cluster key has made it.
    """
    stamp, head = _taken_apart(data)
    packed = data[len(head) :]
    if not hmac.compare_digest(_head(stamp, packed, cluster_key=cluster_key), head):
        raise errors.InvalidInput("its seal is not of this cluster's key: it was damaged, or made by somebody else")
    unpacker = zlib.decompressobj()
    configuration = unpacker.decompress(packed, MOST)
    if not unpacker.eof:
        raise errors.InvalidInput("it is longer than {} bytes".format(MOST))
    return configuration, stamp


def digest(data: bytes) -> str:
    """The SHA-256 of a copy, by which its parts are known as its own."""
    return hashlib.sha256(data).hexdigest()


def question(node: str, nonce: str) -> Part:
    """A part of nothing, which no node (UUID) takes: what it answers says which copy it keeps."""
    return Part(node, nonce, None, Stamp(0, 0, 0), "0" * 64, 0, 0, b"")


def sealed_part(part: Part, *, key: bytes, now: int) -> bytes:
    """A part as it is sent, signed with the node's key at `now` (unix seconds)."""
    fields = {
        "node": part.node,
        "nonce": part.nonce,
        "epoch": None if part.epoch is None else {"number": part.epoch.number, "id": part.epoch.id},
        "stamp": _document(part.stamp),
        "digest": part.digest,
        "size": part.size,
        "offset": part.offset,
        "data": base64.b64encode(part.data).decode(),
    }
    return signing.sign(json.dumps({"kind": _PART, **fields}), key=key, now=now).encode()


def part(data: bytes, *, key: bytes, node: str) -> Part:
    """Read a part that the controller signed for this node (UUID).

    Raises: errors.ReportRejected, errors.InvalidInput.
    """
    found, _ = votes.opened(data, key=key, kind=_PART, fields=_SENT)
    if found["node"] != node:
        raise errors.InvalidInput("the part is for another node")
    try:
        content = base64.b64decode(votes.text(found["data"]), validate=True)
    except binascii.Error as error:
        raise errors.InvalidInput("the part is no base64: {}".format(error)) from error
    size, offset, name = _number(found["size"], MOST), _number(found["offset"], MOST), votes.text(found["digest"])
    if offset + len(content) > size or _DIGEST.fullmatch(name) is None:
        raise errors.InvalidInput("the part is not within its copy")
    epoch, stamp = _epoch(found["epoch"]), _stamp(found["stamp"])
    return Part(node, votes.text(found["nonce"]), epoch, stamp, name, size, offset, content)


def sealed_received(received: Received, *, key: bytes, now: int) -> bytes:
    """An answer to a part as it is sent, signed with the node's key at `now` (unix seconds)."""
    fields = {
        "node": received.node,
        "nonce": received.nonce,
        "stamp": None if received.stamp is None else _document(received.stamp),
        "wanted": received.wanted,
        "refusal": received.refusal,
        "lacks": list(received.lacks),
    }
    return signing.sign(json.dumps({"kind": _RECEIVED, **fields}), key=key, now=now).encode()


def received(data: bytes, *, key: bytes, asked: Part) -> Received:
    """Read the answer to a part.

    Raises: errors.ReportRejected, errors.InvalidInput: it is not signed by the node, or answers another part.
    """
    found, _ = votes.opened(data, key=key, kind=_RECEIVED, fields=_ANSWERED)
    if (found["node"], found["nonce"]) != (asked.node, asked.nonce):
        raise errors.InvalidInput("the answer is to another part")
    lacks = found["lacks"]
    if not isinstance(lacks, list) or not all(isinstance(name, str) and name in NEEDED for name in lacks):
        raise errors.InvalidInput("what the node lacks is not on the list")
    stamp = None if found["stamp"] is None else _stamp(found["stamp"])
    wanted, refusal = _number(found["wanted"], asked.size), votes.text(found["refusal"])
    return Received(asked.node, asked.nonce, stamp, wanted, refusal, tuple(lacks))


def _taken_apart(data: bytes) -> Tuple[Stamp, bytes]:
    """The stamp of a copy, and the line that holds it."""
    head = _HEAD.match(data)
    if head is None:
        raise errors.InvalidInput("it does not begin as a copy of a configuration")
    try:
        return _stamp(json.loads(head[0])), head[0]
    except ValueError as error:
        raise errors.InvalidInput("its first line is damaged: {}".format(error)) from error


def _head(stamp: Stamp, packed: bytes, *, cluster_key: bytes) -> bytes:
    fields = _document(stamp)
    text = json.dumps(fields).encode() + b"\n"
    seal = hmac.new(signing.copy_key(cluster_key), text + packed, "sha256").hexdigest()
    return json.dumps({"roundsman-copy": 1, **fields, "seal": seal}).encode() + b"\n"


def _document(stamp: Stamp) -> Dict[str, int]:
    return {"epoch": stamp.epoch, "serial": stamp.serial, "made": stamp.made}


def _stamp(value: Any) -> Stamp:
    if not isinstance(value, dict):
        raise errors.InvalidInput("the stamp of a copy is none")
    return Stamp(*(_number(value.get(name), HIGHEST) for name in ("epoch", "serial", "made")))


def _epoch(value: Any) -> Optional[Epoch]:
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"number", "id"} or ID.fullmatch(votes.text(value["id"])) is None:
        raise errors.InvalidInput("not the fields of an epoch")
    return Epoch(_number(value["number"], HIGHEST), value["id"])


def _number(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise errors.InvalidInput("a number of a copy is none")
    return value
