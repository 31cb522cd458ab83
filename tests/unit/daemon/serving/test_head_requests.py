"""HEAD as GET, seen by the server: clients drop a body that should not be there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.roundsman.cluster.daemon.serving import head_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.mark.parametrize(("method", "bodies"), [("HEAD", [b"", b""]), ("GET", [b"some", b"thing"])])
def test_the_application_sees_a_get_and_only_a_get_has_a_body(method: str, bodies: list[bytes]) -> None:
    sent = list[dict[str, Any]]()
    headers = [(b"content-length", b"9")]

    async def application(scope: dict[str, Any], _receive: Any, send: Callable[..., Awaitable[None]]) -> None:
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        await send({"type": "http.response.body", "body": b"thing"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    head = head_requests.HeadAsGet(application)
    asyncio.run(head({"type": "http", "method": method, "path": "/"}, receive, send))
    assert (sent[0]["status"], sent[0]["headers"]) == (200, headers)
    assert [message["body"] for message in sent[1:]] == bodies
    assert sent[1]["more_body"] is True
