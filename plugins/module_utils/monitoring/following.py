"""Answers a controller: whom this node follows, whether it follows that controller from now on, and what copy it keeps.

The process that faces the network passes questions on as they come; only this one has the key that signs them.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional, Tuple

from .. import instance_lock, leader_record, node_settings
from ..domain.agent import epochs, votes
from ..domain.values import errors
from ..storage import node_boot
from . import copying, requests

LOG = logging.getLogger("roundsman-agent")
PATHS = (requests.LEADER, requests.COPY)
"""Where controllers ask; which of them it was is known before anybody looks into a question."""
QUESTION = struct.Struct("!BI")
"""Goes before each question to the process that has the key: which of `PATHS`, and how long it is."""
LENGTH = struct.Struct("!I")
"""Goes before each answer; a length of 0 is none."""
Answering = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Heard:
    """When the controller of an epoch asked last: the time that it signed, and this process's own clock.

    `moment` is None once it has said that it ends.
    """

    epoch: epochs.Epoch
    at: int
    moment: Optional[float]


class Follower:
    """Answers for one node; it remembers, until it ends, when the controller that the node follows asked last."""

    def __init__(self, node: node_settings.Settings, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._clock = clock
        self._heard: Optional[Heard] = None

    def answer(self, data: bytes) -> bytes:
        """The sealed answer to a sealed question; empty where the question is not the controller's.

        Raises: errors.StoreFailed: the node cannot say whom it follows.
        """
        key, root = node_settings.key(self._node), self._node.root
        try:
            question = votes.question(data, key=key, node=self._node.node)
        except (errors.ReportRejected, errors.InvalidInput) as error:
            LOG.warning("a question of who leads was not answered: %s", error)
            return b""
        boot, refusal = node_boot.boot_id(root), ""
        if question.offer is not None:
            try:
                self._follow(question, question.offer)
            except errors.RoundsmanError as error:
                refusal = str(error)
        follows = leader_record.load(root)
        # Looked at last: what had begun before this node followed the epoch still holds its lock, or has ended.
        steps = instance_lock.steps(root)
        heard = self._seconds_since(follows)
        given = votes.Answer(question.node, question.nonce, boot, follows, heard, refusal, steps)
        return votes.sealed_answer(given, key=key, now=int(time.time()))

    def _follow(self, question: votes.Question, offer: epochs.Kept) -> None:
        leader_record.follow(self._node.root, offer, boot=question.boot)
        before = self._heard
        if before is None or before.epoch != offer.epoch:
            LOG.info("this node follows %s", offer.epoch)
        elif before.at > question.at:
            # A question that somebody recorded and sends again says nothing about now.
            return
        self._heard = Heard(offer.epoch, question.at, None if question.ends else self._clock())

    def _seconds_since(self, follows: Optional[epochs.Kept]) -> Optional[float]:
        heard = self._heard
        if follows is None or heard is None or heard.epoch != follows.epoch or heard.moment is None:
            return None
        return round(self._clock() - heard.moment, 3)


def start(node: node_settings.Settings) -> socket.socket:
    """Answer in a thread of its own until the other end of the socket, which is returned, is closed."""
    ours, theirs = socket.socketpair()
    answering: Dict[str, Answering] = {
        requests.LEADER: Follower(node).answer,
        requests.COPY: copying.Keeper(node).answer,
    }
    threading.Thread(target=_serve, args=(ours, answering), name="following", daemon=True).start()
    return theirs


def _serve(channel: socket.socket, answering: Dict[str, Answering]) -> None:
    with channel:
        while (received := _received(channel)) is not None:
            path, data = received
            try:
                given = answering[path](data)
            except (errors.RoundsmanError, OSError) as error:
                LOG.error("a question of a controller cannot be answered: %s", error)  # noqa: TRY400 - the text says all
                given = b""
            channel.sendall(LENGTH.pack(len(given)) + given)


def _received(channel: socket.socket) -> Optional[Tuple[str, bytes]]:
    """The path and the body of the next question; None where the other end was closed, or says what none can."""
    head = _exactly(channel, QUESTION.size)
    if head is None:
        return None
    kind, size = QUESTION.unpack(head)
    data = _exactly(channel, size) if size <= votes.LIMIT and kind < len(PATHS) else None
    return (PATHS[kind], data) if data is not None else None


def _exactly(channel: socket.socket, size: int) -> Optional[bytes]:
    """So many bytes; None where the other end was closed before."""
    found = bytearray()
    while len(found) < size:
        part = channel.recv(min(size - len(found), 65536))
        if not part:
            return None
        found += part
    return bytes(found)
