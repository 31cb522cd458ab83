"""The sessions of simulated BMCs: how many each has room for, and when one is forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import ipmi_session

SESSION_IDLE: Final = 60.0
SESSIONS_PER_BMC: Final = 32


class SessionTable:
    """Each BMC's sessions by number; at most `limit` of them, and none that was idle for a minute."""

    def __init__(self, *, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self._sessions: dict[str, dict[int, ipmi_session.Session]] = {}

    def find(self, address: str, number: int) -> ipmi_session.Session | None:
        """Give a session, which is in use now."""
        session = self._sessions.get(address, {}).get(number)
        now = self._clock()
        if session is None or session.used < now - SESSION_IDLE:
            return None
        session.used = now
        return session

    def add(self, address: str, session: ipmi_session.Session) -> None:
        """Keep a session for which there is room."""
        self._live(address)[session.number] = session

    def drop(self, address: str, number: int) -> None:
        """Forget a session."""
        del self._sessions[address][number]

    def make_room(self, address: str) -> bool:
        """Let a full BMC give up its oldest half-open session; established ones are kept."""
        sessions = self._live(address)
        if len(sessions) < self._limit:
            return True
        half_open = [number for number, session in sessions.items() if not session.established]
        if half_open:
            del sessions[half_open[0]]
        return bool(half_open)

    def count(self) -> int:
        """Count the sessions that are open or being opened."""
        return sum(len(self._live(address)) for address in self._sessions)

    def _live(self, address: str) -> dict[int, ipmi_session.Session]:
        sessions = self._sessions.setdefault(address, {})
        oldest = self._clock() - SESSION_IDLE
        for number in [number for number, session in sessions.items() if session.used < oldest]:
            del sessions[number]
        return sessions
