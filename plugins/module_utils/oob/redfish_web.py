"""pyghmi's connection to a Redfish service, watched: what HTTP said last, and which session is to be given back."""

from __future__ import annotations

import hashlib
import http
import urllib.parse
import zlib
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import pyghmi_library

if TYPE_CHECKING:
    from ..domain.power import power

PORT = 443
ANY_CERTIFICATE = "any"
SESSIONS = "/redfish/v1/SessionService/Sessions"
LONGEST_ANSWER = 2 * 2**20
"""Bytes of one answer, unpacked."""
LONGEST_ANSWERS = 16 * 2**20
"""Bytes of all answers of one connection, most of which pyghmi keeps."""
_GZIP = 16 + zlib.MAX_WBITS
NO_LOGIN = frozenset({http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN})


class Watch:
    """What is known of one connection; `status` is that of the last answer, 0 before there is one.

    `is_waiting`: the last question went out as a whole, and no answer has come; logging in and out is none.

    pyghmi's errors carry no status, and it cannot log out.
    """

    def __init__(self) -> None:
        self.status = 0
        self.is_waiting = False
        self._is_asking = False
        self._session: Any = None
        self._read = 0

    def connect(self, target: power.Target) -> Any:
        """A `pyghmi.redfish.command.Command`, logged in; it raises what that one raises."""
        self.close()
        library = pyghmi_library.load(pyghmi_library.REDFISH)
        watched = property(
            lambda connection: connection.watched_web,
            lambda connection, web: setattr(connection, "watched_web", self._watched(web)),
        )
        kind = type("Connection", (library.Command,), {"wc": watched, "_get_session_token": self._log_in})
        trusted = _trusted(target.certificate)
        return kind(target.address, target.username, target.password, trusted, port=target.port or PORT)

    def close(self) -> None:
        """Give the BMC its session back; it has few, and keeps each for half an hour. Nobody waits for a failure."""
        self._read = 0
        session, self._session = self._session, None
        if session is not None:
            web, path = session
            try:
                web.grab_rsp(path, method="DELETE").read()
            except (OSError, pyghmi_library.http_failure()):
                return

    def _watched(self, web: Any) -> Any:
        """Note what each answer's status is, of its replicas too: pyghmi asks each question with a new one."""
        ask, copy, answer = web.grab_json_response_with_status, web.dupe, web.getresponse

        def asked(*arguments: Any, **options: Any) -> Any:
            self.is_waiting, self._is_asking = False, True
            try:
                told = ask(*arguments, **options)
            finally:
                self._is_asking = False
            self.status = told[1]
            return told

        def answered() -> Any:
            if not self._is_asking:
                return self._bounded(answer())
            self.is_waiting = True
            told = answer()
            self.is_waiting = False
            return self._bounded(told)

        web.grab_json_response_with_status = asked
        web.getresponse = answered
        web.dupe = lambda *arguments, **options: self._watched(copy(*arguments, **options))
        return web

    def _bounded(self, answer: Any) -> Any:
        """Limit what is read of an answer: pyghmi reads and unpacks whatever it is sent."""
        read, header = answer.read, answer.getheader
        is_packed = header("Content-Encoding") == "gzip"

        def take(*_: Any) -> bytes:
            told: bytes = read(LONGEST_ANSWER + 1)
            if is_packed:
                told = _unpacked(told)
            self._read += len(told)
            if len(told) > LONGEST_ANSWER:
                raise pyghmi_library.exceptions().PyghmiException(f"an answer of more than {LONGEST_ANSWER} bytes")
            if self._read > LONGEST_ANSWERS:
                text = f"answers of more than {LONGEST_ANSWERS} bytes in all"
                raise pyghmi_library.exceptions().PyghmiException(text)
            return told

        answer.read = take
        answer.getheader = lambda name, default=None: default if name == "Content-Encoding" else header(name, default)
        return answer

    @property
    def _log_in(self) -> Callable[[Any, Any], None]:
        """Log in as pyghmi does; a service without sessions takes user and password with each question."""

        def log_in(connection: Any, web: Any) -> None:
            answer = web.grab_rsp(SESSIONS, {"UserName": connection.username, "Password": connection.password})
            answer.read()
            self.status = answer.status
            if answer.status in NO_LOGIN:
                raise pyghmi_library.exceptions().PyghmiException("access denied")
            token = answer.getheader("X-Auth-Token")
            if token:
                connection.xauthtoken = token
                for client in (web, connection.wc):
                    client.stdheaders.pop("Authorization", None)
                    client.stdheaders["X-Auth-Token"] = token
                path = urllib.parse.urlsplit(answer.getheader("Location") or "").path
                self._session = (connection.wc, path) if path else None

        return log_in


def _unpacked(told: bytes) -> bytes:
    """Unpack gzip up to the limit; what only claims to be packed is returned as it is."""
    try:
        return zlib.decompressobj(_GZIP).decompress(told, LONGEST_ANSWER + 1)
    except zlib.error:
        return told


def _trusted(wanted: str) -> Optional[Callable[[bytes], bool]]:
    """How to know the BMC's certificate: None is by the authorities that this machine knows."""
    if not wanted:
        return None
    if wanted == ANY_CERTIFICATE:
        return lambda _: True
    fingerprint = wanted.partition(":")[2].lower()
    return lambda found: hashlib.sha256(found).hexdigest() == fingerprint
