"""What holds for all tests of the daemon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.unit.daemon import twins

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_task_outlives_its_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What does would be collected, and complained about, in the middle of another test.

    A loop that ends cancels each task once, and a queue that is not stopped by then starts its jobs again.
    """
    left: list[asyncio.Task[object]] = []
    close = asyncio.Runner.close

    def closed(runner: asyncio.Runner) -> None:
        loop = runner.get_loop()
        while twins.assembled:
            twins.assembled.pop().queue._scheduler._is_over = True
        close(runner)
        left.extend(asyncio.all_tasks(loop))

    monkeypatch.setattr(asyncio.Runner, "close", closed)
    yield
    twins.assembled.clear()
    assert left == []
