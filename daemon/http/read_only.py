"""While the daemon is held after repeated defects, requests may read, and resume it; nothing else."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from ...plugins.plugin_utils import problems

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..abnormal_ends import Hold

RESUME = ("PUT", "/2/pause")


class Holding:
    """ASGI middleware: 503 with the reason and the remedy for what would change something."""

    def __init__(self, app: Callable[..., Awaitable[None]], *, hold: Hold) -> None:
        self._app = app
        self._hold = hold

    async def __call__(self, scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
        """Pass a request on, or answer it."""
        is_write = scope["type"] == "http" and scope["method"] not in {"GET", "HEAD"}
        if self._hold.reason and is_write and (scope["method"], scope["path"]) != RESUME:
            await problems.answer(send, HTTPStatus.SERVICE_UNAVAILABLE, f"{self._hold.reason}; {self._hold.REMEDY}")
            return
        await self._app(scope, receive, send)
