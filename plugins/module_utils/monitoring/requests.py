"""What a client asks the agent for: one request of HTTP/1, of which only the first line matters."""

from __future__ import annotations

import dataclasses
import re

from ..domain import errors

HEAD_LIMIT = 8192
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (\S{1,4096}) HTTP/1\.[0-9]\r?\Z")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*\r?\Z")
_READABLE = frozenset(("GET", "HEAD"))
_WAITS = re.compile("after=([0-9a-f]{64})&seconds=([0-9]{1,2})")
_REPORT = re.compile(r"/1/report/([a-z][a-z0-9-]{0,63})/([a-z][a-z0-9-]{0,63})")


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request that may be answered; `path` has no query.

    With `after`, the digest of a report that is known, the answer may wait so many seconds for one that differs.
    """

    path: str
    has_body: bool
    after: str = ""
    seconds: float = 0.0


class BadRequest(errors.Refused):
    """What is asked is no request that is answered; `status` is HTTP's."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


def parse(head: bytes) -> Asked:
    """Read the head of a request, up to and with its empty line; `has_body` says whether the answer has one.

    Raises: BadRequest 400 for anything that is none, 405 for what would change something.
    """
    first, *headers = head.rstrip(b"\r\n").split(b"\n")
    found = _LINE.match(first)
    if not found or not all(_HEADER.match(header) for header in headers):
        raise BadRequest(400)
    method, target = found.group(1).decode(), found.group(2)
    if method not in _READABLE:
        raise BadRequest(405)
    if not target.startswith(b"/") or not target.isascii():
        raise BadRequest(400)
    path, _, query = target.decode().partition("?")
    waits = _WAITS.fullmatch(query)
    after, seconds = waits.groups() if waits and method == "GET" else ("", "0")
    return Asked(path, has_body=method == "GET", after=after, seconds=float(seconds))


def report_file(path: str) -> str:
    """The `CATEGORY/NAME` of the report that a path asks for, or "" where it is no such path."""
    found = _REPORT.fullmatch(path)
    return "/".join(found.groups()) if found else ""
