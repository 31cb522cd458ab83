"""Requests that wait for a change: each ends when its client goes away, and a user has a bounded number of them.

Behind the public door there are no users: an address has a bounded number, and all together have fewer than there are
connections, so that waiting alone keeps nobody out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ...plugins.module_utils.domain.values import origins
from .answers import Json
from .asking import Door, Requester

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fastapi import Request

GONE = 499
"""The status of a request whose client went away; nobody reads it."""
MOST = {Door.SOCKET: 200, Door.REMOTE: 50, Door.PUBLIC: 50}
"""Requests of one user, or one address behind the public door, that wait at once."""
MOST_PUBLIC = 300
"""Requests that wait at once behind the public door, which has 500 connections."""
REFUSED = {"Connection": "close"}
"""Behind the public door the connection of a request that may not wait is free at once, not after its idle time."""


class Waits:
    """Counts the requests of each user that wait."""

    def __init__(self) -> None:
        self._waiting: Counter[tuple[Door, str]] = Counter()

    @property
    def _public(self) -> int:
        return sum(count for (door, _), count in self._waiting.items() if door is Door.PUBLIC)

    async def answer(self, request: Request, who: Requester, wait: Coroutine[Any, Any, Any]) -> Response:
        """What `wait` returns, as JSON, unless the client goes away before; its body must have been read.

        Raises:
            HTTPException: too many requests of this user or address, or of all addresses, wait.
        """
        whose = _address(request) if who.door is Door.PUBLIC else who.user
        key, most = (who.door, whose), MOST[who.door]
        if self._waiting[key] >= most:
            wait.close()
            text = f"{most} requests of {whose} wait already: end some of them, then retry"
            raise HTTPException(429, text, headers=REFUSED if who.door is Door.PUBLIC else None)
        if who.door is Door.PUBLIC and self._public >= MOST_PUBLIC:
            wait.close()
            text = f"{MOST_PUBLIC} requests wait already: retry later, or without waiting"
            raise HTTPException(429, text, headers=REFUSED)
        self._waiting[key] += 1
        try:
            return await _until_gone(request, wait)
        finally:
            self._waiting[key] -= 1
            self._waiting += Counter()  # forgets users without requests


def _address(request: Request) -> str:
    return origins.origin(request.client.host if request.client else "")


async def _until_gone(request: Request, wait: Coroutine[Any, Any, Any]) -> Response:
    working, going = asyncio.ensure_future(wait), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, going}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, going):
            task.cancel()
        await asyncio.wait({working, going})
    return Response(status_code=GONE) if working.cancelled() else Json(working.result())


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
