"""The warm server and the daemon that started it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon.warm import server

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 60.0


@pytest.mark.parametrize("is_first", [True, False])
def test_a_server_whose_daemon_was_killed_ends_also_while_it_waits_for_another(
    tmp_path: Path, *, is_first: bool
) -> None:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not is_first:
        fcntl.flock(lock, fcntl.LOCK_EX)
    reading, life = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-Pm", server.__name__, str(tmp_path), str(reading)], pass_fds=(reading,), cwd="/"
    )
    os.close(reading)
    try:
        until = time.monotonic() + LIMIT
        while not _is_waiting(process.pid, tmp_path, is_first=is_first):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        # The kernel does this for a daemon that is killed.
        os.close(life)
        assert process.wait(LIMIT if is_first else 10.0) == 0
        assert not (tmp_path / server.SOCKET).exists()
    finally:
        process.kill()
        process.wait()
        os.close(lock)


def _is_waiting(pid: int, folder: Path, *, is_first: bool) -> bool:
    if is_first:
        return (folder / server.SOCKET).exists()
    opened = [os.path.realpath(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208
    return str(folder / "lock") in opened
