from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.serving import readiness

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)


def test_the_descriptor_is_told_and_closed() -> None:
    reading, writing = os.pipe()
    readiness.tell(writing)
    with os.fdopen(reading, "rb") as stream:
        assert stream.read() == b"ready\n"


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_told_once_and_what_is_started_here_cannot_speak_for_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_abstract: bool
) -> None:
    name = f"\0roundsman-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        listener.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
        readiness.tell(None)
        assert listener.recv(100) == b"READY=1"
    assert "NOTIFY_SOCKET" not in os.environ
    readiness.tell(None)


def test_systemd_is_asked_to_wait_for_as_long_as_a_start_takes_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setattr(readiness, "BETWEEN", 0.001)

    async def story(listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with readiness.still_starting():
            for _ in range(3):
                assert await loop.sock_recv(listener, 100) == b"EXTEND_TIMEOUT_USEC=60000000"
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)
        assert all(task.cancelled() for task in others)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        asyncio.run(story(listener))
    assert "NOTIFY_SOCKET" in os.environ
