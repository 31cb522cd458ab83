"""While the daemon is read-only after repeated defects, requests may read, import a configuration, and resume it.

A configuration may be the cause of the defect, so the import that removes it is accepted; the remote API has none.
Plays by hand may record.

What a play by hand records is true already: without the record a later decision would rely on what is false. The play
holds the locks of what it records, and nothing else is at work. If the writer of the configuration is what is
defective, the record fails and ends the daemon, which starts read-only again.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ...plugins.module_utils.domain import permissions
from ..serving import problems

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..abnormal_ends import ReadOnly

ACCEPTED = frozenset({("PUT", "/2/pause"), ("PUT", "/2/config"), ("POST", "/2/record")})


class Guard:
    """ASGI middleware: 503 with the reason and the remedy for what would change something."""

    def __init__(self, app: Callable[..., Awaitable[None]], *, read_only: ReadOnly) -> None:
        self._app = app
        self._read_only = read_only

    async def __call__(self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Pass a request on, or answer it."""
        is_write = scope["type"] == "http" and permissions.is_write(scope["method"], scope["path"])
        if self._read_only.reason and is_write and (scope["method"], scope["path"]) not in ACCEPTED:
            await problems.answer(
                send, HTTPStatus.SERVICE_UNAVAILABLE, f"{self._read_only.reason}; {self._read_only.remedy}"
            )
            return
        await self._app(scope, receive, send)
