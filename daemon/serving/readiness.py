"""Telling the process that started a daemon that it serves: through a descriptor, and systemd through its socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EXTENSION, BETWEEN = 60, 20.0
"""For how many seconds systemd is asked to wait, and how often."""


def tell(descriptor: int | None) -> None:
    """Say once that requests are answered; a process that did not ask is not told.

    Raises:
        OSError: the process that asked for it has ended.
    """
    if descriptor is not None:
        os.write(descriptor, b"ready\n")
        os.close(descriptor)
    # Taken out of the environment, so that nothing that is started here speaks for the daemon.
    _notify(os.environ.pop("NOTIFY_SOCKET", ""), "READY=1")


def say(text: str) -> None:
    """Have `systemctl status` show what the daemon waits for, on one line."""
    _notify(os.environ.get("NOTIFY_SOCKET", ""), f"STATUS={text}")


@contextlib.asynccontextmanager
async def still_starting() -> AsyncIterator[None]:
    """Keep systemd from ending the daemon because its start takes long, for as long as the block lasts."""

    async def extend() -> None:
        while True:
            _notify(os.environ.get("NOTIFY_SOCKET", ""), f"EXTEND_TIMEOUT_USEC={EXTENSION * 1000000}")
            await asyncio.sleep(BETWEEN)

    task = asyncio.get_running_loop().create_task(extend())
    try:
        yield
    finally:
        task.cancel()


def _notify(address: str, text: str) -> None:
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(text.encode(), "\0" + address[1:] if address.startswith("@") else address)
