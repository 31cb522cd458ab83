from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from ansible_collections.roundsman.cluster.daemon import writing
from ansible_collections.roundsman.cluster.plugins.module_utils.domain.values import errors

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 20.0


def test_writes_are_done_one_after_the_other_in_their_order_and_not_by_the_event_loop() -> None:
    done: list[tuple[int, bool]] = []

    async def story() -> None:
        writer, loop = writing.Writer("files"), threading.get_ident()

        def write(number: int) -> int:
            done.append((number, threading.get_ident() == loop))
            return number

        assert await asyncio.gather(*(writer.write(write, number) for number in range(100))) == [*range(100)]

    asyncio.run(story())
    assert done == [(number, False) for number in range(100)]


def test_a_write_that_fails_fails_its_caller_only() -> None:
    def fail() -> None:
        raise errors.StoreFailed("the disk is full")

    async def story() -> None:
        writer = writing.Writer("files")
        failing, other = asyncio.ensure_future(writer.write(fail)), asyncio.ensure_future(writer.write(lambda: 5))
        with pytest.raises(errors.StoreFailed, match="full"):
            await failing
        assert await other == 5

    asyncio.run(story())


def held(begun: threading.Event, over: threading.Event, then: Callable[[], None]) -> None:
    begun.set()
    over.wait(LIMIT)
    then()


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_canceled_caller_cancels_no_write_be_it_begun_or_not(is_begun: bool) -> None:
    written: list[str] = []
    begun, over = threading.Event(), threading.Event()

    async def story() -> None:
        writer = writing.Writer("files")
        first = asyncio.ensure_future(writer.write(held, begun, over, lambda: written.append("first")))
        second = asyncio.ensure_future(writer.write(written.append, "second"))
        await asyncio.to_thread(begun.wait, LIMIT)
        (first if is_begun else second).cancel()
        await asyncio.sleep(0)
        over.set()
        await writer.write(written.append, "third")

    asyncio.run(story())
    assert written == ["first", "second", "third"]


def test_a_failure_that_nobody_waits_for_any_more_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    begun, over = threading.Event(), threading.Event()

    def fail() -> None:
        raise errors.StoreFailed("the disk is full")

    async def story() -> None:
        writer = writing.Writer("files")
        left = asyncio.ensure_future(writer.write(held, begun, over, fail))
        await asyncio.to_thread(begun.wait, LIMIT)
        left.cancel()
        await asyncio.sleep(0)
        over.set()
        await writer.write(lambda: None)

    asyncio.run(story())
    assert "files: nobody waits any more for a write that failed: the disk is full" in caplog.text
