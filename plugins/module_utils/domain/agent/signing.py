"""Signed envelopes: confd's construction, a key for each node (seed 000, section "Result forging")."""

from __future__ import annotations

import dataclasses
import enum
import hmac
import json
import re
from typing import Tuple

from ..values import errors, json_values

FRESH_SECONDS = 300

_SALT_DIGITS = 12
_SECRET_DIGITS = 60
"""DRBD takes less than 64 characters."""
_FIELDS = frozenset(("msg", "salt", "hmac"))


class Reason(enum.Enum):
    """Why a report counts for nothing; the values are the names under which rejections are counted."""

    UNSIGNED = "unsigned"
    FORGED = "forged"
    STALE = "stale"
    FUTURE = "future"
    REPLAYED = "replayed"
    WRONG_NODE = "wrong-node"
    OVERSIZED = "oversized"
    MALFORMED = "malformed"


def rejected(reason: Reason, *, text: str) -> errors.ReportRejected:
    """Make the error that says why a report is refused, for the caller to raise."""
    return errors.ReportRejected(reason.value, text)


@dataclasses.dataclass(frozen=True)
class Envelope:
    """A message and its signature, as received; nothing in it is trusted before it is verified."""

    msg: str
    salt: str
    hmac: str


def node_key(cluster_key: bytes, node_uuid: str) -> bytes:
    """Derive a node's own key, so that no node can speak for another.

    `cluster_key` is the whole content of `hmac.key`, its newline included; the key is 64 ASCII hex digits.

    Raises: errors.InvalidInput for an empty cluster key, which everybody knows.
    """
    if not cluster_key:
        raise errors.InvalidInput("the cluster key is empty")
    return _hexdigest(cluster_key, text="roundsman/node/" + node_uuid, algorithm="sha256").encode()


def copy_key(cluster_key: bytes) -> bytes:
    """Derive the key that seals copies of the configuration, which no node can make from its own.

    Raises: errors.InvalidInput for an empty cluster key, which everybody knows.
    """
    if not cluster_key:
        raise errors.InvalidInput("the cluster key is empty")
    return _hexdigest(cluster_key, text="roundsman/copy", algorithm="sha256").encode()


def pair_secret(cluster_key: bytes, instance_uuid: str, nodes: Tuple[str, str]) -> str:
    """Derive the secret with which two nodes (names, in any order) of an instance's DRBD disks know each other.

    Each pair has its own, of 60 hex digits: DRBD 8.4 looks at no address, and takes for its new peer any node that
    connects and has the secret, also the one that was its peer before.

    Raises: errors.InvalidInput for an empty cluster key, which everybody knows.
    """
    if not cluster_key:
        raise errors.InvalidInput("the cluster key is empty")
    text = "/".join(("roundsman/drbd", instance_uuid, *sorted(nodes)))
    return _hexdigest(cluster_key, text=text, algorithm="sha256")[:_SECRET_DIGITS]


def sign(msg: str, *, key: bytes, now: int) -> str:
    """Put a message into an envelope signed at `now` (unix seconds) with the node's key.

    Raises: errors.InvalidInput for a message that has no UTF-8 form.
    """
    salt = str(now)
    digest = _hexdigest(key, text=salt + msg, algorithm="sha256")
    return json.dumps({"msg": msg, "salt": salt, "hmac": digest})


def read_envelope(data: bytes) -> Envelope:
    """Take an envelope apart without trusting it: a JSON object of exactly three strings.

    Raises: errors.ReportRejected, `unsigned` without salt or signature, `malformed` otherwise.
    """
    try:
        value = json_values.parse(data.decode())
    except (UnicodeDecodeError, errors.InvalidInput) as e:
        raise rejected(Reason.MALFORMED, text="the envelope is not JSON: " + str(e)) from e
    if not isinstance(value, dict):
        raise rejected(Reason.MALFORMED, text="the envelope is no JSON object")
    msg, salt, digest = value.get("msg"), value.get("salt", ""), value.get("hmac", "")
    if salt == "" or digest == "":
        raise rejected(Reason.UNSIGNED, text="the envelope has no salt or no signature")
    if value.keys() != _FIELDS or not isinstance(msg, str) or not isinstance(salt, str) or not isinstance(digest, str):
        raise rejected(Reason.MALFORMED, text="the envelope is not exactly the strings msg, salt and hmac")
    return Envelope(msg=msg, salt=salt, hmac=digest)


def is_signed(envelope: Envelope, *, key: bytes) -> bool:
    """Tell whether the signature is the one this node key makes, in constant time."""
    return _matches(envelope, key=key, algorithm="sha256")


def is_signed_in_cluster_form(envelope: Envelope, *, cluster_key: bytes) -> bool:
    """Tell whether the signature is confd's own (SHA-1 with the cluster key), in constant time."""
    return _matches(envelope, key=cluster_key, algorithm="sha1")


def verify(envelope: Envelope, *, key: bytes, now: int) -> None:
    """Accept an envelope only if the node's key signed exactly these bytes within 300 s of `now`.

    Raises: errors.ReportRejected, `forged` before anything else is judged, then those of `check_fresh`.
    """
    if not is_signed(envelope, key=key):
        raise rejected(Reason.FORGED, text="the signature is not the node's")
    check_fresh(envelope, now=now)


def check_fresh(envelope: Envelope, *, now: int, age: int = FRESH_SECONDS) -> None:
    """Refuse a salt that is no unix time in seconds, is more than 300 s after `now`, or more than `age` before it.

    Raises: errors.ReportRejected, `malformed`, `stale` or `future`.
    """
    if not re.fullmatch("[0-9]+", envelope.salt):
        raise rejected(Reason.MALFORMED, text="the salt is no unix time")
    if len(envelope.salt) > _SALT_DIGITS:
        raise rejected(Reason.STALE, text="the salt has more than {} digits".format(_SALT_DIGITS))
    check_date(int(envelope.salt), now=now, age=age)


def check_date(seconds: int, *, now: int, age: int = FRESH_SECONDS) -> None:
    """Refuse a report that was made or signed more than 300 s after `now` (unix seconds), or `age` before it.

    Raises: errors.ReportRejected, `stale` or `future`.
    """
    ahead = seconds - now
    if ahead > FRESH_SECONDS:
        text = "the report is dated {} s ahead of the controller's clock; set both clocks right (NTP)".format(ahead)
        raise rejected(Reason.FUTURE, text=text)
    if ahead < -age:
        text = "the report is dated {} s ago by the controller's clock; its limit is {} s".format(-ahead, age)
        raise rejected(Reason.STALE, text=text)


def _matches(envelope: Envelope, *, key: bytes, algorithm: str) -> bool:
    expected = _hexdigest(key, text=envelope.salt + envelope.msg, algorithm=algorithm)
    return hmac.compare_digest(expected.encode(), envelope.hmac.encode())


def _hexdigest(key: bytes, *, text: str, algorithm: str) -> str:
    try:
        return hmac.digest(key, text.encode(), algorithm).hex()
    except UnicodeEncodeError as e:
        raise errors.InvalidInput("a text to sign has no UTF-8 form") from e
