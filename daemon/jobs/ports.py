"""What the job queue works with: the parts of the daemon that jobs touch, and what of the queue an opcode needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..failures import Failures

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from ...plugins.plugin_utils.opcodes import contract
    from ..configuration import Configuration
    from ..locks.desk import Desk
    from . import values
    from .process import Processes
    from .store import Store


async def _clear(_instances: Collection[str], _nodes: Collection[str]) -> None:
    """No other controller ever led."""


@dataclass(frozen=True)
class Ports:
    """The parts of the daemon that jobs touch; `environment` is that of every run.

    `failed` is given the text of each opcode that failed on nodes. `clear` returns once no step of another controller
    can be at work on instances (UUIDs), or nodes (UUIDs) that an opcode reaches for them.
    """

    store: Store
    desk: Desk
    processes: Processes
    configuration: Configuration
    facts: contract.Facts
    environment: Mapping[str, str]
    clock: Callable[[], float]
    failures: Failures = field(default_factory=Failures)
    failed: Callable[[str], None] = lambda _: None
    clear: Callable[[Collection[str], Collection[str]], Awaitable[None]] = _clear


class Submit(Protocol):
    """What an opcode that submits jobs needs of the queue."""

    def reserve(self, count: int) -> list[int]:
        """Numbers for new jobs."""

    def submit(self, jobs: Sequence[values.Job]) -> Awaitable[object]:
        """Make jobs durable and let them begin; those that are there already stay as they are."""


class Turns(Protocol):
    """What an opcode at work needs of the scheduler that let its job in."""

    def lock_attempts(self, number: int, *, seconds: float | None) -> AbstractAsyncContextManager[None]:
        """As long as this lasts a job waits for its locks, and keeps nobody out.

        Raises:
            TimeoutError: its attempts at its priority are used up.
        """

    async def take_slot(self, number: int) -> None:
        """Wait for a slot for a job that has its locks; one that has a slot keeps it."""
