"""While the daemon is read-only after repeated defects, requests may read, import a configuration, and resume it.

A configuration may be the cause of the defect, so the import that removes it is accepted; the remote API has none.
Plays by hand may record.

What a play by hand records is true already: without the record a later decision would rely on what is false. The play
holds the locks of what it records, and nothing else is at work. If the writer of the configuration is what is
defective, the record fails and ends the daemon, which starts read-only again.

While a failed disk keeps the daemon from writing its state again, it answers no questions: a job that has ended may be
queued after a loss of power. `/1/health` says so.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils.settings import permissions
from ..serving import problems

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..abnormal_ends import ReadOnly

ACCEPTED = frozenset({("PUT", "/2/pause"), ("PUT", "/2/config"), ("POST", "/2/record")})
HEALTH = ("GET", "/1/health")


class Guard:
    """ASGI middleware: 503 with the reason and the remedy for what would change something, or may not be true."""

    def __init__(self, app: Callable[..., Awaitable[None]], *, read_only: ReadOnly) -> None:
        self._app = app
        self._read_only = read_only

    async def __call__(self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Pass a request on, or answer it."""
        if self._read_only.reason and scope["type"] == "http" and self._is_refused(scope["method"], scope["path"]):
            await problems.answer(
                send, HTTPStatus.SERVICE_UNAVAILABLE, f"{self._read_only.reason}; {self._read_only.remedy}"
            )
            return
        await self._app(scope, receive, send)

    def _is_refused(self, method: str, path: str) -> bool:
        if (method, path) in ACCEPTED:
            return False
        if self._read_only.is_uncertain:
            return (method, path) != HEALTH
        return permissions.is_write(method, path)
