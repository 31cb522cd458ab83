"""Answers a controller that wants to lead: whom this node follows, and whether it follows that controller from now on.

The process that faces the network passes questions on as they come; only this one has the key that signs them.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from typing import Optional

from .. import instance_lock, leader_record, node_settings
from ..domain import errors, votes
from ..storage import sights

LOG = logging.getLogger("roundsman-agent")
LENGTH = struct.Struct("!I")
"""Goes before each question and each answer between the two processes; a length of 0 is no answer."""


def answer(data: bytes, node: node_settings.Settings) -> bytes:
    """The sealed answer to a sealed question; empty where the question is not the controller's.

    Raises: errors.StoreFailed: the node cannot say whom it follows.
    """
    key = node_settings.key(node)
    try:
        question = votes.question(data, key=key, node=node.node)
    except (errors.ReportRejected, errors.InvalidInput) as error:
        LOG.warning("a question of who leads was not answered: %s", error)
        return b""
    boot, refusal = sights.boot_id(node.root), ""
    if question.offer is not None:
        try:
            _follow(question, node, boot=boot)
        except errors.RoundsmanError as error:
            refusal = str(error)
    follows = leader_record.load(node.root)
    # Looked at last: what had begun before this node followed the epoch still holds its lock, or has ended.
    steps = instance_lock.steps(node.root)
    given = votes.Answer(question.node, question.nonce, boot, follows, refusal, steps)
    return votes.sealed_answer(given, key=key, now=int(time.time()))


def _follow(question: votes.Question, node: node_settings.Settings, *, boot: str) -> None:
    if question.offer is None:
        return
    if question.boot != boot:
        raise errors.NotFollowed("this node has booted since the controller asked it")
    leader_record.keep(node.root, question.offer)
    LOG.info("this node follows %s", question.offer.epoch)


def start(node: node_settings.Settings) -> socket.socket:
    """Answer in a thread of its own until the other end of the socket, which is returned, is closed."""
    ours, theirs = socket.socketpair()
    threading.Thread(target=_serve, args=(ours, node), name="following", daemon=True).start()
    return theirs


def _serve(channel: socket.socket, node: node_settings.Settings) -> None:
    with channel:
        while (data := _received(channel)) is not None:
            try:
                given = answer(data, node)
            except (errors.RoundsmanError, OSError) as error:
                LOG.error("a question of who leads cannot be answered: %s", error)  # noqa: TRY400 - the text says all
                given = b""
            channel.sendall(LENGTH.pack(len(given)) + given)


def _received(channel: socket.socket) -> Optional[bytes]:
    head = _exactly(channel, LENGTH.size)
    if head is None:
        return None
    (size,) = LENGTH.unpack(head)
    return _exactly(channel, size) if size <= votes.LIMIT else None


def _exactly(channel: socket.socket, size: int) -> Optional[bytes]:
    """So many bytes; None where the other end was closed before."""
    found = bytearray()
    while len(found) < size:
        part = channel.recv(min(size - len(found), 65536))
        if not part:
            return None
        found += part
    return bytes(found)
