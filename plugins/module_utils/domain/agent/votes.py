"""What a controller and a node say to each other when the controller wants to lead: signed with the key of the node.

A question has a nonce, which its answer repeats, so no answer of before counts. One with an offer asks the node to
follow an epoch, and names the boot of the node that the controller knows: a question that was kept back means no later
boot.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Mapping, Optional, Tuple

from ..disks import replicas
from ..values import errors, value_rules
from . import signing
from .epochs import HIGHEST, ID, Epoch, Kept

LIMIT = 256 * 1024
"""Bytes of a sealed question or answer: the notes of 400 steps at work have room."""
_TIME = re.compile("[0-9]{1,12}")
_QUESTION, _ANSWER = "leader-question", "leader-answer"
_KEPT = frozenset(("number", "id", "master", "serial", "goes_on"))
_ASKED = frozenset(("node", "nonce", "boot", "offer", "ends"))
_ANSWERED = frozenset(("node", "nonce", "boot", "follows", "heard", "refusal", "steps"))

SHOWN = frozenset(("node", "boot", "follows", "refusal", "steps"))
"""What a node without an agent answers: the module `leader`."""


@dataclass(frozen=True)
class Question:
    """What a controller asks a node (UUID): whom it follows, and with an offer, to follow that from now on.

    `boot` is the node's boot id, where the controller knows it. With `ends` the controller says that it ends, and does
    not order anything more in the epoch that it offers. `at` is when the question was signed (unix seconds).
    """

    node: str
    nonce: str
    boot: str = ""
    offer: Optional[Kept] = None
    ends: bool = False
    at: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Answer:
    """What a node says: whom it follows after the question, in which boot, and the steps that hold locks of instances.

    `heard` are the seconds since that controller asked last; None where it has not since the agent started, or has said
    that it ends. `refusal` says why the node does not follow the offer. `steps` are the notes of those that hold a
    lock, by instance.
    """

    node: str
    nonce: str
    boot: str
    follows: Optional[Kept] = None
    heard: Optional[float] = None
    refusal: str = ""
    steps: Mapping[str, str] = field(default_factory=dict)


def sealed_question(question: Question, *, key: bytes, now: int) -> bytes:
    """A question as it is sent, signed with the node's key at `now` (unix seconds)."""
    fields = {
        "node": question.node,
        "nonce": question.nonce,
        "boot": question.boot,
        "offer": document(question.offer),
        "ends": question.ends,
    }
    return signing.sign(json.dumps({"kind": _QUESTION, **fields}), key=key, now=now).encode()


def sealed_answer(answer: Answer, *, key: bytes, now: int) -> bytes:
    """An answer as it is sent, signed with the node's key at `now` (unix seconds)."""
    fields = {
        "node": answer.node,
        "nonce": answer.nonce,
        "boot": answer.boot,
        "follows": document(answer.follows),
        "heard": answer.heard,
        "refusal": answer.refusal,
        "steps": dict(answer.steps),
    }
    return signing.sign(json.dumps({"kind": _ANSWER, **fields}), key=key, now=now).encode()


def question(data: bytes, *, key: bytes, node: str) -> Question:
    """Read a question that the controller signed for this node (UUID).

    Raises: errors.ReportRejected, errors.InvalidInput.
    """
    found, at = opened(data, key=key, kind=_QUESTION, fields=_ASKED)
    if found["node"] != node:
        raise errors.InvalidInput("the question is for another node")
    offer = _shown(found["offer"])
    return Question(node, text(found["nonce"]), text(found["boot"]), offer, found["ends"] is True, at)


def answer(data: bytes, *, key: bytes, asked: Question) -> Answer:
    """Read the answer to a question.

    Raises: errors.ReportRejected, errors.InvalidInput: it is not signed by the node, or answers another question.
    """
    found, _ = opened(data, key=key, kind=_ANSWER, fields=_ANSWERED)
    if (found["node"], found["nonce"]) != (asked.node, asked.nonce):
        raise errors.InvalidInput("the answer is to another question")
    return _answer(found, asked)


def shown_answer(found: Mapping[str, Any], *, asked: Question) -> Answer:
    """Read what a node answered without an agent, which nobody has signed: how it was reached has to prove the node.

    Nobody remembers there when the leader asked last (`heard`).

    Raises: errors.InvalidInput: it is none, or another node's.
    """
    if found.keys() != SHOWN or found["node"] != asked.node:
        raise errors.InvalidInput("the answer is another node's, or none")
    return _answer({**found, "heard": None}, asked)


def _answer(found: Mapping[str, Any], asked: Question) -> Answer:
    if not isinstance(found["steps"], dict):
        raise errors.InvalidInput("the steps are no object")
    steps = {text(name): text(note) for name, note in found["steps"].items()}
    boot = text(found["boot"])
    # Steps name it in their environment.
    if boot and not replicas.is_boot_id(boot):
        raise errors.InvalidInput("the boot is no boot id")
    follows, heard, refusal = _shown(found["follows"]), _seconds(found["heard"]), text(found["refusal"])
    return Answer(asked.node, asked.nonce, boot, follows, heard, refusal, steps)


def document(followed: Optional[Kept]) -> Optional[Dict[str, Any]]:
    """An epoch that is followed, as a JSON value."""
    if followed is None:
        return None
    return {
        "number": followed.epoch.number,
        "id": followed.epoch.id,
        "master": followed.master,
        "serial": followed.serial,
        "goes_on": sorted(followed.goes_on),
    }


def kept(value: Any) -> Optional[Kept]:
    """Read what `document` wrote.

    Raises: errors.InvalidInput.
    """
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != _KEPT:
        raise errors.InvalidInput("not the fields of an epoch")
    number, serial = value["number"], value["serial"]
    if type(number) is not int or type(serial) is not int or not 1 <= number <= HIGHEST or not 0 <= serial <= HIGHEST:
        raise errors.InvalidInput("a number of an epoch is none")
    name = text(value["id"])
    if ID.fullmatch(name) is None:
        raise errors.InvalidInput("the id of an epoch is none")
    return Kept(Epoch(number, name), text(value["master"]), serial, _texts(value["goes_on"]))


def opened(data: bytes, *, key: bytes, kind: str, fields: FrozenSet[str]) -> Tuple[Dict[str, Any], int]:
    """The fields of a message of this kind that the node's key signed, and when it was signed (unix seconds).

    Raises: errors.ReportRejected, errors.InvalidInput.
    """
    envelope = signing.read_envelope(data)
    if not signing.is_signed(envelope, key=key):
        raise signing.rejected(signing.Reason.FORGED, text="the signature is not the node's")
    try:
        found = json.loads(envelope.msg)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInput("the message is not JSON: {}".format(error)) from error
    if not isinstance(found, dict) or found.keys() != fields | {"kind"} or found["kind"] != kind:
        raise errors.InvalidInput("the message is no {}".format(kind))
    return found, int(envelope.salt) if _TIME.fullmatch(envelope.salt) else 0


def text(value: Any) -> str:
    """A value of a message that is a text.

    Raises: errors.InvalidInput.
    """
    if not isinstance(value, str):
        raise errors.InvalidInput("a text is expected")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidInput("a text holds half of a surrogate pair") from error
    return value


def _shown(value: Any) -> Optional[Kept]:
    """An epoch in a message: its master is a node, by its UUID."""
    found = kept(value)
    if found is not None and not value_rules.is_uuid(found.master):
        raise errors.InvalidInput("the master of an epoch is no UUID")
    return found


def _seconds(value: Any) -> Optional[float]:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= HIGHEST:
        raise errors.InvalidInput("a number of seconds is expected")
    return float(value)


def _texts(value: Any) -> FrozenSet[str]:
    if not isinstance(value, list):
        raise errors.InvalidInput("a list is expected")
    return frozenset(map(text, value))
