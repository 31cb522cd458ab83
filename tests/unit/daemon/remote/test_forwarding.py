from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from ansible_collections.roundsman.cluster.daemon.remote import forwarding
from ansible_collections.roundsman.cluster.plugins.plugin_utils import unix_sockets

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = forwarding.Request("GET", b"/2/info?x=%41", [(b"accept", b"a/b"), (b"te", b"trailers")], b"", "rita")


def forwarded(path: Path, answer: bytes) -> tuple[bytes, list[dict[str, Any]]]:
    """What a daemon that gives this answer is asked, and what is sent back."""
    asked, sent = bytearray(), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.extend(await reader.readuntil(b"\r\n\r\n"))
        if answer:
            writer.write(answer)
            writer.close()
        else:
            await reader.read()
            writer.close()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def run() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unix_sockets.short_name(path) as name:
            server = await asyncio.start_unix_server(serve, name)
        daemon = forwarding.Daemon(path)
        async with server:
            await daemon.forward(REQUEST, send)
            await daemon.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    return bytes(asked), sent


def test_target_and_chosen_headers_reach_the_daemon_as_they_are(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120) / "socket"
    asked, sent = forwarded(long, b"HTTP/1.1 200 OK\r\nDate: now\r\nETag: 1\r\nContent-Length: 2\r\n\r\n{}")
    assert asked.startswith(b"GET /2/info?x=%41 HTTP/1.1\r\n")
    assert b"accept: a/b" in asked.lower()
    assert b"x-roundsman-user: rita" in asked.lower()
    assert b"trailers" not in asked
    assert (sent[0]["status"], dict(sent[0]["headers"])) == (200, {b"etag": b"1", b"content-length": b"2"})
    assert b"".join(one.get("body", b"") for one in sent) == b"{}"


def test_an_answer_that_breaks_off_is_not_passed_on_as_whole(tmp_path: Path) -> None:
    _, sent = forwarded(tmp_path / "socket", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")
    assert sent[-1] == {"type": "http.response.body", "body": b"{}", "more_body": True}


def test_what_is_no_http_is_no_answer(tmp_path: Path) -> None:
    _, sent = forwarded(tmp_path / "socket", b"what?\r\n\r\n")
    assert sent[0]["status"] == 503


def test_a_daemon_that_hangs_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "TIMES", httpx.Timeout(5, read=0.05))
    _, sent = forwarded(tmp_path / "socket", b"")
    assert sent[0]["status"] == 504


def test_work_is_ended_when_the_client_goes_and_its_errors_come_out() -> None:
    ended = []

    async def gone() -> None:
        return

    async def stays() -> None:
        await asyncio.Event().wait()

    async def work() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        ended.append("work")

    async def fails() -> None:
        raise OSError

    asyncio.run(asyncio.wait_for(forwarding.until_gone(gone, work()), 60))
    assert ended == ["work"]
    with pytest.raises(OSError):  # noqa: PT011 - it has no text
        asyncio.run(asyncio.wait_for(forwarding.until_gone(stays, fails()), 60))
