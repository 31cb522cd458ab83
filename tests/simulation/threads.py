"""Threads of the daemon as pieces of work: each is done at one moment, and its end is heard at a later one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tests.simulation.world import World

SOONEST = 1e-6
"""Seconds from one answer of a thread to its next."""
LONGEST = 0.02
"""Seconds that most pieces take at the most; one in ten takes up to fifty times as much."""


def to_thread(world: World) -> Callable[..., Awaitable[Any]]:
    """As `asyncio.to_thread`: who is canceled while it waits does not end the work."""

    async def called(act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await _done(world, lambda: act(*args, **options))

    return called


def in_own_thread(world: World) -> Callable[[Callable[[], object]], Awaitable[None]]:
    async def called(act: Callable[[], object]) -> None:
        await _done(world, act)

    return called


def _done(world: World, act: Callable[[], Any]) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def tell(result: Any, error: Exception | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = _work(world, act)
        except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
            failure = error
        loop.call_later(_pause(world), tell, result, failure)

    loop.call_later(_pause(world), work)
    return future


class _Line:
    """What one thread has to do, in its order, and until when its answers are on their way."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], Callable[[], None]]] = deque()
        self.heard = 0.0


def in_order(world: World) -> Callable[[Any, Callable[[], Callable[[], None]]], None]:
    """As the thread of a `Writer`: one piece of work after the other, whose answers are heard in that order."""
    lines: weakref.WeakKeyDictionary[Any, _Line] = weakref.WeakKeyDictionary()

    def work(line: _Line) -> None:
        loop = asyncio.get_running_loop()
        answer = _work(world, line.waiting[0])
        line.heard = max(line.heard + SOONEST, loop.time() + _pause(world))
        loop.call_at(line.heard, answer)
        line.waiting.popleft()
        if line.waiting:
            loop.call_later(_pause(world), work, line)

    def submit(writer: Any, act: Callable[[], Callable[[], None]]) -> None:
        line = lines.setdefault(writer, _Line())
        line.waiting.append(act)
        if len(line.waiting) == 1:
            asyncio.get_running_loop().call_later(_pause(world), work, line)

    return submit


def _work(world: World, act: Callable[[], Any]) -> Any:
    """Do a piece of work of a thread; the daemon may be killed before and after."""
    world.refuse_the_dead()
    if world.happens("kill-in-thread"):
        world.kill("before a thread's work")
    world.in_thread = True
    try:
        return act()
    finally:
        world.in_thread = False
        if world.happens("kill-in-thread"):
            world.kill("after a thread's work")


def _pause(world: World) -> float:
    chances = world.rng("threads")
    return chances.random() * LONGEST * (50 if chances.random() < 0.1 else 1)


class Pool:
    """A pool whose work is done at once, in its order."""

    def __init__(self, *_words: Any) -> None:
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.closed = True

    def map(self, act: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
        return [act(thing) for thing in things]

    def submit(self, act: Callable[..., Any], *args: Any, **options: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(act(*args, **options))
        except Exception as error:  # noqa: BLE001 - as a pool does
            future.set_exception(error)
        return future
