"""What is forwarded, and for whom."""

from __future__ import annotations

from ...plugins.plugin_utils.settings import permissions
from .users import Access

METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})


def is_forwarded(path: str) -> bool:
    """Whether a path, with its escapes resolved, is one of the remote API's: plain segments, and no local ones."""
    if path in {"/", "/version", "/2"}:
        return True
    segments = path.removeprefix("/2/").split("/")
    if not path.startswith("/2/") or any(segment in {"", ".", ".."} for segment in segments):
        return False
    return segments[0] not in permissions.LOCAL_ONLY


def is_allowed(access: Access, *, method: str, path: str) -> bool:
    """Whether a user of this access may ask for it."""
    return access is Access.WRITE or permissions.is_reading(method, path)
