"""A datagram socket connected to one BMC, and how long an answer is waited for.

Every wait is a future of the event loop, so that any number of BMCs are served side by side in one thread.
"""

from __future__ import annotations

import asyncio
import collections
import errno
import itertools
import os
import socket
from typing import Any, Callable, Deque, Optional

from ..domain.power import power
from ..domain.values import errors
from . import rmcp

WAITS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Seconds for an answer: the first, second and every further time that a BMC is asked; the last of them for ever."""
MOST_FAREWELLS = 4
Accept = Callable[[bytes], Optional[Any]]
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Link:
    """A socket connected to one BMC; one answer is awaited at a time.

    The socket is served here and not by a transport of asyncio, which takes a third more time for each datagram.
    `was_heard`: something came from the BMC, so that what the network says against it is a matter of time.
    `trouble`: why there was no answer the last time; None when the BMC was silent, or did answer.
    `farewells`: end the last sessions that were given back, once more, should the BMC not have heard it.
    """

    def __init__(self, connected: socket.socket) -> None:
        self.was_heard = False
        self.trouble: Optional[errors.PowerFailed] = None
        self.farewells: Deque[Callable[[], None]] = collections.deque(maxlen=MOST_FAREWELLS)
        self._loop = asyncio.get_running_loop()
        self._socket = connected
        self._accept: Optional[Accept] = None
        self._answer: Optional[asyncio.Future[Any]] = None
        self._due = 0.0
        self._timer: Optional[asyncio.TimerHandle] = None
        self._has_complaint = False
        self._tags = itertools.count(int.from_bytes(os.urandom(1), "big"))
        # By number: asyncio looks up a socket by its text.
        self._loop.add_reader(connected.fileno(), self._receive)

    def _receive(self) -> None:
        try:
            datagram = self._socket.recv(rmcp.LARGEST + 1)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._complain(error)
            return
        self._read(datagram)

    def _read(self, datagram: bytes) -> None:
        """Take the awaited answer; anything else, and what is damaged, is passed over."""
        self.was_heard = True
        if self._answer is None or self._answer.done() or self._accept is None:
            return
        try:
            found = self._accept(datagram)
        except rmcp.MalformedError:
            return
        except errors.PowerFailed as error:
            self._answer.set_exception(error)
            return
        if found is not None:
            self._answer.set_result(found)

    def _complain(self, error: OSError) -> None:
        """Nobody listens there, or there is no way to it: final only for a BMC that was never heard."""
        self.trouble, self._has_complaint = unreachable(error), True
        if not self.was_heard and self._answer is not None and not self._answer.done():
            self._answer.set_exception(self.trouble)

    async def exchange(self, datagram: bytes, accept: Accept, *, wait: float) -> Optional[Any]:
        """Send a datagram and give what `accept` makes of its answer; None when there is none in time.

        Raises:
            errors.PowerFailed: the answer is an error, or the BMC is unreachable.
        """
        self._accept, self._answer, self._has_complaint = accept, self._loop.create_future(), False
        self._give_up_at(self._loop.time() + wait)
        self.send(datagram)
        try:
            found = await self._answer
        finally:
            self._answer = None
        if found is not None or not self._has_complaint:
            self.trouble = None
        return found

    def send(self, datagram: bytes) -> None:
        """Send a datagram whose answer is nobody's concern; one for which there is no room is lost like any other."""
        try:
            self._socket.send(datagram)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._complain(error)

    def next_tag(self) -> int:
        """A number by which an answer is known; it comes again after 256 others, and nobody knows the first."""
        return next(self._tags) & 0xFF

    def close(self) -> None:
        """Give the socket back."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _give_up_at(self, due: float) -> None:
        """Wait until then; one timer serves one exchange after the other, as nearly all end long before it."""
        self._due = due
        if self._timer is not None and self._timer.when() > due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if self._answer is None or self._answer.done():
            return
        if self._loop.time() < self._due:
            self._give_up_at(self._due)
        else:
            self._answer.set_result(None)


def linked(address: str, port: int) -> Link:
    """A socket connected to one BMC, whose address is a literal one.

    Raises:
        errors.PowerFailed: there is no way to it.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
        )[0]
        connected = socket.socket(family, kind, protocol)
    except OSError as error:
        raise unreachable(error) from error
    try:
        connected.setblocking(False)  # noqa: FBT003 -- the socket's own signature
        connected.connect(where)
    except OSError as error:
        connected.close()
        raise unreachable(error) from error
    return Link(connected)


def unreachable(error: OSError) -> errors.PowerFailed:
    """What a failure of the network means; one of this machine says nothing about the BMC."""
    reason = power.Reason.DRIVER if error.errno in _OURS else power.Reason.UNREACHABLE
    return errors.PowerFailed(reason.value, (error.strerror or str(error)).lower())
