"""How many connections a server has at once, in all and from one address; who is one too many is closed at once.

Some places are kept for the machine itself, so that its own monitoring gets an answer whatever others do.
"""

from __future__ import annotations

import asyncio
import logging
import socket  # noqa: TC003 - an annotation that readers resolve
from collections import Counter
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.values import origins

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

LOG = logging.getLogger(__name__)
AT_ONCE = 100
"""Connections that are accepted before others' events are looked at."""
PAUSE = 1.0
"""Seconds until connections are accepted again after the system had no descriptor left."""
SILENCE = 60.0
"""Seconds between two lines of the log about connections that were closed."""


class Gate:
    """Counts the connections of a server; `kept` of its places are for each of the addresses of `keep_for` alone."""

    def __init__(self, *, most: int, most_of_one: int, kept: int = 0) -> None:
        self._most, self._most_of_one, self._kept = most, most_of_one, kept
        self._own: frozenset[str] = frozenset()
        self._open: Counter[str] = Counter()

    def keep_for(self, addresses: Iterable[str]) -> None:
        """Keep places for these addresses; other addresses of the same machine or network have no part in them."""
        self._own = frozenset(map(origins.address, addresses)) if self._kept else frozenset()

    @property
    def open(self) -> int:
        """How many there are."""
        return self._open.total()

    def admit(self, address: str) -> Callable[[], None] | None:
        """Take a place; gives what frees it, which may be called more than once, or nothing when there is none."""
        whose = origins.address(address)
        if whose not in self._own:
            whose = origins.origin(address)
        has_own = whose in self._own and self._open[whose] < self._kept
        if self._open[whose] >= self._most_of_one or not (has_own or self._has_common()):
            return None
        self._open[whose] += 1
        held = [whose]

        def free() -> None:
            if held:
                self._open[held.pop()] -= 1
                self._open += Counter()  # forgets who has none

        return free

    def _has_common(self) -> bool:
        """Whether a place is left that is kept for nobody."""
        kept = sum(max(self._kept - self._open[address], 0) for address in self._own)
        return self.open + kept < self._most


class Acceptor:
    """Accepts the connections of one listening socket; a TLS handshake holds a place too, and has a deadline."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        gate: Gate,
        make: Callable[[Callable[[], None]], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        handshake_seconds: float,
    ) -> None:
        self._listener, self._gate, self._make = listener, gate, make
        self._tls, self._seconds = tls, handshake_seconds
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._closed, self._told = 0, float("-inf")
        listener.setblocking(False)  # noqa: FBT003 - its only form
        self._listen()

    def close(self) -> None:
        """Accept no more; a handshake that goes on is broken off."""
        self._loop.remove_reader(self._listener)
        if self._again is not None:
            self._again.cancel()
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until no handshake goes on."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                LOG.warning("no connection can be accepted for %g s: %s", PAUSE, error)
                self._loop.remove_reader(self._listener)
                self._again = self._loop.call_later(PAUSE, self._listen)
                return
            free = self._gate.admit(address[0] if isinstance(address, tuple) else "")
            if free is None:
                connection.close()
                self._count(address)
                continue
            connection.setblocking(False)  # noqa: FBT003 - its only form
            task = self._loop.create_task(self._begin(connection, free))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, connection: socket.socket, free: Callable[[], None]) -> None:
        is_served = False
        try:
            deadline = None if self._tls is None else self._seconds
            await self._loop.connect_accepted_socket(
                lambda: self._make(free),
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=deadline,
                ssl_shutdown_timeout=deadline,
            )
            is_served = True
        except OSError as error:
            LOG.debug("a connection came to nothing: %s", error)
        finally:
            if not is_served:
                connection.close()
                free()

    def _count(self, address: object) -> None:
        self._closed += 1
        now = self._loop.time()
        if now - self._told >= SILENCE:
            LOG.warning("%d connections over the limit were closed, the last one from %s", self._closed, address)
            self._closed, self._told = 0, now
