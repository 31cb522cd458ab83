"""Who asks: basic authentication against the users file; nobody is anonymous."""

from __future__ import annotations

import asyncio
import base64
import binascii
import concurrent.futures
import hashlib
import hmac
import logging
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import argon2

from ...plugins.module_utils.domain import errors
from ...plugins.plugin_utils import bounded_connections
from . import users

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

LOG = logging.getLogger(__name__)
REMEMBERED_SECONDS = 60.0
"""How long a password that was right is taken for right without the work of hashing it."""
TRIES, TRIES_SECONDS = 10, 60.0
"""So many wrong passwords in so long; then nothing that comes from there is looked at until the time is over."""
MOST_REMEMBERED = 1000


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


@dataclass
class _Tries:
    began: float
    number: int = 0


class Authenticator:
    """Says who sent a header; one password is hashed at a time, and the others wait."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = path, clock
        self._users: Mapping[str, users.User] = {}
        self._seen: object = None
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, float] = {}
        self._proving: dict[bytes, asyncio.Future[users.User]] = {}
        self._tries: dict[str, _Tries] = {}
        self._nobody = users.HASHER.hash(secrets.token_hex(16))
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="passwords")

    async def asker(self, header: bytes | None, *, address: str) -> Asker:
        """The user whose name and password a header carries.

        Raises:
            Denied: there is none.
        """
        self._refresh()
        name, password = _credentials(header)
        proof = hmac.digest(self._key, f"{name}\0{password}".encode(), hashlib.sha256)
        found = self._users.get(name) if self._right.get(proof, float("-inf")) >= self._clock() else None
        if found is None:
            # Who asks for several things at once is one try, and one hash.
            proving = self._proving.get(proof)
            if proving is None:
                proving = asyncio.ensure_future(self._prove(name, password, proof=proof, address=address))
                self._proving[proof] = proving
                proving.add_done_callback(lambda _: self._proving.pop(proof, None))
            found = await asyncio.shield(proving)
        return Asker(name, found.access)

    async def _prove(self, name: str, password: str, *, proof: bytes, address: str) -> users.User:
        tries = self._tries_of(bounded_connections.origin(address))
        tries.number += 1
        known = self._users.get(name)
        # Somebody unknown costs the same time as somebody known.
        hashed = self._nobody if known is None else known.hash
        is_right = await asyncio.get_running_loop().run_in_executor(self._thread, _is_right, hashed, password)
        # The file may have changed meanwhile.
        if not is_right or known is None or self._users.get(name) != known:
            LOG.warning("a wrong name or password came from %s", address)
            raise _refusal("the name or the password is wrong")
        tries.number -= 1
        _trim(self._right)
        self._right[proof] = self._clock() + REMEMBERED_SECONDS
        return known

    def _tries_of(self, whose: str) -> _Tries:
        now = self._clock()
        tries = self._tries.get(whose)
        if tries is None or now - tries.began >= TRIES_SECONDS:
            _trim(self._tries)
            tries = self._tries[whose] = _Tries(now)
        if tries.number >= TRIES:
            left = max(1, round(tries.began + TRIES_SECONDS - now))
            raise Denied(429, f"too many wrong passwords: wait {left} seconds", (b"retry-after", str(left).encode()))
        return tries

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            seen: object = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        except OSError as error:
            seen = error.errno
        if seen == self._seen:
            return
        self._seen = seen
        self._right.clear()
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
        raise _refusal("say who you are, by basic authentication")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise _refusal("the header Authorization cannot be read") from None
    name, colon, password = text.partition(":")
    if not colon or len(password) > users.LONGEST or not users.NAME.fullmatch(name):
        raise _refusal("the name or the password is wrong")
    return name, password


def _refusal(detail: str) -> Denied:
    return Denied(401, detail, (b"www-authenticate", b'Basic realm="Roundsman", charset="UTF-8"'))


def _trim(table: dict[str, _Tries] | dict[bytes, float]) -> None:
    while len(table) >= MOST_REMEMBERED:
        del table[next(iter(table))]  # type: ignore[arg-type] # its own first key
