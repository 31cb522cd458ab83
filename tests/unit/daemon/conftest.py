"""What holds for all tests of the daemon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_task_outlives_its_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What does would be collected, and complained about, in the middle of another test."""
    left: list[asyncio.Task[object]] = []
    close = asyncio.Runner.close

    def closed(runner: asyncio.Runner) -> None:
        loop = runner.get_loop()
        close(runner)
        left.extend(task for task in asyncio.all_tasks(loop))

    monkeypatch.setattr(asyncio.Runner, "close", closed)
    yield
    assert left == []
