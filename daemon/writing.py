"""Writes off the event loop, one after the other in a thread of their own, in the order in which they are asked for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from concurrent import futures
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


async def to_its_end(task: asyncio.Task[T]) -> T:
    """What a task returns; a caller that is canceled is so when it is over."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("nobody waits any more for what failed", exc_info=error)  # noqa: TRY400 - not the cancelation did
        raise


class Writer:
    """A thread that writes; nothing else delays it, as it would in the threads that all parts of the daemon share."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread = futures.ThreadPoolExecutor(1, name)

    async def write(self, act: Callable[P, T], *words: P.args, **options: P.kwargs) -> T:
        """Have something written, and return what it returns; a caller that is canceled meanwhile cancels no write."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def answer(tell: Callable[[], None], error: Exception | None) -> None:
            if not done.done():
                tell()
            elif error is not None:
                LOG.error("%s: nobody waits any more for a write that failed: %s", self._name, error)

        def work() -> Callable[[], None]:
            try:
                return functools.partial(answer, functools.partial(done.set_result, act(*words, **options)), None)
            except Exception as error:  # noqa: BLE001 - it is raised where the write is awaited
                return functools.partial(answer, functools.partial(done.set_exception, error), error)

        self._submit(work)
        return await done

    def _submit(self, work: Callable[[], Callable[[], None]]) -> None:
        """Do it in the thread, and call what it returns in the event loop."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            answer = work()
            if not loop.is_closed():
                loop.call_soon_threadsafe(answer)

        self._thread.submit(run)
