"""Asking the nodes' agents who leads."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from ansible_collections.roundsman.cluster.plugins.plugin_utils import http_reads, voting

from tests.unit import small_cluster


def test_who_is_canceled_while_nodes_are_silent_leaves_no_question_on_its_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on_their_way, is_asked = 0, asyncio.Event()

    async def silent(*_: Any, **__: Any) -> tuple[int, bytes]:
        nonlocal on_their_way
        on_their_way += 1
        is_asked.set()
        try:
            await asyncio.Event().wait()
            raise AssertionError
        finally:
            on_their_way -= 1

    async def scenario() -> None:
        nodes = [*small_cluster.make().nodes.values()]
        asking = asyncio.create_task(voting.ask(nodes, 1817, key=b"key", seconds=60))
        await is_asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert on_their_way == 0

    monkeypatch.setattr(http_reads, "post", silent)
    asyncio.run(scenario())
    gc.collect()
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []
