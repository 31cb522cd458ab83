"""The power of suspects, read at their BMCs again and again, and since when each has read off without a break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...plugins.module_utils.domain.power import power
from ...plugins.module_utils.domain.values import errors
from .. import bmc_reader
from ..failures import Failures
from ..jobs import process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

PART = "power of suspects"
AGAIN = 10.0
"""Seconds from a BMC's answer to the next question."""
PAUSE = 1.0
"""Seconds from one process that reads BMCs to the next: nodes that are due meanwhile are read by one."""
LATE = 75.0
"""An answer that took longer, in seconds, says nothing: this process was suspended meanwhile."""
STALE = 120.0
"""An answer that is older, in seconds, is none."""
REAP_SECONDS = 5.0
LONGEST_LINE = 64 * 1024
LONGEST_ERROR = 500


def boot_time() -> float:
    """Seconds since this machine was started, those while it was suspended among them; no step of the clock counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class Target:
    """A node whose power is to be read, by its name and the driver of its BMC.

    `since` is when its silence began, 0 where it has not missed a question, `alive_at` its last sign of life on record:
    what was read before another one of either says nothing.
    """

    name: str
    driver: str
    since: float
    alive_at: float

    def is_followed_by(self, later: Target) -> bool:
        """Whether nothing has been heard of the node in between."""
        return self.alive_at == later.alive_at and self.since in {0, later.since}


@dataclass
class _Watch:
    """What is known of one target: the last answer, and when it came (`boot_time`)."""

    target: Target
    due: float
    state: power.State | None = None
    at: float = 0.0

    def take(self, state: power.State, *, at: float) -> bool:
        """Take one more answer; returns whether it is another one."""
        before, self.state, self.at = self.state, state, at
        return state is not before


class PowerReadings:
    """Reads the power of the nodes that `watch` names, one question at a time for each BMC.

    `read` reads nodes (drivers by name) and gives their outcomes as they come. Nodes (UUIDs) that are to be left alone
    are not read, and what is known of them is kept. `on_change` is called when a BMC says something new.
    """

    def __init__(
        self,
        read: Callable[[Mapping[str, str]], AsyncIterator[power.Outcome]],
        *,
        is_left_alone: Callable[[str], bool],
        on_change: Callable[[], None],
        clock: Callable[[], float] = boot_time,
        failures: Failures | None = None,
    ) -> None:
        self._read = read
        self._is_left_alone = is_left_alone
        self._on_change = on_change
        self._clock = clock
        self._failures = failures or Failures()
        self._watched: dict[str, _Watch] = {}
        self._in_flight: set[str] = set()
        self._awake = asyncio.Event()

    def watch(self, targets: Mapping[str, Target]) -> None:
        """Read these nodes (UUIDs) from now on, and forget what is known of all others."""
        for uuid in self._watched.keys() - targets.keys():
            del self._watched[uuid]
        for uuid, target in targets.items():
            known = self._watched.get(uuid)
            if known is not None and known.target.is_followed_by(target):
                known.target = target
            else:
                self._watched[uuid] = _Watch(target, due=0.0)
                self._awake.set()
        if not targets:
            # Nothing is retried any more.
            self._failures.recovered(PART)

    def state(self, node: str) -> power.State | None:
        """What the BMC of a node (UUID) said last; None where it was not asked, or has not answered for long."""
        known = self._watched.get(node)
        return known.state if known is not None and self._clock() - known.at <= STALE else None

    def commanded(self, node: str, outcome: power.Outcome) -> None:
        """Take what a job that commanded the power of a node (UUID) has read, at its end."""
        if (known := self._watched.get(node)) is not None:
            known.take(power.State.ON if outcome.read_on else outcome.after, at=self._clock())

    async def run(self) -> None:
        """Read for ever."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                self._awake.clear()
                batch = self._due(loop.time())
                if batch:
                    self._in_flight |= batch.keys()
                    group.create_task(self._read_batch(batch))
                    await asyncio.sleep(PAUSE)
                    continue
                waiting = [known.due for uuid, known in self._watched.items() if uuid not in self._in_flight]
                pause = max(PAUSE, min(waiting) - loop.time()) if waiting else None
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._awake.wait(), pause)

    def _due(self, now: float) -> dict[str, _Watch]:
        """The targets (UUIDs) whose turn it is, those that have waited longest."""
        free = bmc_reader.AT_ONCE - len(self._in_flight)
        due = [uuid for uuid, known in self._watched.items() if known.due <= now and uuid not in self._in_flight]
        ready = [
            uuid for uuid in sorted(due, key=lambda uuid: self._watched[uuid].due) if not self._is_left_alone(uuid)
        ]
        return {uuid: self._watched[uuid] for uuid in ready[:free]}

    async def _read_batch(self, batch: Mapping[str, _Watch]) -> None:
        began, left = self._clock(), {known.target.name: uuid for uuid, known in batch.items()}
        try:
            async for outcome in self._read({known.target.name: known.target.driver for known in batch.values()}):
                if uuid := left.pop(outcome.name, ""):
                    self._answered(uuid, batch[uuid], outcome.after, began=began)
            self._failures.recovered(PART)
        except (errors.RoundsmanError, OSError, ValueError) as error:
            if self._watched:
                self._failures.failed(PART, error, remedy="see the error; it is retried every few seconds")
        finally:
            for uuid in left.values():
                self._answered(uuid, batch[uuid], power.State.UNKNOWN, began=began)

    def _answered(self, uuid: str, asked: _Watch, state: power.State, *, began: float) -> None:
        self._in_flight.discard(uuid)
        self._awake.set()
        asked.due = asyncio.get_running_loop().time() + AGAIN
        if self._watched.get(uuid) is not asked:
            return
        now = self._clock()
        if asked.take(state if now - began <= LATE else power.State.UNKNOWN, at=now):
            self._on_change()


class Reader:
    """Reads nodes in a process of its own (`bmc_reader`)."""

    def __init__(self, credentials: Path, environment: Mapping[str, str]) -> None:
        self._credentials = credentials
        self._environment = environment

    async def __call__(self, nodes: Mapping[str, str]) -> AsyncIterator[power.Outcome]:
        """The outcomes of these nodes (drivers by name), as they come; one that gives no answer has none.

        Raises:
            Failed: nothing could be read. OSError: the process could not be started.
        """
        child = await asyncio.create_subprocess_exec(
            *_words(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
            cwd="/",
            env={**process.inherited(), **self._environment},
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            async with asyncio.timeout(LATE):
                child.stdin.write(json.dumps({"credentials": str(self._credentials), "nodes": dict(nodes)}).encode())
                child.stdin.close()
                while line := await child.stdout.readline():
                    yield power.parse_outcome(json.loads(line))
                said = await child.stderr.read(LONGEST_ERROR)
                if await child.wait():
                    raise errors.Failed(said.decode(errors="replace").strip() or f"exit status {child.returncode}")
        except TimeoutError as error:
            raise errors.Failed(f"it did not end within {LATE:g} s") from error
        finally:
            if child.returncode is None:
                await _end(child)


async def _end(child: asyncio.subprocess.Process) -> None:
    """Kill a process with all that it has started; one that is stuck in the kernel is not waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            await child.communicate()


def _words() -> Sequence[str]:
    # -P: the working directory is no place for modules.
    return [sys.executable, "-Pm", bmc_reader.__name__]
