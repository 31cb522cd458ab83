"""What a controller and a node say to each other when the controller wants to lead: signed with the key of the node.

A question has a nonce, which its answer repeats, so no answer of before counts. One with an offer asks the node to
follow an epoch, and names the boot of the node that the controller knows: a question that was kept back means no later
boot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Mapping, Optional

from . import errors, signing
from .epochs import Epoch, Kept

LIMIT = 256 * 1024
"""Bytes of a sealed question or answer: a thousand nodes that vote are a fifth of it."""
_QUESTION, _ANSWER = "leader-question", "leader-answer"
_KEPT = frozenset(("number", "id", "master", "serial", "voters", "goes_on"))


@dataclass(frozen=True)
class Question:
    """What a controller asks a node (UUID): whom it follows, and with an offer, to follow that from now on.

    `boot` is the node's boot id, where the controller knows it.
    """

    node: str
    nonce: str
    boot: str = ""
    offer: Optional[Kept] = None


@dataclass(frozen=True)
class Answer:
    """What a node says: whom it follows after the question, in which boot, and the steps that hold locks of instances.

    `refusal` says why it does not follow the offer. `steps` are the notes of those that hold a lock, by instance.
    """

    node: str
    nonce: str
    boot: str
    follows: Optional[Kept] = None
    refusal: str = ""
    steps: Mapping[str, str] = field(default_factory=dict)


def sealed_question(question: Question, *, key: bytes, now: int) -> bytes:
    """A question as it is sent, signed with the node's key at `now` (unix seconds)."""
    fields = {"node": question.node, "nonce": question.nonce, "boot": question.boot, "offer": document(question.offer)}
    return signing.sign(json.dumps({"kind": _QUESTION, **fields}), key=key, now=now).encode()


def sealed_answer(answer: Answer, *, key: bytes, now: int) -> bytes:
    """An answer as it is sent, signed with the node's key at `now` (unix seconds)."""
    fields = {
        "node": answer.node,
        "nonce": answer.nonce,
        "boot": answer.boot,
        "follows": document(answer.follows),
        "refusal": answer.refusal,
        "steps": dict(answer.steps),
    }
    return signing.sign(json.dumps({"kind": _ANSWER, **fields}), key=key, now=now).encode()


def question(data: bytes, *, key: bytes, node: str) -> Question:
    """Read a question that the controller signed for this node (UUID).

    Raises: errors.ReportRejected, errors.InvalidInput.
    """
    found = _opened(data, key=key, kind=_QUESTION, fields=frozenset(("node", "nonce", "boot", "offer")))
    if found["node"] != node:
        raise errors.InvalidInput("the question is for another node")
    return Question(node, _text(found["nonce"]), _text(found["boot"]), kept(found["offer"]))


def answer(data: bytes, *, key: bytes, asked: Question) -> Answer:
    """Read the answer to a question.

    Raises: errors.ReportRejected, errors.InvalidInput: it is not signed by the node, or answers another question.
    """
    names = frozenset(("node", "nonce", "boot", "follows", "refusal", "steps"))
    found = _opened(data, key=key, kind=_ANSWER, fields=names)
    if (found["node"], found["nonce"]) != (asked.node, asked.nonce):
        raise errors.InvalidInput("the answer is to another question")
    if not isinstance(found["steps"], dict):
        raise errors.InvalidInput("the steps are no object")
    steps = {name: _text(note) for name, note in found["steps"].items()}
    return Answer(asked.node, asked.nonce, _text(found["boot"]), kept(found["follows"]), _text(found["refusal"]), steps)


def document(followed: Optional[Kept]) -> Optional[Dict[str, Any]]:
    """An epoch that is followed, as a JSON value."""
    if followed is None:
        return None
    return {
        "number": followed.epoch.number,
        "id": followed.epoch.id,
        "master": followed.master,
        "serial": followed.serial,
        "voters": sorted(followed.voters),
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
    if type(number) is not int or type(serial) is not int or number < 1:
        raise errors.InvalidInput("a number of an epoch is none")
    epoch = Epoch(number, _text(value["id"]))
    return Kept(epoch, _text(value["master"]), serial, _texts(value["voters"]), _texts(value["goes_on"]))


def _opened(data: bytes, *, key: bytes, kind: str, fields: FrozenSet[str]) -> Dict[str, Any]:
    envelope = signing.read_envelope(data)
    if not signing.is_signed(envelope, key=key):
        raise signing.rejected(signing.Reason.FORGED, text="the signature is not the node's")
    try:
        found = json.loads(envelope.msg)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidInput("the message is not JSON: {}".format(error)) from error
    if not isinstance(found, dict) or found.keys() != fields | {"kind"} or found["kind"] != kind:
        raise errors.InvalidInput("the message is no {}".format(kind))
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise errors.InvalidInput("a text is expected")
    return value


def _texts(value: Any) -> FrozenSet[str]:
    if not isinstance(value, list):
        raise errors.InvalidInput("a list is expected")
    return frozenset(map(_text, value))
