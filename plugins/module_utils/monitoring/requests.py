"""What a client asks the agent for: one request of HTTP/1, of which the first line matters, and how long a body is."""

from __future__ import annotations

import dataclasses
import re
from typing import Sequence

from ..domain.agent import votes
from ..domain.values import errors

HEAD_LIMIT = 8192
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S{1,4096}) HTTP/1\.[0-9]\r?\Z")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*\r?\Z")
_READABLE = frozenset(("GET", "HEAD"))
LEADER, COPY = "/1/leader", "/1/configuration-copy"
"""Where a controller asks whom this node follows, and sends the parts of a copy: the only paths with a body."""
_WITH_BODY = frozenset((LEADER.encode(), COPY.encode()))
_LENGTH = re.compile(rb"content-length: *([0-9]{1,9})\r?\Z", re.IGNORECASE)
_WAITS = re.compile("after=([0-9a-f]{64})&seconds=([0-9]{1,2})")
_REPORT = re.compile(r"/1/report/([a-z][a-z0-9-]{0,63})/([a-z][a-z0-9-]{0,63})")


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request that may be answered; `path` has no query.

    With `after`, the digest of a report that is known, the answer may wait so many seconds for one that differs. What
    a controller asks or sends has a body of so many bytes (`length`).
    """

    path: str
    has_body: bool
    after: str = ""
    seconds: float = 0.0
    length: int = 0


class BadRequest(errors.Refused):
    """What is asked is no request that is answered; `status` is HTTP's."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def parse(head: bytes) -> Asked:
    """Read the head of a request, up to and with its empty line; `has_body` says whether the answer has one.

    Raises: BadRequest 400 for anything that is none, 405 for what would change something, 413 for too long a question.
    """
    first, *headers = head.rstrip(b"\r\n").split(b"\n")
    found = _LINE.match(first)
    if not found or not all(_HEADER.match(header) for header in headers):
        raise BadRequest(400)
    method, target = found.group(1).decode(), found.group(2)
    if method == "POST" and target in _WITH_BODY:
        return Asked(target.decode(), has_body=True, length=_length(headers))
    if method not in _READABLE or target in _WITH_BODY:
        raise BadRequest(405)
    if not target.startswith(b"/") or not target.isascii():
        raise BadRequest(400)
    path, _, query = target.decode().partition("?")
    waits = _WAITS.fullmatch(query)
    after, seconds = waits.groups() if waits and method == "GET" else ("", "0")
    return Asked(path, has_body=method == "GET", after=after, seconds=float(seconds))


def _length(headers: Sequence[bytes]) -> int:
    found = [match for match in map(_LENGTH.match, headers) if match]
    length = int(found[0].group(1)) if len(found) == 1 else 0
    if not length:
        raise BadRequest(400)
    if length > votes.LIMIT:
        raise BadRequest(413)
    return length


def report_file(path: str) -> str:
    """The `CATEGORY/NAME` of the report that a path asks for, or "" where it is no such path."""
    found = _REPORT.fullmatch(path)
    return "/".join(found.groups()) if found else ""
