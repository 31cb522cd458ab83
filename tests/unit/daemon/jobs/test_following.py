"""A log is answered, without being followed, when the kernel has nothing left to follow it with."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

from ansible_collections.roundsman.cluster.daemon.jobs import following

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_without_a_descriptor_for_inotify_nobody_is_told_and_nothing_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop, (soft, hard) = asyncio.new_event_loop(), resource.getrlimit(resource.RLIMIT_NOFILE)
    with following.lines(tmp_path, lambda: None, loop=loop):
        pass
    is_entered = False
    # Descriptors that are open stay so; no further one can be opened.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with following.lines(tmp_path, lambda: None, loop=loop):
            is_entered = True
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        loop.close()
    assert is_entered
    assert "cannot be followed" in caplog.text
