"""Who asks: basic authentication against the users file; nobody is anonymous."""

from __future__ import annotations

import asyncio
import base64
import binascii
import collections
import concurrent.futures
import contextlib
import hashlib
import hmac
import logging
import math
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import argon2

from ...plugins.module_utils.domain.values import errors, origins
from . import users

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

LOG = logging.getLogger(__name__)
REMEMBERED_SECONDS = 12 * 3600.0
"""How long after its last use a password that was right is taken for right without the work of hashing it."""
REFUSED_SECONDS = 600.0
"""How long the same wrong password from the same origin is refused without that work."""
LONGEST_WAIT = 24.0
"""Seconds that a password may wait for its turn; one that would wait longer is refused."""
MOST_REMEMBERED = 1000
WRONG = "the name or the password is wrong"
MOST_WAITING = 200
"""Passwords that wait to be hashed, of all origins."""


@dataclass(frozen=True)
class Pace:
    """How many passwords may be tried at once, and the seconds between any more."""

    burst: int
    interval: float


OF_USER = Pace(10, 3.0)
"""For one user's name from one origin: who guesses at a name does not use up the tries of another."""
OF_ORIGIN = Pace(60, 1.0)
"""For all names from one origin: it bounds the work of hashing."""


class Denied(Exception):
    """Nobody whom we know asks."""

    def __init__(self, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers


@dataclass(frozen=True)
class Asker:
    """A user who was authenticated."""

    name: str
    access: users.Access


class _Line:
    """Turns at hashing, one at a time: origins take turns, so that no origin with many guesses delays the others."""

    def __init__(self) -> None:
        self._waiting: dict[str, collections.deque[asyncio.Future[None]]] = {}
        self._is_busy = False

    @contextlib.asynccontextmanager
    async def turn(self, origin: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it.

        Raises:
            Denied: too many wait.
        """
        if self._is_busy:
            if sum(map(len, self._waiting.values())) >= MOST_WAITING:
                raise _too_many(LONGEST_WAIT)
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(origin, collections.deque()).append(waiting)
            await waiting
        self._is_busy = True
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        if not self._waiting:
            self._is_busy = False
            return
        origin = next(iter(self._waiting))
        line = self._waiting.pop(origin)
        line.popleft().set_result(None)
        if line:
            self._waiting[origin] = line  # last in the order of origins


class Authenticator:
    """Says who sent a header; one password is hashed at a time, and the others wait.

    A password that was right lately costs nothing and is never delayed. Others are paced by user and origin, and by
    origin: they wait for their turn, and are refused only where that would take too long.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._path, self._clock, self._sleep = path, clock, sleep
        self._users: Mapping[str, users.User] = {}
        self._seen: object = None
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, tuple[float, users.User]] = {}
        self._wrong: dict[bytes, tuple[float, users.User | None]] = {}
        self._proving: dict[bytes, asyncio.Future[users.User]] = {}
        self._paces: dict[tuple[str, str], float] = {}
        self._line = _Line()
        self._nobody = users.HASHER.hash(secrets.token_hex(16))
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="passwords")

    async def asker(self, header: bytes | None, *, address: str) -> Asker:
        """The user whose name and password a header carries.

        Raises:
            Denied: there is none.
        """
        self._refresh()
        name, password = _credentials(header)
        proof = self._proof(name, password)
        known = self._users.get(name)
        until, remembered = self._right.pop(proof, (float("-inf"), None))
        if known is not None and known == remembered and until >= self._clock():
            self._right[proof] = (self._clock() + REMEMBERED_SECONDS, known)
            return Asker(name, known.access)
        origin = origins.origin(address)
        until, refused = self._wrong.get(self._proof(origin, name, password), (float("-inf"), None))
        if until >= self._clock() and refused == known:
            raise _refusal(WRONG)
        # Who asks for several things at once is one try, and one hash.
        proving = self._proving.get(proof)
        if proving is None:
            proving = asyncio.ensure_future(self._prove(name, password, address=address))
            self._proving[proof] = proving
            proving.add_done_callback(lambda _: self._proving.pop(proof, None))
        return Asker(name, (await asyncio.shield(proving)).access)

    async def _prove(self, name: str, password: str, *, address: str) -> users.User:
        origin = origins.origin(address)
        delay = max(self._paced(origin, "", OF_ORIGIN), self._paced(origin, name, OF_USER))
        if delay > 0:
            await self._sleep(delay)
        async with self._line.turn(origin):
            known = self._users.get(name)
            # Somebody unknown costs the same time as somebody known.
            hashed = self._nobody if known is None else known.hash
            is_right = await asyncio.get_running_loop().run_in_executor(self._thread, _is_right, hashed, password)
        # The file may have changed meanwhile.
        if not is_right or known is None or self._users.get(name) != known:
            LOG.warning("wrong password for %s from %s", "an unknown user" if known is None else name, address)
            _trim(self._wrong)
            self._wrong[self._proof(origin, name, password)] = (self._clock() + REFUSED_SECONDS, known)
            raise _refusal(WRONG)
        self._give_back(origin, "", OF_ORIGIN)
        self._give_back(origin, name, OF_USER)
        _trim(self._right)
        self._right[self._proof(name, password)] = (self._clock() + REMEMBERED_SECONDS, known)
        return known

    def _proof(self, *texts: str) -> bytes:
        return hmac.digest(self._key, "\0".join(texts).encode(), hashlib.sha256)

    def _paced(self, origin: str, name: str, pace: Pace) -> float:
        """The seconds that one more try has to wait; it is counted.

        Raises:
            Denied: it would have to wait too long.
        """
        now = self._clock()
        paid = max(self._paces.pop((origin, name), now), now)
        delay = paid - now - (pace.burst - 1) * pace.interval
        is_refused = delay > LONGEST_WAIT
        _trim(self._paces)
        self._paces[origin, name] = paid if is_refused else paid + pace.interval
        if is_refused:
            raise _too_many(delay - LONGEST_WAIT)
        return delay

    def _give_back(self, origin: str, name: str, pace: Pace) -> None:
        if (origin, name) in self._paces:
            self._paces[origin, name] -= pace.interval

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            seen: object = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        except OSError as error:
            seen = error.errno
        if seen == self._seen:
            return
        self._seen = seen
        self._users = {}
        try:
            self._users = users.read(self._path)
        except (errors.StoreFailed, errors.Refused) as error:
            LOG.error("everybody is refused: %s", error)  # noqa: TRY400 - what is wrong is the file, not the code
        else:
            LOG.info("%s has %d users", self._path, len(self._users))


def _is_right(hashed: str, password: str) -> bool:
    try:
        return users.HASHER.verify(hashed, password)
    except argon2.exceptions.VerificationError:
        return False


def _credentials(header: bytes | None) -> tuple[str, str]:
    kind, _, encoded = (header or b"").partition(b" ")
    if kind.lower() != b"basic":
        raise _refusal("authentication required (HTTP Basic)")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _refusal("the header Authorization cannot be read") from None
    name, colon, password = text.partition(":")
    if not colon or len(password) > users.LONGEST or not users.NAME.fullmatch(name):
        raise _refusal(WRONG)
    return name, password


def _refusal(detail: str) -> Denied:
    return Denied(401, detail, (b"www-authenticate", b'Basic realm="Roundsman", charset="UTF-8"'))


def _too_many(seconds: float) -> Denied:
    left = max(1, math.ceil(seconds))
    return Denied(429, f"too many wrong passwords: wait {left} seconds", (b"retry-after", str(left).encode()))


def _trim(table: dict[Any, Any]) -> None:
    while len(table) >= MOST_REMEMBERED:
        del table[next(iter(table))]
