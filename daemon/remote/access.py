"""What is forwarded, and for whom."""

from __future__ import annotations

from .users import Access

LOCAL_ONLY = frozenset({"adopt", "hold", "record", "config"})
"""Resources below `/2` for who may open the socket: those of plays by hand, and what is all of the configuration."""
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


def is_forwarded(path: str) -> bool:
    """Whether a path, with its escapes resolved, is one of the remote API's: plain segments, and no local ones."""
    if path in {"/", "/version", "/2"}:
        return True
    segments = path.removeprefix("/2/").split("/")
    if not path.startswith("/2/") or any(one in {"", ".", ".."} for one in segments):
        return False
    return segments[0] not in LOCAL_ONLY


def is_reading(method: str, path: str) -> bool:
    """Whether a request changes nothing: Ganeti's queries are asked by PUT too."""
    return method in {"GET", "HEAD"} or (method == "PUT" and path.startswith("/2/query/") and path.count("/") == 3)  # noqa: PLR2004 - /2/query/WHAT


def is_allowed(access: Access, *, method: str, path: str) -> bool:
    """Whether a user of this access may ask for it."""
    return access is Access.WRITE or is_reading(method, path)
