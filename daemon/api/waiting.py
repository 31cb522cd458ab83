"""Requests that wait for a change: each ends when its client goes away, and a user has a bounded number of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from fastapi.responses import Response
from starlette.exceptions import HTTPException

from .answers import Json
from .asking import Door, Requester

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from fastapi import Request

GONE = 499
"""The status of a request whose client went away; nobody reads it."""
MOST = {Door.SOCKET: 200, Door.REMOTE: 50, Door.PUBLIC: 500}
"""Requests of one user that wait at once."""


class Waits:
    """Counts the requests of each user that wait."""

    def __init__(self) -> None:
        self._waiting: Counter[tuple[Door, str]] = Counter()

    async def answer(self, request: Request, who: Requester, wait: Coroutine[Any, Any, Any]) -> Response:
        """What `wait` returns, as JSON, unless the client goes away before; its body must have been read.

        Raises:
            HTTPException: too many requests of this user wait.
        """
        key, most = (who.door, who.user), MOST[who.door]
        if self._waiting[key] >= most:
            wait.close()
            raise HTTPException(429, f"{most} requests of {who.user} wait already: end some of them, then retry")
        self._waiting[key] += 1
        try:
            return await _until_gone(request, wait)
        finally:
            self._waiting[key] -= 1
            self._waiting += Counter()  # forgets users without requests


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
